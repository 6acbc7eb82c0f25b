"""Drift: coverage on a stream of rows, and a test of exchangeability with the calibration rows."""

from vicinal.evaluation.drift.martingale import Martingale
from vicinal.evaluation.drift.monitor import Drift, DriftMonitor

__all__ = ["Drift", "DriftMonitor", "Martingale"]
