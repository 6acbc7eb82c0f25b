"""The weight of a neighbor as a function of its distance, for every localizer.

Weights are relative to that of the nearest neighbor, computed from the difference of two log-weights, so that they
never underflow to 0 / 0.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from vicinal.kernels._jit import kernel

EQUAL, EXPONENTIAL, FORMULA = 0, 1, 2
"""Shapes of a weight: 1, exp(-distance / bandwidth), or a compiled formula of distance / bandwidth."""


class Rule(NamedTuple):
    """A localizer in the form that kernels read: which rows are neighbors, and with which weight."""

    n_neighbors: int  # 0: all rows
    radius2: float  # squared radius of a ball; negative: no ball
    shape: int
    bandwidth: float  # the unit of distance; inf for equal weights
    own_weight: float  # 1: the point is its own neighbor, with a score above every value (PaperLiteral); else 0
    formula: Any  # compiled log-weight of distance / bandwidth; used only if the shape is FORMULA


@kernel
def log_weight_ratio(rule, distance, nearest):
    """Return log w(distance) - log w(nearest)."""
    if rule.shape == EXPONENTIAL:
        return -(distance - nearest) / rule.bandwidth
    if rule.shape == EQUAL:
        return 0.0
    return rule.formula(distance / rule.bandwidth) - rule.formula(nearest / rule.bandwidth)


@kernel
def weigh_pairs(rule, far, near, count, out):
    """Write w(far) / w(near) of each pair of distances; `out` may be one of the two arrays."""
    if rule.shape == EXPONENTIAL:  # a separate loop: the shape is compared once, not for every pair
        for c in range(count):
            out[c] = np.exp(log_weight_ratio(rule, far[c], near[c]))
    else:
        for c in range(count):
            out[c] = np.exp(log_weight_ratio(rule, far[c], near[c]))


def no_formula(u):
    """Return the argument: a placeholder in rules that need no formula."""
    return u
