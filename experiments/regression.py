"""One run of a regression: plain and neighborhood intervals on the same rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from experiments.choosing import ChoiceLists, Chooser, neighbor_share
from vicinal._util.arrays import Floats
from vicinal._util.splitting import split_rows
from vicinal.calibration import Exact, Method, PaperLiteral, Split
from vicinal.evaluation.metrics import evaluate
from vicinal.neighbors.localizers import Uniform
from vicinal.outputs import RegressionOutputs
from vicinal.predictor.calibrate import calibrate
from vicinal.representations.coordinates import NeighborResidual, Prediction
from vicinal.representations.difficulty import DifficultyMap
from vicinal.scores import AbsoluteResidual
from vicinal.tuning import tune

Numbers = dict[str, Any]
DIFFICULTY = "NCP, difficulty, Exact"


def every_interval(
    data: tuple[RegressionOutputs, Floats], parts: Mapping[str, float | None], coverage: float, reached: float,
    lists: ChoiceLists, seed: int,
) -> dict[str, Numbers]:  # fmt: skip
    """Return the results of each way of making intervals; `reached` is the coverage of the paper's plain intervals."""
    outputs, targets = data
    cut = split_rows(len(targets), parts, seed)
    rows = {part: (outputs[at], targets[at]) for part, at in cut.items()}
    score = AbsoluteResidual()
    chooser = Chooser(*rows["tuning"], coverage, lists)
    near, everyone = (chooser.neighborhoods([score], some)[0] for some in (lists.near(), lists.all()))
    best = tune(*rows["tuning"], coverage, progress=False)
    share = neighbor_share(near, len(rows["calibration"][1]))
    plain = {"score": score, "localizer": near, "method": Split()}
    local: dict[str, Method] = {"Exact": Exact(), "PaperLiteral": PaperLiteral()}
    ways: dict[str, tuple[float, dict[str, Any], Numbers]] = {
        "CP": (coverage, plain, {}),
        "CP at the paper's coverage": (reached, plain, {"target": reached}),
        **{
            f"NCP, {name}": (coverage, {**plain, "method": method}, {"localizer": repr(near), "neighbor_share": share})
            for name, method in local.items()
        },
        "NCP-All, Exact": (coverage, {**plain, "localizer": everyone, "method": Exact()}, {}),
        "Tuned": (coverage, dict(best.settings), {"chosen": best.winner.name}),
    }
    return {name: {**_measure(rows, asked, settings), **more} for name, (asked, settings, more) in ways.items()}


def difficulty_interval(
    data: tuple[RegressionOutputs, Floats], parts: Mapping[str, float | None], coverage: float, seed: int
) -> dict[str, Numbers]:
    """Return the results with neighbors of similar prediction and similar errors nearby; nothing is chosen."""
    outputs, targets = data
    cut = split_rows(len(targets), parts, seed)
    rows = {part: (outputs[at], targets[at]) for part, at in cut.items()}
    fitted = DifficultyMap(Prediction(), NeighborResidual()).fit(*rows["tuning"])
    settings = {"score": AbsoluteResidual(), "localizer": Uniform(0.1), "representation_map": fitted}
    return {DIFFICULTY: _measure(rows, coverage, {**settings, "method": Exact()})}


def _measure(
    rows: Mapping[str, tuple[RegressionOutputs, Floats]], coverage: float, settings: Mapping[str, Any]
) -> Numbers:
    predictor = calibrate(*rows["calibration"], coverage, **settings)
    result = evaluate(predictor.predict(rows["test"][0]), rows["test"][1])
    # An interval may be infinite: then the mean length is, which JSON cannot say.
    size = result.mean_size if np.isfinite(result.mean_size) else None
    return {"coverage": result.coverage, "size": size, "infinite": result.full_share}
