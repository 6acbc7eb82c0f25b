"""Scores of labels on tensors: which labels score at most the row's bound."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from vicinal.torch.parts import Part


def bounds(thresholds: Tensor, gap: Tensor, equal: float) -> Tensor:
    """Return thresholds such that scores equal to them are inside, or outside where they stand for an open gap.

    Scores that differ by less than `equal` are the same: another device rounds the last bits differently.
    """
    return thresholds + torch.where(gap, -equal, equal)


class Score(Part):
    """V(x, y) for class probabilities."""

    randomized = False
    """Whether U enters the score."""

    def members(self, probabilities: Tensor, uniforms: Tensor, bound: Tensor) -> Tensor:
        """Return which labels score at most the row's bound, (q, classes)."""
        raise NotImplementedError


class LAC(Score):
    """1 - probability of the label."""

    def members(self, probabilities: Tensor, uniforms: Tensor, bound: Tensor) -> Tensor:
        """Return which labels score at most the row's bound, (q, classes)."""
        del uniforms
        return 1.0 - probabilities.double() <= bound[:, None]


class RAPS(Score):
    """Mass before the label + U * its own + rank_penalty * max(0, rank - free_ranks)."""

    rank_penalty: float
    free_ranks: int
    randomized = True

    def members(self, probabilities: Tensor, uniforms: Tensor, bound: Tensor) -> Tensor:
        """Return which labels score at most the row's bound, (q, classes): a prefix of the sorted labels."""
        classes = probabilities.shape[1]
        # Of equals the smaller number comes first; ONNX sorts so anyway and knows no other sort.
        stable = {} if torch.compiler.is_exporting() else {"stable": True}
        values, labels = probabilities.sort(dim=1, descending=True, **stable)
        mass = values.cumsum(1, dtype=torch.float64)
        scores = nn.functional.pad(mass[:, :-1], (1, 0)) + uniforms[:, None] * values
        if self.rank_penalty:
            ranks = torch.arange(1, classes + 1, device=values.device)
            scores = scores + self.rank_penalty * (ranks - self.free_ranks).clamp_min(0).double()
        length = (scores <= bound[:, None]).sum(1, keepdim=True)
        last = (length - 1).clamp_min(0)
        # Labels before the last of the prefix are likelier, or as likely with a smaller number: no need to sort back.
        least, label = values.gather(1, last), labels.gather(1, last)
        numbers = torch.arange(classes, device=values.device)
        inside = (probabilities > least) | ((probabilities == least) & (numbers <= label))
        return inside & (length > 0)


class NeverEmpty(Score):
    """Any score, with the top label always inside."""

    score: Score

    @property
    def randomized(self) -> bool:  # type: ignore[override]
        """Whether the wrapped score is."""
        return self.score.randomized

    def members(self, probabilities: Tensor, uniforms: Tensor, bound: Tensor) -> Tensor:
        """Return which labels score at most the row's bound, (q, classes)."""
        inside = self.score.members(probabilities, uniforms, bound)
        numbers = torch.arange(probabilities.shape[1], device=probabilities.device)
        return inside | (numbers == probabilities.argmax(1, keepdim=True))


def everything(mask: Tensor, thresholds: Tensor, broken: Tensor) -> tuple[Tensor, Tensor]:
    """Return sets and thresholds where broken rows have every label: what a graph does where it cannot refuse."""
    return mask | broken[:, None], torch.where(broken, math.inf, thresholds)
