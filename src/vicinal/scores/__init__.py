"""Nonconformity scores: how badly a label or a value fits the outputs of the model; small scores are typical."""

from vicinal.scores.aps import APS, RAPS
from vicinal.scores.cqr import CQR
from vicinal.scores.lac import LAC
from vicinal.scores.never_empty import NeverEmpty
from vicinal.scores.over_views import OverViews
from vicinal.scores.residuals import AbsoluteResidual, ScaledResidual
from vicinal.scores.scales import NeighborScales, ScaleModel
from vicinal.scores.score import ClassificationScore, RegressionScore, Score, SortedScore

__all__ = [
    "APS",
    "CQR",
    "LAC",
    "RAPS",
    "AbsoluteResidual",
    "ClassificationScore",
    "NeighborScales",
    "NeverEmpty",
    "OverViews",
    "RegressionScore",
    "ScaleModel",
    "ScaledResidual",
    "Score",
    "SortedScore",
]
