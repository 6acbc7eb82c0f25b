"""Calibrated predictors: how they are made, what they answer, how they roll on."""

from vicinal.predictor.predictors import IntervalPredictor, Predictor, SetPredictor, check_outputs

__all__ = ["IntervalPredictor", "Predictor", "SetPredictor", "check_outputs"]
