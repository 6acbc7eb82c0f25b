"""Count the rows that share their score with another row, in a dataset sorted by score.

Each block counts its inner ties and returns its first and last score with their counts, because a run of equal scores
may continue in the next block.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np


def summarize_block(batch: dict[str, Any]) -> dict[str, Any]:
    """Return the first and last score of a block, their counts, and the ties in between, as one row.

    Examples
    --------
    >>> found = summarize_block({"score": np.array([1.0, 2.0, 2.0, 3.0, 3.0])})
    >>> {name: column.tolist() for name, column in found.items()}
    {'first': [1.0], 'firsts': [1], 'last': [3.0], 'lasts': [2], 'inside': [2]}
    """
    values, counts = np.unique(batch["score"], return_counts=True)
    inner = counts[1:-1]
    found = {
        "first": values[0],
        "firsts": counts[0],
        "last": values[-1],
        "lasts": counts[-1] if len(values) > 1 else 0,
        "inside": inner[inner > 1].sum(),
    }
    return {name: np.array([value]) for name, value in found.items()}


def count_ties(ordered: Any) -> int:
    """Return how many rows of a dataset that is sorted by score share it with another."""
    return join_blocks(ordered.map_batches(summarize_block, batch_format="numpy", batch_size=None).take_all())


def join_blocks(blocks: Iterable[dict[str, Any]]) -> int:
    """Return the number of ties over all blocks, which may come in any order.

    Examples
    --------
    >>> cut = [np.array([1.0, 2.0]), np.array([2.0, 2.0]), np.array([2.0, 3.0])]
    >>> join_blocks({name: column[0] for name, column in summarize_block({"score": one}).items()} for one in cut)
    4
    """
    ends: dict[float, int] = {}
    tied = 0
    for block in blocks:
        tied += int(block["inside"])
        for value, count in (("first", "firsts"), ("last", "lasts")):
            ends[float(block[value])] = ends.get(float(block[value]), 0) + int(block[count])
    return tied + sum(count for count in ends.values() if count > 1)
