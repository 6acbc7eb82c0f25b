"""Answers as named columns: the content of an output file.

row_id, columns kept from the input; set | lower, upper; size | length; threshold, confidence; p_values; neighbors, ...
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from vicinal._util.arrays import Ints
from vicinal.regions import PredictionIntervals, PredictionSets
from vicinal.tables.batch.answers import Answers


@dataclass(frozen=True, eq=False)
class ListColumns:
    """A list for each row: all values one after another, and the start of each row's list."""

    values: NDArray[Any]
    starts: Ints  # (n + 1,)

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __getitem__(self, row: int) -> NDArray[Any]:
        return self.values[self.starts[row] : self.starts[row + 1]]


Named: TypeAlias = dict[str, NDArray[Any] | ListColumns]


def answer_columns(answers: Answers) -> Named:
    """Return the columns: (n,) arrays, (n, width) arrays, and lists of different lengths."""
    found: Named = {"row_id": answers.row_ids, **answers.kept}
    regions = answers.regions
    if isinstance(regions, PredictionSets):
        found |= {"set": set_lists(regions), "size": regions.sizes}
        found |= {"threshold": regions.thresholds, "confidence": regions.confidences}
    else:
        found |= {"lower": regions.lower, "upper": regions.upper, "length": regions.lengths}
        found["threshold"] = regions.thresholds
    if answers.p_values is not None:
        found["p_values"] = answers.p_values
    if answers.nearest is not None:
        found |= {
            "neighbors": answers.nearest.rows,
            "neighbor_distances": answers.nearest.distances,
            "neighbor_weights": answers.nearest.weights,
        }
    return found


def region_sizes(regions: PredictionSets | PredictionIntervals) -> NDArray[Any]:
    """Return the number of labels in each set, or the length of each interval, (n,)."""
    return regions.sizes if isinstance(regions, PredictionSets) else regions.lengths


def count_empty(regions: PredictionSets | PredictionIntervals) -> int:
    """Return how many sets or intervals are empty."""
    empty = regions.sizes == 0 if isinstance(regions, PredictionSets) else regions.lower > regions.upper
    return int(np.count_nonzero(empty))


def set_lists(sets: PredictionSets) -> ListColumns:
    """Return the class names in each set, or the class numbers where there are no names.

    Examples
    --------
    >>> sets = PredictionSets(np.array([[True, False], [True, True]]), np.zeros(2), np.zeros(2), ("cat", "dog"))
    >>> set_lists(sets)[1]
    array(['cat', 'dog'], dtype='<U3')
    """
    _, labels = np.nonzero(sets.members)
    starts = np.concatenate([[0], np.cumsum(sets.sizes)])
    return ListColumns(labels if sets.class_names is None else np.array(sets.class_names)[labels], starts)
