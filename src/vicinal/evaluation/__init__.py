"""Evaluate answers: metrics, comparison with one threshold for all rows, the theory of the paper, and drift."""

from vicinal.evaluation.diagnosis import Diagnosis, Groups, Paired, diagnose
from vicinal.evaluation.metrics import Evaluation, evaluate
from vicinal.evaluation.theory import Theory

__all__ = ["Diagnosis", "Evaluation", "Groups", "Paired", "Theory", "diagnose", "evaluate"]
