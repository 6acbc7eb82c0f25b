"""Rows that can be neighbors, and distances to them that do not depend on the block they were computed in.

Distances come from products of padded rows, which are stable where this machine's BLAS allows it; where those in
float32 are not (OpenBLAS on AVX2), those in float64 are tried, and at last every distance is a plain sum of squares, as
it is for short rows, where a product gains nothing. A few queries need no whole tile where this machine's BLAS gives
the same bits without: that too is tried first, on the rows themselves.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from vicinal._util.arrays import Floats, Ints, Reals, check_finite
from vicinal._util.lazy_rows import Readable
from vicinal._util.register import register
from vicinal._util.work import over_chunks, rows_within
from vicinal.errors import CorruptArtifact, InvalidValue
from vicinal.kernels._jit import COMPILED, compile_formula
from vicinal.kernels.distances import Panel, squared_norms
from vicinal.kernels.ranks import listed_neighbors
from vicinal.kernels.weights import EXPONENTIAL, Rule, no_formula
from vicinal.neighbors.products import QUERY_TILE, TILE, first_columns, pad_queries, products, zero_tiles

FEW, FEW_TILE = 16, 4
"""Queries up to the first are padded to the second, where the bits are the same: a service is asked row by row."""

WORTHWHILE = 2**18
"""Entries of the rows from which a few queries are worth a way of their own."""

ALL: Ints = np.empty((0, 0), np.int64)
"""No lists: a query is compared with all rows."""

LONGEST = {kind().itemsize: float(np.finfo(kind).max) / 8.0 for kind in (np.float32, np.float64)}
"""The largest squared length of rows between which no distance overflows, by bytes of their type."""

DIRECT_WIDTH = 24
"""Representations up to this wide are compared directly: a product would not be faster."""


@register
@dataclass(frozen=True, eq=False)
class Reference:
    """Rows that can be neighbors: (n padded to tiles, d) in float32 or float64, with their squared norms."""

    rows: Reals
    n: int
    multiplied: bool  # distances come from products; otherwise from plain sums of squares

    @cached_property
    def norms(self) -> Floats:
        """Squared norms of the rows; refuses rows so long that a distance would overflow."""
        return _norms(self.rows)

    @classmethod
    def of(cls, representations: Readable, order: Ints) -> Reference:
        """Take the rows in `order`, pad and measure them; float16 becomes float32."""
        width = representations.shape[1]
        dtype, multiplied = arithmetic_for(representations.dtype, width)
        padded = zero_tiles(len(order), width, dtype, TILE)
        step = rows_within(0.25, 4 * 8 * width, 4096)  # piece by piece: no second copy of all rows
        for start in range(0, len(order), step):
            some = order[start : start + step]
            padded[start : start + len(some)] = representations[some]
        found = cls(padded, len(order), multiplied)
        found.__dict__["norms"] = _norms(padded)  # now: it refuses rows that are too long
        return found

    def stored_fields(self) -> dict[str, Any]:
        """Return what makes the rows again; norms and arithmetic are this machine's."""
        return {"rows": self.rows, "n": self.n, "bits": self.bits}

    @classmethod
    def from_stored(cls, rows: NDArray[np.floating], n: int, bits: int) -> Reference:
        """Return the rows that were stored; `CorruptArtifact` where they cannot be any."""
        if not (n > 0 and rows.ndim == 2 and rows.shape[1] > 0):  # noqa: PLR2004
            msg = "it must have at least one row with a column."
            raise CorruptArtifact(msg)
        return cls.restore(rows, n, bits)

    @property
    def bits(self) -> int:
        """Bits of the floats that rows are compared in."""
        return 8 * self.rows.dtype.itemsize

    @classmethod
    def restore(cls, rows: Reals, n: int, bits: int) -> Reference:
        """Take n padded rows as they lie, where they are compared in the type they have; otherwise a copy.

        Rows may be stored in fewer than the `bits` they were compared in, which then still count: rounding the rows
        they are compared with to fewer would change distances.
        """
        if bits not in (32, 64):
            msg = f"rows must be compared in 32 or 64 bits; got {bits}."
            raise CorruptArtifact(msg)
        if len(rows) != len(zero_tiles(n, 0, np.dtype("<f4"), TILE)) or rows[n:].any():
            msg = f"rows must be {n}, filled up with zeros to a multiple of {TILE}; got shape {rows.shape}."
            raise CorruptArtifact(msg)
        check_finite(rows, "rows")
        dtype, multiplied = arithmetic_for(np.dtype(f"<f{bits // 8}"), rows.shape[1])
        taken = rows.astype(dtype, copy=False)
        return cls(taken, n, multiplied)

    @cached_property
    def arithmetic(self) -> str:
        """What this machine makes of distances and weights of fixed rows of this kind: equal words, equal bits."""
        return _arithmetic(self.width, self.rows.dtype.str, self.multiplied) if self.width and COMPILED else ""

    @property
    def direct_arithmetic(self) -> str:
        """What this machine makes of distances that are plain sums of squares, and of weights."""
        return _arithmetic(self.width, self.rows.dtype.str, multiplied=False) if self.width else ""

    @property
    def width(self) -> int:
        """Number of columns."""
        return int(self.rows.shape[1])

    def panel(self, queries: Reals, buffer: Reals | None = None, threads: int | None = None) -> Panel:
        """Return one block of queries, (q, d), against all rows; products are written to a `buffer` that fits."""
        dtype = self.rows.dtype
        if not self.multiplied:
            rows = np.ascontiguousarray(queries, dtype=dtype)
            return Panel(np.empty((0, 0), dtype), rows, _norms(rows), self.rows, self.norms, self.n, ALL)
        if len(queries) <= FEW and self.few_agree:
            rows = pad_queries(queries, dtype, FEW_TILE)
            return Panel(
                self._few_products(rows), rows[: len(queries)], _norms(rows), self.rows, self.norms, self.n, ALL
            )
        rows, norms = pad_queries(queries, dtype), np.empty(len(queries))
        work = len(norms), rows.shape[1], threads
        over_chunks(lambda start, stop: squared_norms(rows[start:stop], norms[start:stop]), *work)
        if len(norms) and not norms.max() <= LONGEST[dtype.itemsize]:
            raise too_long(dtype, float(norms.max()), LONGEST[dtype.itemsize])
        fits = buffer is not None and len(buffer) >= len(rows) and buffer.shape[1] == len(self.rows)
        dots = products(rows, self.rows, buffer[: len(rows)] if fits and buffer is not None else None)
        return Panel(dots, rows[: len(queries)], norms, self.rows, self.norms, self.n, ALL)

    @cached_property
    def few_agree(self) -> bool:
        """Whether a few queries have the same products with these rows, to the bit, as in a whole tile."""
        if self.rows.size < WORTHWHILE:
            return False
        # Queries as long as the rows, with every bit in use: another order of summing would show in most products.
        scale = np.sqrt(self.norms.max() / self.width)
        tile = (scale * np.random.default_rng(0).standard_normal((QUERY_TILE, self.width))).astype(self.rows.dtype)
        whole = products(tile, self.rows)
        return all(
            np.array_equal(self._few_products(tile[start : start + few].copy()), whole[start : start + few])
            for few in range(FEW_TILE, FEW + 1, FEW_TILE)
            for start in range(0, QUERY_TILE - few + 1, few)
        )

    def _few_products(self, queries: Reals) -> Reals:
        """Return the products of a few queries with all rows, (few, n); this way round BLAS need not pack the rows."""
        return np.ascontiguousarray(products(self.rows, queries).T)

    def shortlist(self, queries: Reals, listed: Ints) -> Panel:
        """Return one block of queries, (q, d), each against the rows `listed` for it, (q, m)."""
        with np.errstate(over="ignore"):  # too long a row is said when it is measured
            rows = np.ascontiguousarray(queries, dtype=self.rows.dtype)
        return Panel(np.empty((0, 0), rows.dtype), rows, _norms(rows), self.rows, self.norms, self.n, listed)


def nearest_first(panel: Panel, rule: Rule) -> Iterator[tuple[Ints, Floats, Floats, bool]]:
    """Yield rows, distances and weights (summing to one) of each query's neighbors, and whether its ball was empty.

    Distances are NaN where none were taken.
    """
    for query in range(len(panel.queries)):
        found = cast("tuple[Ints, Floats, Floats, bool]", listed_neighbors(panel, rule, query))
        who, squared, weights, everyone = found
        order = np.argsort(squared, kind="stable")
        distances = np.sqrt(squared[order]) if panel.rows.shape[1] else np.full(len(order), np.nan)
        yield who[order], distances, weights[order] / max(weights.sum(), np.finfo(float).tiny), bool(everyone)


def arithmetic_for(dtype: np.dtype[np.floating], width: int) -> tuple[np.dtype[np.floating], bool]:
    """Return in which type rows of a given one are compared on this machine, and whether by products."""
    dtypes = ["<f8"] if dtype == np.float64 else ["<f4", "<f8"]
    stable = [dtype for dtype in dtypes if width > DIRECT_WIDTH and first_columns(width, dtype) is not None]
    return np.dtype((stable or dtypes)[0]), bool(stable)


@lru_cache(maxsize=256)
def _arithmetic(width: int, dtype: str, multiplied: bool) -> str:  # noqa: FBT001
    """Return a digest of the distances and weights of fixed rows, as the kernels compute them here."""
    # Rows from whole numbers, not from a generator: those may change between versions of numpy.
    rows = (np.arange(2 * TILE * width, dtype=np.int64) ** 2 % 1009 / 97 - 5).reshape(-1, width).astype(dtype)
    reference = Reference(rows, len(rows), multiplied)
    panel = reference.panel(rows[:QUERY_TILE])
    digest = hashlib.sha256(f"{dtype} {multiplied}".encode())
    rule = Rule(0, -1.0, EXPONENTIAL, math.sqrt(width), 0.0, compile_formula(no_formula))
    for _, distances, weights, _ in nearest_first(panel, rule):
        digest.update(distances.tobytes() + weights.tobytes())
    return digest.hexdigest()[:16]


def too_long(dtype: object, length: float, most: float) -> InvalidValue:
    """Say that representations are too long for distances between them."""
    return InvalidValue(
        f"representations must be short enough for distances in {dtype}: squared length at most {most:.3g}; "
        f"one has {length:.3g}. Scale them down."
    )


def _norms(rows: Reals) -> Floats:
    """Return the squared norms; refuse rows so long that a distance would overflow."""
    out = np.empty(len(rows))
    over_chunks(lambda start, stop: squared_norms(rows[start:stop], out[start:stop]), len(rows), rows.shape[1])
    if len(out) and not out.max() <= LONGEST[rows.dtype.itemsize]:
        raise too_long(rows.dtype, float(out.max()), LONGEST[rows.dtype.itemsize])
    return out
