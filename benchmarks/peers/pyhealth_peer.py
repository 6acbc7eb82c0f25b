"""Neighborhood conformal sets with PyHealth, fed from arrays through a model that returns its input."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch

from peers.rows import Predict, Rows
from peers.stubs import stub, stub_missing

SEED = 0
THREADS = 2
NEIGHBORS = 100
BANDWIDTH = 100.0
BATCH = 5000


def _through(items: Iterable[Any], **options: Any) -> Iterable[Any]:
    """Return the items without a progress bar."""
    return items


def _stub() -> tuple[str, ...]:
    """Replace imports that the class does not need by empty modules, and the progress bar by nothing."""
    unused = ("dateutil", "dateutil.parser", "litdata", "pandas", "tqdm", "tqdm.autonotebook")
    missing = stub_missing(*unused, tqdm=_through)
    folder = Path(importlib.util.find_spec("pyhealth").submodule_search_locations[0])
    stub("pyhealth.models", BaseModel=torch.nn.Module)
    stub("pyhealth.trainer")
    stub("pyhealth.datasets.sample_dataset")
    datasets = stub("pyhealth.datasets", [str(folder / "datasets")])
    del datasets.__getattr__
    datasets.get_dataloader = importlib.import_module("pyhealth.datasets.utils").get_dataloader
    return (*missing, "pyhealth.datasets", "pyhealth.models", "pyhealth.trainer")


VERSION: str = version("pyhealth")
STUBBED: tuple[str, ...] = _stub()
NOTES: dict[str, str] = {
    "ncp-aps": (
        "The whole class is driven unchanged, in batches of 5,000 test rows, with its default bandwidth of 100 in raw "
        "distance units; every calibration row is among its own neighbors while the level is "
        "searched, so that coverage falls short of nominal for small bandwidths; sets are never empty."
    ),
}
PREPARE: dict[str, Callable[[Rows], Rows]] = {}
SLOW: dict[str, int] = {}

with contextlib.redirect_stdout(sys.stderr):
    from pyhealth.calib.predictionset import NeighborhoodLabel

torch.set_num_threads(THREADS)


class _Given(torch.nn.Module):
    """A model whose input already is the class probabilities, the labels and the representations."""

    mode = "multiclass"
    device = torch.device("cpu")

    def forward(
        self,
        representations: torch.Tensor | None = None,
        embed: bool = False,  # noqa: FBT001, FBT002  as PyHealth calls it
        **batch: torch.Tensor,
    ) -> dict[str, torch.Tensor]:
        """Return the input."""
        return {**batch, "embed": representations} if embed else batch


class _Samples(torch.utils.data.Dataset):
    """The calibration rows as the samples that PyHealth collates into batches."""

    def __init__(self, rows: Rows) -> None:
        """Wrap the arrays without a copy."""
        self.probabilities = torch.from_numpy(rows.probabilities).unbind()
        self.labels = torch.from_numpy(rows.labels).unbind()

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.labels)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        """Return one row."""
        return {"y_prob": self.probabilities[index], "y_true": self.labels[index]}


def calibrate_ncp_aps(rows: Rows, coverage: float) -> Predict:
    """Calibrate neighborhood conformal prediction with adaptive prediction sets."""
    conformal = NeighborhoodLabel(
        _Given(),
        alpha=1 - coverage,
        k_neighbors=NEIGHBORS,
        lambda_L=BANDWIDTH,
        score_type="aps",
        random_state=SEED,
    )
    conformal.calibrate(_Samples(rows), cal_embeddings=rows.representations)

    def predict(test: Rows) -> np.ndarray:
        """Return the sets of the test rows."""
        sets = np.empty(test.probabilities.shape, dtype=bool)
        for start in range(0, len(sets), BATCH):
            part = slice(start, start + BATCH)
            with torch.inference_mode():
                answer = conformal(
                    y_prob=torch.from_numpy(test.probabilities[part]),
                    representations=torch.from_numpy(test.representations[part]),
                )
            sets[part] = answer["y_predset"].numpy()
        return sets

    return predict


JOBS: dict[str, Callable[[Rows, float], Predict]] = {"ncp-aps": calibrate_ncp_aps}
