"""Columns that grow batch by batch: in memory, or in .npy files that are complete or missing."""

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
"""Names of the files of a folder."""

SYNCED = 2**24
"""Number of bytes after which files are flushed to the disk."""


class Columns(ABC):
    """Arrays by name; all batches have the same shape of rows."""

    def __init__(self) -> None:
        self.n_rows = 0
        self.like: dict[str, tuple[tuple[int, ...], np.dtype[Any]]] = {}

    def add(self, batch: dict[str, NDArray[Any]]) -> None:
        """Append the rows of a batch; refuse rows of another shape than the first."""
        for name, array in batch.items():
            shape, dtype = self.like.setdefault(name, (array.shape[1:], array.dtype))
            if array.shape[1:] != shape:
                msg = (
                    f"{name} must have the same shape in every batch: {shape} in the first, {array.shape[1:]} now. "
                    "If inputs differ in length, average them in a function: layer=lambda inputs: ..."
                )
                raise ShapeMismatch(msg, argument=name, expected=shape, found=array.shape[1:])
            self.append(name, np.ascontiguousarray(array, dtype=dtype))
        self.n_rows += len(next(iter(batch.values())))

    @abstractmethod
    def append(self, name: str, array: NDArray[Any]) -> None:
        """Append rows to a column."""

    @abstractmethod
    def label(self, class_names: Sequence[str] | None) -> None:
        """Store the names of the classes with the rows."""

    @abstractmethod
    def column(self, name: str) -> NDArray[Any]:
        """Return a column after all rows were appended."""


class InMemory(Columns):
    """Columns in memory."""

    def __init__(self) -> None:
        super().__init__()
        self.pieces: dict[str, list[NDArray[Any]]] = {}

    def append(self, name: str, array: NDArray[Any]) -> None:
        """Append rows to a column."""
        self.pieces.setdefault(name, []).append(array)

    def label(self, class_names: Sequence[str] | None) -> None:
        """Do nothing: the outputs in memory get the names directly."""

    def column(self, name: str) -> NDArray[Any]:
        """Return a column and free its batches."""
        return np.concatenate(self.pieces.pop(name))


class InFiles(Columns):
    """Columns in files of a folder, such as logits.npy, mapped into memory for reading."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        super().__init__()
        self.folder, self.stack = folder, stack
        self.files: dict[str, BinaryIO] = {}
        self.unsynced = 0

    def append(self, name: str, array: NDArray[Any]) -> None:
        """Append rows to the file of a column."""
        if name not in self.files:
            self.files[name] = self.stack.enter_context(replacing(self.folder / f"{name}.npy"))
            self.files[name].write(self._header(name, 0))
        self.files[name].write(array.data)
        self.unsynced += array.nbytes
        if self.unsynced > SYNCED:
            # In steps, because flushing everything at the end would take long.
            for file in self.files.values():
                file.flush()
                getattr(os, "fdatasync", os.fsync)(file.fileno())
            self.unsynced = 0

    def label(self, class_names: Sequence[str] | None) -> None:
        """Store the names of the classes in a file next to the rows."""
        if class_names is not None:
            self.files["class_names"] = self.stack.enter_context(replacing(self.folder / "class_names.npy"))
            np.save(self.files["class_names"], np.array(class_names, dtype=np.str_), allow_pickle=False)

    def finish(self) -> None:
        """Write the final number of rows into every file."""
        for name, file in self.files.items():
            if name not in self.like:
                continue
            file.seek(0)
            # The header keeps its length: numpy leaves room for the first axis to grow.
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
    """Yield columns in memory, or in the folder `store`, whose files are replaced when all rows are complete."""
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
    # Files of an earlier run would be mistaken for columns of these rows.
    for name in KNOWN - set(found.files):
        (folder / f"{name}.npy").unlink(missing_ok=True)
