"""Squared Euclidean distances, each a function of its two rows alone.

A distance comes from one of two formulas, chosen by the two rows only:
|a|^2 + |b|^2 - 2 a.b with a.b from a matrix product, unless cancellation or underflow would spoil it; then
sum (a - b)^2.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vicinal.kernels._jit import kernel

LANES = 16
"""Number of independent partial sums of `direct`; it is fixed, so that the order of additions is fixed."""

CANCELLATION = 1.0 / 64.0
"""Below this share of |a|^2 + |b|^2 the product formula has lost six bits or more, and `direct` is used."""

FLOOR = 2.0**-90
"""Below this squared distance, too, `direct` is used: products of such short rows underflow in float32."""


class Panel(NamedTuple):
    """One block of queries against all reference rows."""

    dots: NDArray[np.floating]  # (queries, at least n) products; with lists, squared distances; (0, 0): all are direct
    queries: NDArray[np.floating]  # (queries, d)
    query_norms: NDArray[np.float64]  # (queries,)
    rows: NDArray[np.floating]  # (at least n, d)
    norms: NDArray[np.float64]  # (at least n,)
    n: int
    listed: NDArray[np.int64]  # (queries, m) candidate rows, ascending, n where there are no more; or (0, 0): all


@kernel
def columns(panel):
    """Return how many distances a query has in this panel."""
    return panel.n if panel.listed.shape[0] == 0 else panel.listed.shape[1]


@kernel
def named_row(panel, q, place):
    """Return the row that belongs to a position among the distances of a query."""
    return place if panel.listed.shape[0] == 0 else panel.listed[q, place]


@kernel
def name_rows(panel, q, who, count):
    """Replace positions among the distances of a query by rows."""
    if panel.listed.shape[0] > 0:
        for c in range(count):
            who[c] = panel.listed[q, who[c]]


@kernel
def direct(a, b):
    """Return sum (a - b)^2 in float64, added in a fixed order."""
    partial = np.zeros(LANES)
    d = a.shape[0]
    whole = d - d % LANES
    for start in range(0, whole, LANES):
        for lane in range(LANES):
            difference = np.float64(a[start + lane]) - np.float64(b[start + lane])
            partial[lane] += difference * difference
    for j in range(whole, d):
        difference = np.float64(a[j]) - np.float64(b[j])
        partial[j - whole] += difference * difference
    total = 0.0
    for lane in range(LANES):
        total += partial[lane]
    return total


@kernel
def short_distances(query, rows, n, out):
    """Write the same as `direct` for rows shorter than its partial sums, to the bit, in loops over all rows."""
    d = query.shape[0]
    flat = rows.ravel()  # without the strides of a table, the loops are vectorized
    for i in range(n):
        out[i] = 0.0
    for j in range(d):
        entry = np.float64(query[j])
        for i in range(n):
            difference = entry - np.float64(flat[d * i + j])
            out[i] += difference * difference


@kernel
def squared_norms(rows, out):
    """Write |row|^2 in float64, added in a fixed order."""
    d = rows.shape[1]
    whole = d - d % LANES
    for i in range(rows.shape[0]):
        partial = np.zeros(LANES)
        row = rows[i]
        for start in range(0, whole, LANES):
            for lane in range(LANES):
                value = np.float64(row[start + lane])
                partial[lane] += value * value
        for j in range(whole, d):
            value = np.float64(row[j])
            partial[j - whole] += value * value
        total = 0.0
        for lane in range(LANES):
            total += partial[lane]
        out[i] = total


@kernel
def row_distances(panel, q, own, out):
    """Write the squared distances of query `q` to all rows, or those listed; infinite to the row `own` (-1: none)."""
    if panel.listed.shape[0] > 0:
        known = panel.dots.shape[0] > 0
        for c in range(panel.listed.shape[1]):
            row = panel.listed[q, c]
            if row == own or row >= panel.n:
                out[c] = np.inf
            else:
                out[c] = panel.dots[q, c] if known else direct(panel.queries[q], panel.rows[row])
    else:
        all_distances(panel, q, out)
        if own >= 0:
            out[own] = np.inf


@kernel
def all_distances(panel, q, out):
    """Write the squared distances of query `q` to the `n` reference rows."""
    query = panel.queries[q]
    if panel.dots.shape[0] == 0:
        if query.shape[0] < LANES:
            short_distances(query, panel.rows, panel.n, out)
            return
        for i in range(panel.n):
            out[i] = direct(query, panel.rows[i])
        return
    dots = panel.dots[q]
    norm = panel.query_norms[q]
    spoiled = 0
    for i in range(panel.n):
        both = norm + panel.norms[i]
        value = both - 2.0 * np.float64(dots[i])
        out[i] = value
        spoiled += value <= CANCELLATION * both + FLOOR
    if spoiled > 0:
        for i in range(panel.n):
            if out[i] <= CANCELLATION * (norm + panel.norms[i]) + FLOOR:
                out[i] = direct(query, panel.rows[i])
