"""scikit-learn estimators: a model and its calibration in one object, and scorers to select models by."""

from vicinal.estimators import scorers
from vicinal.estimators.classifier import NeighborhoodClassifier
from vicinal.estimators.regressor import NeighborhoodRegressor
from vicinal.estimators.representation import LastStep

__all__ = ["LastStep", "NeighborhoodClassifier", "NeighborhoodRegressor", "scorers"]
