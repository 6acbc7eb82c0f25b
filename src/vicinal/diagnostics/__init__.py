"""Whether the neighborhood helps here, and what the theory of the paper says of these rows."""

from vicinal.diagnostics.diagnosis import Diagnosis, Groups, Paired, diagnose
from vicinal.diagnostics.theory import Theory

__all__ = ["Diagnosis", "Groups", "Paired", "Theory", "diagnose"]
