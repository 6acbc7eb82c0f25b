"""Detect rows on which a predictor was calibrated or tuned: evaluation on them would be misleading."""

from __future__ import annotations

from vicinal._util.arrays import Floats
from vicinal._util.repeats import check_repeats
from vicinal.predictor.predictors import IntervalPredictor, SetPredictor


def check_unseen(predictor: SetPredictor | IntervalPredictor, marks: Floats, name: str) -> None:
    """Raise an error if the predictor was calibrated or tuned on some of the rows.

    `marks` are the fingerprints of the rows, and `name` says in the message where they come from.
    """
    groups = {"calibrated": predictor.seen, "tuned": None if predictor.tuning is None else predictor.tuning.seen}
    for what, seen in groups.items():
        if seen is not None:
            message = f"{name} holds rows that the predictor was {what} on ({{repeats}}). Use other rows."
            check_repeats(seen, marks, message)
