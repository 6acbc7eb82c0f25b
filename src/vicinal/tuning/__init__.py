"""Tuning: the smallest sets that rows which are not calibration rows can promise."""

from vicinal.tuning.choosing import tune
from vicinal.tuning.objectives import ClassGap, DecileGap, MeanSize, Objective
from vicinal.tuning.report import Candidate, TuningReport
from vicinal.tuning.searches import Bayesian, Grid, Search
from vicinal.tuning.space import Space

__all__ = [
    "Bayesian",
    "Candidate",
    "ClassGap",
    "DecileGap",
    "Grid",
    "MeanSize",
    "Objective",
    "Search",
    "Space",
    "TuningReport",
    "tune",
]
