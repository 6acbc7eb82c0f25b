"""Exact search by brute force on a torch device: like `ExactSearch`, with blocks that stay on the device."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar
from weakref import WeakKeyDictionary

import torch

from vicinal._util.arrays import positive
from vicinal._util.lazy_rows import Readable
from vicinal._util.progress import Bar
from vicinal.errors import InvalidArgument
from vicinal.neighbors.reference import Reference
from vicinal.neighbors.search import ExactNeighborSearch
from vicinal.torch.blocks import DISTANCE_BYTES, MEGABYTES, rows_at_once, slices
from vicinal.torch.distances import Arithmetic, DeviceRows, distances, squared_norms
from vicinal.torch.engine import TensorBlock, on_device


@dataclass(frozen=True)
class TorchSearch(ExactNeighborSearch):
    """Exact nearest neighbors on a torch device, for `calibrate(search=...)` and `tune(search=...)`.

    Parameters
    ----------
    device : str or torch.device, default "cpu"
        Device to search on.
    megabytes : float, default 2048
        Limit on the memory for a block of queries.
    dtype : torch.dtype, optional
        Type in which distances are computed, torch.float32 or torch.float64. Default: that of the rows.
    tf32 : bool, default False
        Whether a GPU may round the factors of float32 products to 11 bits: faster, but less precise.

    Raises
    ------
    InvalidArgument
        If the device cannot be used, or another argument is not valid.

    Notes
    -----
    Distances are exact up to the rounding of their type. All rows tied at the k-th distance are neighbors; in float32
    distances are tied if they are equal, in float64 products if they agree to a relative difference of 2^-36.

    Examples
    --------
    >>> from vicinal.torch import TorchSearch
    >>> TorchSearch("cpu")
    TorchSearch(device='cpu', megabytes=2048.0, dtype=None, tf32=False)
    """

    engine: ClassVar[str] = "torch"

    device: str | torch.device = "cpu"
    megabytes: float = MEGABYTES
    dtype: torch.dtype | None = None
    tf32: bool = False

    def __post_init__(self) -> None:
        positive("megabytes", self.megabytes)
        try:
            torch.empty(0, device=self.device)
        except (RuntimeError, AssertionError, TypeError) as error:
            expected = "a device that this torch can use, such as 'cpu' or 'cuda'"
            raise InvalidArgument("device", str(self.device), expected) from error
        if self.dtype not in (None, torch.float32, torch.float64):
            raise InvalidArgument("dtype", self.dtype, "torch.float32, torch.float64, or None for the type of the rows")

    def distances(
        self, reference: Reference, queries: Readable, *, progress: str | None = None
    ) -> Iterator[TensorBlock]:
        """Yield blocks of consecutive queries with their distances to all reference rows.

        Parameters
        ----------
        reference : Reference
            The n reference rows.
        queries : array of shape (q, d)
            The queries.
        progress : str, optional
            Title of a progress bar. Default: no bar.

        Yields
        ------
        TensorBlock
            Queries and their distances, on the device.
        """
        held, bar = self._get_rows(reference), Bar(progress or "", len(queries), shown=progress is not None)
        # Distances take a part of the memory, and the computations on them the rest.
        each = DISTANCE_BYTES * reference.n
        step = rows_at_once(self.megabytes, 5 * each // 4)
        with bar:
            for rows in slices(0, len(queries), step):
                with torch.inference_mode():  # not around the yield: the engine sets its own mode
                    some = on_device(self.device, queries[rows])[0].to(held.padded.dtype)
                    found = distances(some, held, Arithmetic(self.tf32))
                left = self.megabytes - each * (rows.stop - rows.start) / 2**20
                yield TensorBlock(rows, found, max(left, self.megabytes / 4))
                bar.advance(rows.stop - rows.start)

    def arithmetic(self, reference: Reference) -> str:
        """Return a description of how distances are computed, which a saved predictor compares when it is loaded.

        Parameters
        ----------
        reference : Reference
            The reference rows.

        Returns
        -------
        str
            Library, type and kind of device; empty if the rows have no columns.
        """
        held = self._get_rows(reference)
        words = f"torch {held.padded.dtype} {held.padded.device.type}{' tf32' if self.tf32 else ''}"
        return words if reference.width else ""

    def _get_rows(self, reference: Reference) -> DeviceRows:
        """Return the reference rows on the device; they are copied once, and freed with the reference."""
        key = (str(self.device), self.dtype)
        known = HELD.setdefault(reference, {})
        if key not in known:
            padded = on_device(self.device, reference.rows)[0]
            padded = padded if self.dtype is None else padded.to(self.dtype)
            known[key] = DeviceRows(padded, squared_norms(padded[: reference.n]), reference.n)
        return known[key]


HELD: WeakKeyDictionary[Reference, dict[tuple[str, torch.dtype | None], DeviceRows]] = WeakKeyDictionary()
"""Reference rows that were copied to devices."""
