"""Inputs of the experiments: outputs of networks, checked when they are read."""

from __future__ import annotations

import hashlib
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.specs import CLASSES, Network
from vicinal._util.arrays import Floats, Ints, as_labels, as_targets
from vicinal.errors import InvalidFile, MissingFile, VicinalError
from vicinal.outputs import ClassificationOutputs, ModelOutputs, RegressionOutputs


def read_arrays(path: Path, names: Sequence[str]) -> dict[str, NDArray[Any]]:
    """Return the named arrays of an .npz file; nothing in it is executed."""
    if not path.is_file():
        msg = f"there is no {path}: an .npz file with {', '.join(names)} was expected there."
        raise MissingFile(msg)
    found: dict[str, NDArray[Any]] = {}
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
            held = [] if isinstance(stored, np.ndarray) else list(stored)
            found = {name: stored[name] for name in names if name in held}
    # RuntimeError: encrypted; NotImplementedError, one of them: a compression that zipfile does not know.
    except (OSError, EOFError, ValueError, RuntimeError, zipfile.BadZipFile, zlib.error) as error:
        msg = f"{path} cannot be read as an .npz file ({error}): it is damaged, or something else. Copy it anew."
        raise InvalidFile(msg) from error
    absent = [name for name in names if name not in found]
    if absent:
        msg = f"{path} should hold {', '.join(names)}; it has no {', '.join(absent)}."
        raise InvalidFile(msg)
    return found


@dataclass(frozen=True)
class Folders:
    """Folders in which files are searched: first the outputs of the training scripts, then the data."""

    data: Path
    trained: Path

    def find(self, file: str) -> Path | None:
        """Return where a file lies, or None."""
        places = (self.trained / file, self.data / "outputs" / file, self.data / file)
        return next((place for place in places if place.is_file()), None)


def digest(path: Path) -> str:
    """Return the SHA-256 of a file, as the fingerprint of its data."""
    with path.open("rb") as file:
        return f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"


def read_outputs(path: Path, network: Network) -> tuple[ClassificationOutputs, Ints]:
    """Return outputs and labels of a network; raise an error if their shapes are not those of its data set."""
    found = read_arrays(path, ("logits", "representations", "labels"))
    logits, rows, labels = found.values()
    n, classes = network.rows or int(np.size(labels)), CLASSES[network.dataset]
    for name, array, shape in (("logits", logits, (n, classes)), ("labels", labels, (n,))):
        if array.shape != shape:
            msg = f"{path} should hold {name} of shape {shape}; got {array.shape}."
            raise InvalidFile(msg)
    try:
        outputs = ModelOutputs.from_logits(logits, rows)
        return outputs, as_labels(labels, n, classes)
    except VicinalError as error:
        msg = f"{path} does not hold the outputs of a network: {error}"
        raise InvalidFile(msg) from error


def read_runs(path: Path, runs: int) -> list[tuple[RegressionOutputs, Floats]]:
    """Return outputs and targets of the networks of a regression, one for each run."""
    found = read_arrays(path, ("predictions", "representations", "targets"))
    predictions, rows, targets = found.values()
    n = targets.shape[1:]
    shapes = (predictions.shape[1:] == n, rows.ndim == 3 and rows.shape[1:2] == n, targets.ndim == 2)
    if not all(shapes) or min(len(predictions), len(rows), len(targets)) < runs:
        msg = (
            f"{path} should hold {runs} runs of predictions (runs, n), representations (runs, n, d), targets (runs, n)."
        )
        raise InvalidFile(msg)
    try:
        return [
            (ModelOutputs.from_predictions(predictions[run], rows[run]), as_targets(targets[run], *n))
            for run in range(runs)
        ]
    except VicinalError as error:
        msg = f"{path} does not hold the outputs of networks: {error}"
        raise InvalidFile(msg) from error
