"""Past one machine: prediction and calibration on a Ray cluster, with the same answers to the bit."""

from vicinal.distributed.calibrate import calibrate, load
from vicinal.distributed.datasets import predict
from vicinal.distributed.job import predict_partitions

__all__ = ["calibrate", "load", "predict", "predict_partitions"]
