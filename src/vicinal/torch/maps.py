"""Representation maps on tensors: the same steps in the same types as on the numpy side."""

from __future__ import annotations

import torch
from torch import Tensor

from vicinal.torch.parts import Part


def at_least_single(rows: Tensor) -> Tensor:
    """Return half precision as float32, and anything else as it is."""
    return rows.float() if rows.dtype in (torch.float16, torch.bfloat16) else rows


class Map(Part):
    """A function of one row's representation."""

    @property
    def same_bits(self) -> bool:
        """Whether it makes the same bits of a row as the numpy side: sums are taken in another order."""
        return True

    def taken_width(self, width: int) -> int:
        """Return how wide the rows are that it makes `width` columns of."""
        return width

    def forward(self, rows: Tensor) -> Tensor:
        """Return the mapped rows, (n, new width)."""
        raise NotImplementedError


class Identity(Map):
    """Rows as they are."""

    def forward(self, rows: Tensor) -> Tensor:
        """Return the rows."""
        return rows


class UnitLength(Map):
    """Directions only."""

    @property
    def same_bits(self) -> bool:
        """It sums over a row."""
        return False

    def forward(self, rows: Tensor) -> Tensor:
        """Return each row divided by its length; a zero row stays zero."""
        largest = rows.abs().amax(1, keepdim=True)
        scaled = rows / torch.where(largest > 0, largest, 1.0)
        lengths = scaled.square().double().sum(1, keepdim=True).sqrt()
        return (scaled.double() / torch.where(lengths > 0, lengths, 1.0)).to(rows.dtype)


class Rounded(Map):
    """Every entry rounded to the nearest float of 16 or 32 bits."""

    bits: int

    def forward(self, rows: Tensor) -> Tensor:
        """Return the rounded rows."""
        kind = torch.float16 if self.bits == 16 else torch.float32  # noqa: PLR2004
        return at_least_single(rows.to(kind)) if rows.dtype.itemsize > kind.itemsize else rows


class Affine(Map):
    """(row - shift) * scale, then turned to other axes where there are any."""

    shift: Tensor  # (d,)
    scale: Tensor  # (d,)
    axes: Tensor | None  # (new width, d)

    @property
    def same_bits(self) -> bool:
        """It sums over a row where it turns it."""
        return self.axes is None

    def taken_width(self, width: int) -> int:
        """Return how wide the rows are that it was fitted on."""
        del width
        return len(self.shift)

    def forward(self, rows: Tensor) -> Tensor:
        """Return the mapped rows, computed in float64."""
        moved = (rows.double() - self.shift) * self.scale
        return (moved if self.axes is None else moved @ self.axes.T).to(rows.dtype)


class Chained(Map):
    """Maps one after another."""

    @property
    def same_bits(self) -> bool:
        """Whether all of them do."""
        return all(part.same_bits for part in self.children() if isinstance(part, Map))

    def taken_width(self, width: int) -> int:
        """Return how wide the rows are that the first map takes."""
        for part in reversed(list(self.children())):
            width = part.taken_width(width) if isinstance(part, Map) else width
        return width

    def forward(self, rows: Tensor) -> Tensor:
        """Return what the last map makes of what the others made."""
        for part in self.children():
            rows = part(rows)
        return rows
