"""Prediction and calibration on a Ray cluster; the results equal those of one machine to the bit."""

from vicinal.distributed.calibrate import calibrate
from vicinal.distributed.datasets import predict
from vicinal.distributed.job import predict_partitions

__all__ = ["calibrate", "predict", "predict_partitions"]
