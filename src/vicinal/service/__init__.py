"""Prediction sets over HTTP: one file for each idea; `vicinal serve` runs it, `vicinal.Client` sends requests to it."""
