"""The weight of a neighbor on tensors: the mirror of `vicinal.kernels.weights`."""

from __future__ import annotations

from torch import Tensor

from vicinal.kernels.weights import EXPONENTIAL, Rule


def log_weight_ratio(rule: Rule, distance: Tensor, nearest: Tensor) -> Tensor:
    """Return log w(distance) - log w(nearest), for weights that are not equal."""
    if rule.shape == EXPONENTIAL:
        return (distance - nearest) / -float(rule.bandwidth)
    far: Tensor = rule.formula(distance / rule.bandwidth)
    near: Tensor = rule.formula(nearest / rule.bandwidth)
    return far - near
