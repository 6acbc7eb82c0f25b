"""Columns that grow batch by batch: in memory, or in .npy files that are whole or not there."""

from __future__ import annotations

import io
import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from vicinal._util.files import replacing
from vicinal.errors import CannotWrite, InvalidArgument, ShapeMismatch

KNOWN = {
    "logits",
    "probabilities",
    "predictions",
    "lower",
    "upper",
    "representations",
    "labels",
    "targets",
    "class_names",
}
"""Files that a folder can hold."""

SYNCED = 2**24
"""Bytes after which files are written to the disk itself."""


class Columns(ABC):
    """Arrays by name, each batch as wide as the first."""

    def __init__(self) -> None:
        self.n_rows = 0
        self.like: dict[str, tuple[tuple[int, ...], np.dtype[Any]]] = {}

    def add(self, batch: dict[str, NDArray[Any]]) -> None:
        """Add the rows of a batch; refuse rows of another shape than the first."""
        for name, array in batch.items():
            shape, dtype = self.like.setdefault(name, (array.shape[1:], array.dtype))
            if array.shape[1:] != shape:
                msg = (
                    f"{name} must have the same shape in every batch: {shape} in the first, {array.shape[1:]} now. "
                    "Where inputs differ in length, take their mean in a function: layer=lambda inputs: ..."
                )
                raise ShapeMismatch(msg)
            self.append(name, np.ascontiguousarray(array, dtype=dtype))
        self.n_rows += len(next(iter(batch.values())))

    @abstractmethod
    def append(self, name: str, array: NDArray[Any]) -> None:
        """Append rows to a column."""

    @abstractmethod
    def label(self, class_names: Sequence[str] | None) -> None:
        """Keep the names of classes where the rows are kept."""

    @abstractmethod
    def column(self, name: str) -> NDArray[Any]:
        """Return a column, after all rows were added."""


class InMemory(Columns):
    """Columns in memory."""

    def __init__(self) -> None:
        super().__init__()
        self.pieces: dict[str, list[NDArray[Any]]] = {}

    def append(self, name: str, array: NDArray[Any]) -> None:
        """Append rows to a column."""
        self.pieces.setdefault(name, []).append(array)

    def label(self, class_names: Sequence[str] | None) -> None:
        """Keep nothing: who collects in memory has the names."""

    def column(self, name: str) -> NDArray[Any]:
        """Return a column; the batches it came in are let go."""
        return np.concatenate(self.pieces.pop(name))


class InFiles(Columns):
    """Columns in files of a folder, such as logits.npy, mapped into memory when they are read."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        super().__init__()
        self.folder, self.stack = folder, stack
        self.files: dict[str, BinaryIO] = {}
        self.unsynced = 0

    def append(self, name: str, array: NDArray[Any]) -> None:
        """Append rows to a column's file."""
        if name not in self.files:
            self.files[name] = self.stack.enter_context(replacing(self.folder / f"{name}.npy"))
            self.files[name].write(self._header(name, 0))
        self.files[name].write(array.data)
        self.unsynced += array.nbytes
        if self.unsynced > SYNCED:
            # Little by little: at the end, a disk that has to take all at once would be waited for.
            for file in self.files.values():
                file.flush()
                getattr(os, "fdatasync", os.fsync)(file.fileno())
            self.unsynced = 0

    def label(self, class_names: Sequence[str] | None) -> None:
        """Keep the names of classes in a file beside the rows."""
        if class_names is not None:
            self.files["class_names"] = self.stack.enter_context(replacing(self.folder / "class_names.npy"))
            np.save(self.files["class_names"], np.array(class_names, dtype=np.str_), allow_pickle=False)

    def finish(self) -> None:
        """Say in every file how many rows it has."""
        for name, file in self.files.items():
            if name not in self.like:
                continue
            file.seek(0)
            # As long as it was without rows: numpy leaves room for the first axis to grow.
            file.write(self._header(name, self.n_rows))

    def column(self, name: str) -> NDArray[Any]:
        """Return a column, mapped from its file."""
        return np.load(self.folder / f"{name}.npy", mmap_mode="r", allow_pickle=False)  # type: ignore[no-any-return]

    def _header(self, name: str, n_rows: int) -> bytes:
        shape, dtype = self.like[name]
        text = io.BytesIO()
        description = np.lib.format.dtype_to_descr(dtype)
        entries = {"descr": description, "fortran_order": False, "shape": (n_rows, *shape)}
        np.lib.format.write_array_header_1_0(text, entries)
        return text.getvalue()


@contextmanager
def columns(store: str | Path | None) -> Iterator[Columns]:
    """Yield columns in memory, or in the folder `store`, whose files change only when all rows are there."""
    if store is None:
        yield InMemory()
        return
    if not isinstance(store, (str, Path)):
        raise InvalidArgument("store", store, "a folder, or None to collect in memory")
    folder = Path(store).expanduser()
    if folder.exists() and not folder.is_dir():
        msg = f"store must be a folder; {store} is a file."
        raise CannotWrite(msg)
    with ExitStack() as stack:
        found = InFiles(folder, stack)
        yield found
        found.finish()
    # What another run left would be taken for these rows.
    for name in KNOWN - set(found.files):
        (folder / f"{name}.npy").unlink(missing_ok=True)
