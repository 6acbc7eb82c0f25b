"""scikit-learn estimators that train and calibrate a model, and scorers for model selection."""

from vicinal.estimators import scorers
from vicinal.estimators.classifier import NeighborhoodClassifier
from vicinal.estimators.regressor import NeighborhoodRegressor
from vicinal.estimators.representation import LastStep

__all__ = ["LastStep", "NeighborhoodClassifier", "NeighborhoodRegressor", "scorers"]
