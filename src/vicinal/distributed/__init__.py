"""Past one machine: prediction and calibration on a Ray cluster, with the same answers to the bit."""

from vicinal.distributed.calibrate import calibrate
from vicinal.distributed.datasets import predict
from vicinal.distributed.job import predict_partitions

__all__ = ["calibrate", "predict", "predict_partitions"]
