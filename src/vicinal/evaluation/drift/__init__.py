"""Does the world still look like the calibration rows? Coverage as it goes, and a bet against exchangeability."""

from vicinal.evaluation.drift.martingale import Martingale
from vicinal.evaluation.drift.monitor import Drift, DriftMonitor

__all__ = ["Drift", "DriftMonitor", "Martingale"]
