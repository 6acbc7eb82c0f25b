"""Calibrated predictors: calibrate, predict, and roll to newer rows."""

from vicinal.predictor.predictors import IntervalPredictor, Predictor, SetPredictor, check_outputs

__all__ = ["IntervalPredictor", "Predictor", "SetPredictor", "check_outputs"]
