"""Representation maps on tensors: the same steps in the same types as on the numpy side."""

from __future__ import annotations

import torch
from torch import Tensor

from vicinal import maps as numpy_maps
from vicinal.errors import InvalidValue
from vicinal.neighbors.products import row_products
from vicinal.torch.parts import Free, Part, require


def at_least_single(rows: Tensor) -> Tensor:
    """Return half precision as float32, and anything else as it is."""
    return rows.float() if rows.dtype in (torch.float16, torch.bfloat16) else rows


def on_cpu(rows: Tensor) -> bool:
    """Return whether rows lie where numpy can see them, and are no part of a graph."""
    return rows.device.type == "cpu" and not torch.compiler.is_compiling()


class Map(Part):
    """A function of one row's representation: on a CPU the numpy side's to the bit, which has to do it itself."""

    @property
    def same_bits(self) -> bool:
        """Whether a GPU makes the same bits of a row: sums are taken in another order there."""
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
        if on_cpu(rows):
            return torch.from_numpy(numpy_maps.UnitLength().of(rows.numpy()))
        largest = rows.abs().amax(1, keepdim=True)
        scaled = rows / torch.where(largest > 0, largest, 1.0)
        lengths = scaled.square().double().sum(1, keepdim=True).sqrt()
        return (scaled.double() / torch.where(lengths > 0, lengths, 1.0)).to(rows.dtype)


class Rounded(Map):
    """Every entry rounded to the nearest float of 16 or 32 bits."""

    bits: int

    def forward(self, rows: Tensor) -> Tensor:
        """Return the rounded rows; refuse those that do not fit."""
        kind = torch.float16 if self.bits == 16 else torch.float32  # noqa: PLR2004
        if rows.dtype.itemsize <= kind.itemsize:
            return rows
        found = at_least_single(rows.to(kind))
        if not torch.compiler.is_compiling() and not bool(found.isfinite().all()):
            most = torch.finfo(kind).max
            msg = f"representations must be at most {most:.6g} in size for {self.bits} bits; scale them down first."
            raise InvalidValue(msg)
        return found

    def check(self) -> None:
        """Refuse other numbers of bits."""
        require(self.bits in (16, 32), "16 or 32 bits")


class Affine(Map):
    """(row - shift) * scale, then turned to other axes where there are any."""

    shift: Tensor  # (d,)
    scale: Tensor  # (d,)
    axes: Tensor | None  # (new width, d)

    def check(self) -> None:
        """Refuse arrays that do not go together."""
        d = len(self.shift)
        require(self.shift.shape == self.scale.shape == (d,), "a shift and a scale for each column")
        require(self.axes is None or self.axes.shape[1:] == (d,), "axes as wide as the rows")

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
        if self.axes is not None and on_cpu(rows):
            return torch.from_numpy(row_products(moved.numpy(), self.axes.numpy())).to(rows.dtype)
        return (moved if self.axes is None else moved @ self.axes.T).to(rows.dtype)


class Chained(Map, Free):
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
