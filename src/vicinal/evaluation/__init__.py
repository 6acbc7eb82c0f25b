"""How good answers are: metrics, whether the neighborhood helps, the theory of the paper, drift."""

from vicinal.evaluation.diagnosis import Diagnosis, Groups, Paired, diagnose
from vicinal.evaluation.metrics import Evaluation, evaluate
from vicinal.evaluation.theory import Theory

__all__ = ["Diagnosis", "Evaluation", "Groups", "Paired", "Theory", "diagnose", "evaluate"]
