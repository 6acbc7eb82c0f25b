"""The cost of a row as rows grow, in a process of its own: `python -m peers.growing CONTESTANT JOB COUNT`.

Job "rows" predicts COUNT rows of 100 classes by plain RAPS. Job "calibration" predicts 2,000 rows in the neighborhood
(k = 100) of COUNT calibration rows of 128 dimensions, in clusters; it also says what calibrating took, in time and in
memory, and the recall where the search is approximate. Prints a line of JSON.
"""

from __future__ import annotations

import json
import statistics
import sys
from typing import Any

import numpy as np

from peers.measure import COVERAGE, describe_parts, memory, timed
from peers.rows import Rows, made

CLASSES, KNOWN = 100, 2_000
CLUSTERS, WIDTH, TEST, ALONE = 1_000, 128, 2_000, 100


def clustered(count: int, seed: int) -> Rows:
    """Return rows in clusters; a classifier of ten classes is more certain about some clusters than about others."""
    rng = np.random.default_rng(seed)
    centers = np.random.default_rng(99).standard_normal((CLUSTERS, WIDTH), dtype=np.float32)
    cluster = rng.integers(CLUSTERS, size=count)
    rows = rng.standard_normal((count, WIDTH), dtype=np.float32)
    rows *= np.float32(0.5)
    rows += centers[cluster]
    labels = cluster % 10
    logits = rng.standard_normal((count, 10), dtype=np.float32)
    logits[np.arange(count), labels] += (1 + cluster % 7).astype(np.float32) / 2
    np.exp(logits, out=logits)
    logits /= logits.sum(axis=1, keepdims=True)
    return Rows(logits, labels, rows)


def more_rows(contestant: Any, count: int) -> dict[str, float]:
    """Return the seconds per row for predicting many rows."""
    prepare = contestant.PREPARE.get("raps", lambda given: given)
    known, test = prepare(made(KNOWN, CLASSES, 0, balanced=True)), prepare(made(count, CLASSES, 1))
    predict = contestant.JOBS["raps"](known, COVERAGE)
    predict(test[:100])
    return {"a row": timed(lambda: predict(test))[1] / count}


def more_calibration(contestant: Any, job: str, count: int) -> dict[str, float]:
    """Return the cost per row with many calibration rows."""
    known, test = clustered(count, 0), clustered(TEST, 1)
    contestant.JOBS[job](clustered(1_500, 2), COVERAGE)(test[:100])
    before = memory("VmRSS")
    predict, calibrating = timed(lambda: contestant.JOBS[job](known, COVERAGE))
    members, predicting = timed(lambda: predict(test))
    alone = [timed(lambda row=row: predict(test[row : row + 1]))[1] for row in range(ALONE)]
    found = {
        "a row": predicting / TEST,
        "alone": statistics.median(alone),
        "calibrate": calibrating,
        "memory": memory("VmHWM"),
        "inputs": before,
        "coverage": float(members[np.arange(TEST), test.labels].mean()),
        "size": float(members.sum(axis=1).mean()),
    }
    return {**found, "recall": predict.recall(test[:300])} if hasattr(predict, "recall") else found


def main(name: str, job: str, count: str) -> None:
    contestant = describe_parts(name)
    many = int(count)
    print(json.dumps(more_rows(contestant, many) if job == "rows" else more_calibration(contestant, job, many)))


if __name__ == "__main__":
    main(*sys.argv[1:])
