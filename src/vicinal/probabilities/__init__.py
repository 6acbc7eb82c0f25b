"""From what the model gave to the probabilities that scores read."""

from vicinal.probabilities.base import ProbabilityModel, probability_chunks
from vicinal.probabilities.temperature import TemperatureScaling

__all__ = ["ProbabilityModel", "TemperatureScaling", "probability_chunks"]
