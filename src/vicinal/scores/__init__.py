"""Nonconformity scores: how badly a label or a value fits what the model said; small is typical."""

from vicinal.scores.base import ClassificationScore, RegressionScore, Score
from vicinal.scores.classification import APS, LAC, RAPS, NeverEmpty
from vicinal.scores.regression import CQR, AbsoluteResidual, ScaledResidual

__all__ = [
    "APS",
    "CQR",
    "LAC",
    "RAPS",
    "AbsoluteResidual",
    "ClassificationScore",
    "NeverEmpty",
    "RegressionScore",
    "ScaledResidual",
    "Score",
]
