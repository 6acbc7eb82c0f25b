"""Rows that a predictor was calibrated or tuned on say nothing about others, and are refused."""

from __future__ import annotations

from vicinal._util.arrays import Floats
from vicinal._util.repeats import check_repeats
from vicinal.predictor.predictors import IntervalPredictor, SetPredictor


def check_unseen(predictor: SetPredictor | IntervalPredictor, marks: Floats, name: str) -> None:
    """Refuse rows, by their marks, that the predictor was calibrated or tuned on; `name` is what holds them."""
    groups = {"calibrated": predictor.seen, "tuned": None if predictor.tuning is None else predictor.tuning.seen}
    for what, seen in groups.items():
        if seen is not None:
            message = f"{name} holds rows that the predictor was {what} on ({{repeats}}); take other rows."
            check_repeats(seen, marks, message)
