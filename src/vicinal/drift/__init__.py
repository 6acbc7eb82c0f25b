"""Does the world still look like the calibration rows? Coverage as it goes, and a bet against exchangeability."""

from vicinal.drift.martingale import Martingale
from vicinal.drift.monitor import Drift, DriftMonitor

__all__ = ["Drift", "DriftMonitor", "Martingale"]
