"""Send a predictor to the nodes: they read the file if they can see it; otherwise its bytes are sent."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from vicinal._util.extras import needs
from vicinal._util.imports import import_modules
from vicinal.calibration.levels import Coverage
from vicinal.errors import Incompatible, VicinalError
from vicinal.persistence.load import open_predictor
from vicinal.predictor.predictors import IntervalPredictor, Predictor, SetPredictor

with needs("ray", "ray"):
    import ray

_LOADED: dict[str, SetPredictor | IntervalPredictor] = {}
"""Predictors of this process by checksum; each is loaded once."""


@dataclass(frozen=True, eq=False)
class Shipped:
    """A saved predictor that can be opened on any node."""

    path: str
    checksum: str
    contents: Any  # reference to its bytes in the object store
    coverage: Coverage | None = None  # None: that of the saved predictor
    imports: tuple[str, ...] = ()  # modules that register its parts
    folder: str = ""  # folder to import them from

    def open_here(self) -> SetPredictor | IntervalPredictor:
        """Load the predictor on this node, once per process."""
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
        # The file stays mapped after it is deleted.
        with tempfile.TemporaryDirectory(prefix="vicinal-") as folder:
            path = Path(folder) / "sent.vicinal"
            ray.get(self.contents).tofile(path)
            return open_predictor(path)[1]


def ship(
    artifact: str | Path | SetPredictor | IntervalPredictor,
    coverage: Coverage | None = None,
    imports: Sequence[str] = (),
) -> Shipped:
    """Prepare a predictor, in memory or in a file, to be opened on the nodes.

    `imports` are modules that register its parts; they are imported here and on the nodes.
    """
    import_modules(imports)
    if isinstance(artifact, Predictor):
        with tempfile.TemporaryDirectory(prefix="vicinal-") as folder:
            info = artifact.save(Path(folder) / "sent.vicinal")
            return _load_shipped(Path(info.path), info.checksum, coverage, imports)
    if not isinstance(artifact, (str, Path)):
        msg = f"artifact must be a predictor or the path of a saved one; got {type(artifact).__name__}."
        raise Incompatible(msg)
    path = Path(artifact).expanduser().absolute()
    info, found = open_predictor(path)
    if coverage is not None:
        found.at(coverage)  # raises if its calibration rows are too few
    return _load_shipped(path, info.checksum, coverage, imports)


def _load_shipped(path: Path, checksum: str, coverage: Coverage | None, imports: Sequence[str]) -> Shipped:
    contents = ray.put(np.fromfile(path, np.uint8))
    return Shipped(str(path), checksum, contents, coverage, tuple(imports), str(Path.cwd()))
