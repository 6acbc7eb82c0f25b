"""From what the model gave to the probabilities that scores read."""

from vicinal.probabilities.base import ProbabilityModel, probability_chunks
from vicinal.probabilities.temperature import TemperatureScaling
from vicinal.probabilities.votes import NeighborVotes

__all__ = ["NeighborVotes", "ProbabilityModel", "TemperatureScaling", "probability_chunks"]
