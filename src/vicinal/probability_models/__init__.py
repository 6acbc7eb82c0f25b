"""From what the model gave to the probabilities that scores read."""

from vicinal.probability_models.model import ProbabilityModel, probability_chunks
from vicinal.probability_models.temperature import TemperatureScaling
from vicinal.probability_models.votes import NeighborVotes

__all__ = ["NeighborVotes", "ProbabilityModel", "TemperatureScaling", "probability_chunks"]
