"""Statistics of a network during training: separation of the classes, and size of the sets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from experiments.choosing import Chooser
from experiments.clusters import silhouette
from vicinal._util.arrays import Ints
from vicinal._util.splitting import split_rows
from vicinal.calibration import Exact, Split
from vicinal.evaluation.metrics import evaluate
from vicinal.outputs import ClassificationOutputs
from vicinal.predictor.calibrate import calibrate
from vicinal.probability_models import TemperatureScaling
from vicinal.scores import APS, NeverEmpty

SCORES = {"APS": APS(), "NeverEmpty(APS)": NeverEmpty(APS())}


def epoch_statistics(
    outputs: ClassificationOutputs, labels: Ints, parts: Mapping[str, int], seeds: Sequence[int], coverage: float
) -> dict[str, object]:
    """Return accuracy, silhouette, and per seed the coverage and mean size of each score with and without neighbors.

    `parts` names the calibration, scaling, tuning and test rows; the neighborhood is chosen on the tuning rows.
    """
    assert outputs.representations is not None
    logits = outputs.logits
    found: dict[str, list[dict[str, float]]] = {}
    for seed in seeds:
        cut = split_rows(len(labels), parts, seed)
        rows = {part: (outputs[at], labels[at]) for part, at in cut.items()}
        scaling = TemperatureScaling.fit(*rows["scaling"])
        chooser = Chooser(*rows["tuning"], coverage, probability_model=scaling)
        localizers = chooser.neighborhoods(list(SCORES.values()), chooser.lists.near())
        for (name, score), near in zip(SCORES.items(), localizers, strict=True):
            for method in (Split(), Exact()):
                predictor = calibrate(
                    *rows["calibration"], coverage, score=score, localizer=near, probability_model=scaling,
                    method=method,
                )  # fmt: skip
                result = evaluate(predictor.predict(rows["test"][0]), rows["test"][1])
                numbers = {"seed": seed, "coverage": result.coverage, "size": result.mean_size}
                found.setdefault(f"{name}, {type(method).__name__}", []).append(numbers)
    accuracy = float(np.mean(np.argmax(logits, axis=1) == labels))  # type: ignore[arg-type]
    return {"accuracy": accuracy, "silhouette": silhouette(outputs.representations, labels), "sets": found}
