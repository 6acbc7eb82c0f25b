"""Probability models: they turn the outputs of a classifier into the probabilities that scores use."""

from vicinal.probability_models.chain import ProbabilityChain
from vicinal.probability_models.model import ProbabilityModel, probability_chunks
from vicinal.probability_models.temperature import TemperatureScaling
from vicinal.probability_models.views import MeanLogits, MeanProbabilities, ViewAverage, ViewMean
from vicinal.probability_models.votes import NeighborVotes

__all__ = [
    "MeanLogits",
    "MeanProbabilities",
    "NeighborVotes",
    "ProbabilityChain",
    "ProbabilityModel",
    "TemperatureScaling",
    "ViewAverage",
    "ViewMean",
    "probability_chunks",
]
