"""Answers for a chunk of rows as a small .npz file: the finished part of an interrupted job."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from vicinal.regions import PredictionIntervals, PredictionSets
from vicinal.tables.batch.answers import Answers, Nearest
from vicinal.tables.carried import is_carried, pack, unpack


def store_answers(answers: Answers, file: BinaryIO) -> None:
    """Write answers; sets are written as bits, and kept columns by number, since their names may be anything."""
    regions = answers.regions
    arrays: dict[str, Any] = {"row_ids": answers.row_ids, "thresholds": regions.thresholds}
    if isinstance(regions, PredictionSets):
        arrays |= {"members": np.packbits(regions.members, axis=1), "confidences": regions.confidences}
    else:
        arrays |= {"lower": regions.lower, "upper": regions.upper}
    if answers.p_values is not None:
        arrays["p_values"] = answers.p_values
    if answers.nearest is not None:
        near = answers.nearest
        arrays |= {"near_rows": near.rows, "near_distances": near.distances, "near_weights": near.weights}
    for number, column in enumerate(answers.kept.values()):
        arrays |= {f"carried_{number}": pack(column)} if is_carried(column) else {f"kept_{number}": column}
    np.savez(file, **arrays)


def count_rows(path: Path) -> int:
    """Return the number of rows of stored answers."""
    with np.load(path, allow_pickle=False) as stored:
        return len(stored["thresholds"])


@dataclass(frozen=True)
class StoredAnswers:
    """Answers of one predictor in files, which can be read several times."""

    paths: Sequence[Path]
    n_classes: int | None  # of sets
    class_names: tuple[str, ...] | None
    kept: Sequence[str]  # names of the kept columns

    def __iter__(self) -> Iterator[Answers]:
        return map(self.read, self.paths)

    def read(self, path: Path) -> Answers:
        """Return the answers of one file."""
        with np.load(path, allow_pickle=False) as stored:
            regions: PredictionSets | PredictionIntervals
            if self.n_classes is not None:
                members = np.unpackbits(stored["members"], axis=1, count=self.n_classes).view(np.bool_)
                regions = PredictionSets(members, stored["thresholds"], stored["confidences"], self.class_names)
            else:
                regions = PredictionIntervals(stored["lower"], stored["upper"], stored["thresholds"])
            near = ("near_rows", "near_distances", "near_weights")
            return Answers(
                stored["row_ids"],
                regions,
                stored.get("p_values"),
                Nearest(*(stored[name] for name in near)) if near[0] in stored else None,
                {name: _read_kept(stored, number) for number, name in enumerate(self.kept)},
            )


def _read_kept(stored: Any, number: int) -> Any:
    carried = f"carried_{number}"
    return unpack(stored[carried]) if carried in stored else stored[f"kept_{number}"]
