"""Tuning: choose score, neighborhood and fitted parts on rows that are not calibration rows."""

from vicinal.tuning.objectives import ClassGap, DecileGap, ExcessRisk, MeanSize, Objective
from vicinal.tuning.report import Candidate, TuningReport
from vicinal.tuning.space import Space
from vicinal.tuning.strategies import Bayesian, Grid, Strategy
from vicinal.tuning.tune import tune

__all__ = [
    "Bayesian",
    "Candidate",
    "ClassGap",
    "DecileGap",
    "ExcessRisk",
    "Grid",
    "MeanSize",
    "Objective",
    "Space",
    "Strategy",
    "TuningReport",
    "tune",
]
