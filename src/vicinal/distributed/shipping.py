"""A predictor on its way to the nodes.

A saved one is read where it lies if they see the same file, else its bytes are sent to them; of one in shards they get
the handles of its actors.
"""

from __future__ import annotations

import tempfile
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from vicinal._util.extras import needs
from vicinal._util.imports import import_modules
from vicinal.calibration.levels import Coverage
from vicinal.distributed.calibrate import load
from vicinal.distributed.sharded import ShardedCalibration
from vicinal.distributed.stored import is_sharded
from vicinal.errors import Incompatible, VicinalError
from vicinal.persistence.load import open_predictor
from vicinal.predictor.predictors import IntervalPredictor, Predictor, SetPredictor

with needs("ray", "ray"):
    import ray

_LOADED: dict[str, SetPredictor | IntervalPredictor] = {}
"""Predictors of this process by their checksum: each is loaded once, however many batches it answers."""


class Shipped(ABC):
    """A predictor, to be opened on any node."""

    checksum: str

    @abstractmethod
    def open_here(self) -> SetPredictor | IntervalPredictor:
        """Return the predictor on this node."""


@dataclass(frozen=True, eq=False)
class ShippedHandles(Shipped):
    """A predictor whose rows are in shards."""

    checksum: str
    predictor: Any  # reference to it in the object store

    def open_here(self) -> SetPredictor | IntervalPredictor:
        """Return the predictor, whose actors are elsewhere."""
        found: SetPredictor | IntervalPredictor = ray.get(self.predictor)
        return found


@dataclass(frozen=True, eq=False)
class ShippedFile(Shipped):
    """A saved predictor."""

    path: str
    checksum: str
    contents: Any  # reference to its bytes in the object store
    coverage: Coverage | None = None  # another than it was saved with
    imports: tuple[str, ...] = ()  # modules that register its parts
    folder: str = ""  # where they may lie

    def open_here(self) -> SetPredictor | IntervalPredictor:
        """Return the predictor on this node, loaded once for each process."""
        if self.checksum not in _LOADED:
            import_modules(self.imports, self.folder)
            _LOADED.clear()
            _LOADED[self.checksum] = self._load()
        found = _LOADED[self.checksum]
        return found if self.coverage is None else found.at(self.coverage)

    def _load(self) -> SetPredictor | IntervalPredictor:
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


def ship(
    artifact: str | Path | SetPredictor | IntervalPredictor,
    coverage: Coverage | None = None,
    imports: Sequence[str] = (),
) -> Shipped:
    """Make a predictor ready to be opened on the nodes: one in memory, the file of one, or a folder with its shards.

    `imports` are modules that register parts of it; they are imported here and there.
    """
    import_modules(imports)
    if isinstance(artifact, Predictor) and isinstance(artifact.calibration, ShardedCalibration):
        chosen = artifact if coverage is None else artifact.at(coverage)
        return ShippedHandles("", ray.put(chosen))
    if isinstance(artifact, Predictor):
        with tempfile.TemporaryDirectory(prefix="vicinal-") as folder:
            info = artifact.save(Path(folder) / "sent.vicinal")
            return _load_shipped(Path(info.path), info.checksum, coverage, imports)
    if not isinstance(artifact, (str, Path)):
        msg = f"artifact must be a predictor or the path of a saved one; got {type(artifact).__name__}."
        raise Incompatible(msg)
    if is_sharded(artifact):
        return ship(load(artifact), coverage)
    path = Path(artifact).expanduser().absolute()
    info, found = open_predictor(path)
    if coverage is not None:
        found.at(coverage)  # refuses a coverage that its rows cannot give
    return _load_shipped(path, info.checksum, coverage, imports)


def _load_shipped(path: Path, checksum: str, coverage: Coverage | None, imports: Sequence[str]) -> Shipped:
    contents = ray.put(np.fromfile(path, np.uint8))
    return ShippedFile(str(path), checksum, contents, coverage, tuple(imports), str(Path.cwd()))
