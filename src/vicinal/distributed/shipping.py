"""A saved predictor on its way to the nodes: read where it lies if they see the same file, else sent to them."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from vicinal._extras import needs
from vicinal.artifacts import open_predictor
from vicinal.errors import Incompatible, VicinalError
from vicinal.predictor import IntervalPredictor, Predictor, SetPredictor
from vicinal.quantiles import Coverage

with needs("ray", "ray"):
    import ray

_LOADED: dict[str, SetPredictor | IntervalPredictor] = {}
"""Predictors of this process by their checksum: each is loaded once, however many batches it answers."""


@dataclass(frozen=True, eq=False)
class Shipped:
    """A saved predictor, to be opened on any node."""

    path: str
    checksum: str
    contents: Any  # reference to its bytes in the object store
    coverage: Coverage | None = None  # another than it was saved with

    def opened(self) -> SetPredictor | IntervalPredictor:
        """Return the predictor on this node, loaded once for each process."""
        if self.checksum not in _LOADED:
            _LOADED.clear()
            _LOADED[self.checksum] = self._loaded()
        found = _LOADED[self.checksum]
        return found if self.coverage is None else found.at(self.coverage)

    def _loaded(self) -> SetPredictor | IntervalPredictor:
        try:
            info, found = open_predictor(self.path)
        except (VicinalError, OSError):
            info = None
        if info is not None and info.checksum == self.checksum:
            return found
        # The file stays mapped after its name is gone.
        with tempfile.TemporaryDirectory(prefix="vicinal-") as folder:
            path = Path(folder) / "sent.vicinal"
            ray.get(self.contents).tofile(path)
            return open_predictor(path)[1]


def shipped(artifact: str | Path | SetPredictor | IntervalPredictor, coverage: Coverage | None = None) -> Shipped:
    """Make a predictor ready to be opened on the nodes: the file of one, or one in memory, which is saved first."""
    if isinstance(artifact, Predictor):
        with tempfile.TemporaryDirectory(prefix="vicinal-") as folder:
            info = artifact.save(Path(folder) / "sent.vicinal")
            return _shipped(Path(info.path), info.checksum, coverage)
    if not isinstance(artifact, (str, Path)):
        msg = f"artifact must be a predictor or the path of a saved one; got {type(artifact).__name__}."
        raise Incompatible(msg)
    path = Path(artifact).expanduser().absolute()
    info, found = open_predictor(path)
    if coverage is not None:
        found.at(coverage)  # refuses a coverage that its rows cannot give
    return _shipped(path, info.checksum, coverage)


def _shipped(path: Path, checksum: str, coverage: Coverage | None) -> Shipped:
    return Shipped(str(path), checksum, ray.put(np.fromfile(path, np.uint8)), coverage)
