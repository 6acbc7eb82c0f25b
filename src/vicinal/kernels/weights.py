"""The weight of a neighbor: one function of its distance, for every localizer.

Weights are always relative to the nearest neighbor's, so that they never underflow to 0 / 0: what is computed is the
difference of two log-weights.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from vicinal.kernels._jit import kernel

EQUAL, EXPONENTIAL, FORMULA = 0, 1, 2
"""Shapes of a weight: 1, exp(-distance / bandwidth), or a compiled formula of distance / bandwidth."""


class Rule(NamedTuple):
    """Who is a neighbor, and with which weight: what kernels read of a localizer."""

    n_neighbors: int  # 0: everyone
    radius2: float  # squared radius of a ball; negative: no ball
    shape: int
    bandwidth: float  # the unit of distance; inf for equal weights
    own_weight: float  # 1: the point itself is an atom above every value (the paper to the letter); else 0
    formula: Any  # log-weight of distance / bandwidth, compiled; read only where the shape says so


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
    if rule.shape == EXPONENTIAL:  # in a loop of its own: the shape is asked once, not for every pair
        for c in range(count):
            out[c] = np.exp(log_weight_ratio(rule, far[c], near[c]))
    else:
        for c in range(count):
            out[c] = np.exp(log_weight_ratio(rule, far[c], near[c]))


def no_formula(u):
    """Return what was given: what stands in a rule whose shape needs no formula."""
    return u
