"""Reference rows, which can be neighbors, and distances to them that do not depend on the block.

Distances are computed from products of padded rows if these are stable with the BLAS of this machine. If products in
float32 are not (OpenBLAS on AVX2), products in float64 are tried, and finally sums of squares, which are also used for
short rows, where products are no faster. A few queries are not padded to a whole tile if a test on the rows themselves
shows that the bits are the same without.
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
"""Up to FEW queries are padded to a multiple of FEW_TILE if the bits are the same: a service predicts row by row."""

WORTHWHILE = 2**18
"""Fewest entries of the rows for which small batches are treated separately."""

ALL: Ints = np.empty((0, 0), np.int64)
"""No lists of candidates: a query is compared with all rows."""

LONGEST = {kind().itemsize: float(np.finfo(kind).max) / 8.0 for kind in (np.float32, np.float64)}
"""The largest squared length of rows between which no distance overflows, by bytes of their type."""

DIRECT_WIDTH = 24
"""Representations up to this wide are compared directly: a product would not be faster."""


@register
@dataclass(frozen=True, eq=False)
class Reference:
    """Rows that can be neighbors, padded to whole tiles, in float32 or float64, with their squared norms."""

    rows: Reals
    n: int
    multiplied: bool  # distances are computed from products; otherwise from sums of squares

    @cached_property
    def norms(self) -> Floats:
        """Squared norms of the rows; refuses rows so long that a distance would overflow."""
        return _norms(self.rows)

    @classmethod
    def of(cls, representations: Readable, order: Ints) -> Reference:
        """Copy the rows in the given order, pad them and compute their norms; float16 becomes float32."""
        width = representations.shape[1]
        dtype, multiplied = arithmetic_for(representations.dtype, width)
        padded = zero_tiles(len(order), width, dtype, TILE)
        step = rows_within(0.25, 4 * 8 * width, 4096)  # in chunks: no second copy of all rows
        for start in range(0, len(order), step):
            some = order[start : start + step]
            padded[start : start + len(some)] = representations[some]
        found = cls(padded, len(order), multiplied)
        found.__dict__["norms"] = _norms(padded)  # now: it refuses rows that are too long
        return found

    def stored_fields(self) -> dict[str, Any]:
        """Return the fields to save; norms and arithmetic are computed anew on each machine."""
        return {"rows": self.rows, "n": self.n, "bits": self.bits}

    @classmethod
    def from_stored(cls, rows: NDArray[np.floating], n: int, bits: int) -> Reference:
        """Return the rows from saved fields; raise `CorruptArtifact` if they are not valid."""
        if not (n > 0 and rows.ndim == 2 and rows.shape[1] > 0):  # noqa: PLR2004
            msg = "reference rows must be at least one row with at least one column."
            raise CorruptArtifact(msg)
        return cls.restore(rows, n, bits)

    @property
    def bits(self) -> int:
        """Bits of the floats in which rows are compared."""
        return 8 * self.rows.dtype.itemsize

    @classmethod
    def restore(cls, rows: Reals, n: int, bits: int) -> Reference:
        """Return n padded rows, without a copy if they have the type in which they are compared.

        Rows may be stored in fewer bits than those in which they are compared. They are then converted back, because
        comparing in fewer bits would round the queries and change distances.
        """
        if bits not in (32, 64):
            msg = f"rows must be compared in 32 or 64 bits; got {bits}."
            raise CorruptArtifact(msg)
        if len(rows) != len(zero_tiles(n, 0, np.dtype("<f4"), TILE)) or rows[n:].any():
            msg = f"there must be {n} rows, padded with zeros to a multiple of {TILE}; got shape {rows.shape}."
            raise CorruptArtifact(msg)
        check_finite(rows, "rows")
        dtype, multiplied = arithmetic_for(np.dtype(f"<f{bits // 8}"), rows.shape[1])
        taken = rows.astype(dtype, copy=False)
        return cls(taken, n, multiplied)

    @cached_property
    def arithmetic(self) -> str:
        """Text that identifies how distances and weights are rounded on this machine: equal texts mean equal bits."""
        return _arithmetic(self.width, self.rows.dtype.str, self.multiplied) if self.width and COMPILED else ""

    @property
    def direct_arithmetic(self) -> str:
        """The same text for distances that are computed as sums of squares."""
        return _arithmetic(self.width, self.rows.dtype.str, multiplied=False) if self.width else ""

    @property
    def width(self) -> int:
        """Number of columns."""
        return int(self.rows.shape[1])

    def panel(self, queries: Reals, buffer: Reals | None = None, threads: int | None = None) -> Panel:
        """Return one block of queries, (q, d), against all rows; products are written to a large enough `buffer`."""
        dtype = self.rows.dtype
        if not self.multiplied:
            rows = np.ascontiguousarray(queries, dtype=dtype)
            return Panel(np.empty((0, 0), dtype), rows, _norms(rows), self.rows, self.norms, self.n, ALL)
        if len(queries) <= FEW and self.few_agree:
            rows = pad_queries(queries, dtype, FEW_TILE)
            norms = _norms(rows)  # first: it refuses rows that are too long to multiply
            return Panel(self._few_products(rows), rows[: len(queries)], norms, self.rows, self.norms, self.n, ALL)
        rows, norms = pad_queries(queries, dtype), np.empty(len(queries))
        work = len(norms), rows.shape[1], threads
        over_chunks(lambda start, stop: squared_norms(rows[start:stop], norms[start:stop]), *work)
        if len(norms) and not norms.max() <= LONGEST[dtype.itemsize]:
            raise make_length_error(dtype, float(norms.max()), LONGEST[dtype.itemsize])
        fits = buffer is not None and len(buffer) >= len(rows) and buffer.shape[1] == len(self.rows)
        dots = products(rows, self.rows, buffer[: len(rows)] if fits and buffer is not None else None)
        return Panel(dots, rows[: len(queries)], norms, self.rows, self.norms, self.n, ALL)

    @cached_property
    def few_agree(self) -> bool:
        """Whether the products of a few queries with these rows are equal, to the bit, to those in a whole tile."""
        if self.rows.size < WORTHWHILE:
            return False
        # Queries as long as the rows, with random bits: another order of summation would change most products.
        scale = np.sqrt(self.norms.max() / self.width)
        tile = (scale * np.random.default_rng(0).standard_normal((QUERY_TILE, self.width))).astype(self.rows.dtype)
        whole = products(tile, self.rows)
        return all(
            np.array_equal(self._few_products(tile[start : start + few].copy()), whole[start : start + few])
            for few in range(FEW_TILE, FEW + 1, FEW_TILE)
            for start in range(0, QUERY_TILE - few + 1, few)
        )

    def _few_products(self, queries: Reals) -> Reals:
        """Return the products of a few queries with all rows, (few, n); in this order, BLAS need not pack the rows."""
        return np.ascontiguousarray(products(self.rows, queries).T)

    def shortlist(self, queries: Reals, listed: Ints) -> Panel:
        """Return one block of queries, (q, d), each against its own candidate rows `listed`, (q, m)."""
        with np.errstate(over="ignore"):  # rows that are too long are refused when their norms are computed
            rows = np.ascontiguousarray(queries, dtype=self.rows.dtype)
        return Panel(np.empty((0, 0), rows.dtype), rows, _norms(rows), self.rows, self.norms, self.n, listed)


def nearest_first(panel: Panel, rule: Rule) -> Iterator[tuple[Ints, Floats, Floats, bool]]:
    """Yield rows, distances and weights (summing to one) of each query's neighbors, and whether its ball was empty.

    Distances are NaN where none are needed.
    """
    for query in range(len(panel.queries)):
        found = cast("tuple[Ints, Floats, Floats, bool]", listed_neighbors(panel, rule, query))
        who, squared, weights, everyone = found
        order = np.argsort(squared, kind="stable")
        distances = np.sqrt(squared[order]) if panel.rows.shape[1] else np.full(len(order), np.nan)
        yield who[order], distances, weights[order] / max(weights.sum(), np.finfo(float).tiny), bool(everyone)


def arithmetic_for(dtype: np.dtype[np.floating], width: int) -> tuple[np.dtype[np.floating], bool]:
    """Return the type in which rows of a given type are compared on this machine, and whether by products."""
    dtypes = ["<f8"] if dtype == np.float64 else ["<f4", "<f8"]
    stable = [dtype for dtype in dtypes if width > DIRECT_WIDTH and first_columns(width, dtype) is not None]
    return np.dtype((stable or dtypes)[0]), bool(stable)


@lru_cache(maxsize=256)
def _arithmetic(width: int, dtype: str, multiplied: bool) -> str:  # noqa: FBT001
    """Return a digest of the distances and weights of fixed rows, as the kernels compute them here."""
    # Rows from whole numbers: the random generators of numpy may change between versions.
    rows = (np.arange(2 * TILE * width, dtype=np.int64) ** 2 % 1009 / 97 - 5).reshape(-1, width).astype(dtype)
    reference = Reference(rows, len(rows), multiplied)
    panel = reference.panel(rows[:QUERY_TILE])
    digest = hashlib.sha256(f"{dtype} {multiplied}".encode())
    rule = Rule(0, -1.0, EXPONENTIAL, math.sqrt(width), 0.0, compile_formula(no_formula))
    for _, distances, weights, _ in nearest_first(panel, rule):
        digest.update(distances.tobytes() + weights.tobytes())
    return digest.hexdigest()[:16]


def make_length_error(dtype: object, length: float, most: float) -> InvalidValue:
    """Return the error for representations whose distances would overflow."""
    return InvalidValue(
        f"the squared length of representations must be at most {most:.3g} for distances in {dtype}; "
        f"got {length:.3g}. Scale them down."
    )


def _norms(rows: Reals) -> Floats:
    """Return the squared norms; refuse rows so long that a distance would overflow."""
    out = np.empty(len(rows))
    over_chunks(lambda start, stop: squared_norms(rows[start:stop], out[start:stop]), len(rows), rows.shape[1])
    if len(out) and not out.max() <= LONGEST[rows.dtype.itemsize]:
        raise make_length_error(rows.dtype, float(out.max()), LONGEST[rows.dtype.itemsize])
    return out
