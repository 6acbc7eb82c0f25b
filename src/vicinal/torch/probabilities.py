"""From a network's outputs to class probabilities on tensors: softmax, a temperature, neighbors' votes."""

from __future__ import annotations

import torch
from torch import Tensor

from vicinal.probabilities.temperature import SMALLEST_PROBABILITY
from vicinal.torch.maps import Map, at_least_single
from vicinal.torch.methods import Reference
from vicinal.torch.neighborhoods import Near
from vicinal.torch.parts import Part, require

EQUAL, COARSELY_EQUAL = 2.0**-40, 2.0**-20
"""Scores of probabilities that differ by less are the same; the second where float32 distances enter them."""


class Probabilities(Part):
    """Probabilities as given, or the softmax of logits; `normalized` says that the network gives probabilities."""

    normalized: bool

    @property
    def equal(self) -> float:
        """How far scores may differ between devices."""
        return EQUAL

    def forward(self, outputs: Tensor, representations: Tensor | None, *, listed: bool) -> Tensor:
        """Return the probabilities of each row, (q, classes)."""
        del representations, listed
        return at_least_single(outputs) if self.normalized else torch.softmax(outputs.double(), 1)

    def logits(self, outputs: Tensor) -> Tensor:
        """Return logits in float64, or the logarithms of given probabilities."""
        if not self.normalized:
            return outputs.double()
        return at_least_single(outputs).clamp_min(SMALLEST_PROBABILITY).log().double()


class Temperature(Probabilities):
    """softmax(logits / temperature)."""

    temperature: float

    def forward(self, outputs: Tensor, representations: Tensor | None, *, listed: bool) -> Tensor:
        """Return the scaled probabilities, (q, classes)."""
        del representations, listed
        logits = self.logits(outputs)
        return torch.softmax((logits - logits.amax(1, keepdim=True)) / self.temperature, 1)


class Votes(Probabilities):
    """Logits blended with the votes of the nearest labeled rows."""

    temperature: float
    weight: float
    smoothing: float
    labels: Tensor  # (voters,)
    voters: Reference
    representation: Map

    @property
    def equal(self) -> float:
        """How far scores may differ between devices."""
        rows = self.voters.rows
        rounded = rows.device.type != "cpu" or torch.compiler.is_compiling()
        return COARSELY_EQUAL if rows.dtype == torch.float32 and rounded else EQUAL

    def check(self) -> None:
        """Refuse labels of other rows than vote, and numbers out of their range."""
        require(self.labels.shape == (self.voters.n,) and self.labels.dtype == torch.int64, "a label for each voter")
        require(bool((self.labels >= 0).all()), "labels from 0")
        require(self.temperature > 0 and self.weight >= 0 and self.smoothing > 0, "numbers of votes")

    def forward(self, outputs: Tensor, representations: Tensor | None, *, listed: bool) -> Tensor:
        """Return the blended probabilities, (q, classes)."""
        assert representations is not None  # noqa: S101  checked where they are captured
        near = self.voters(self.representation(representations), listed=listed)
        classes = outputs.shape[1]
        shares = self._shares(near, classes)
        gain = torch.log1p(classes * shares / self.smoothing)
        return torch.softmax(self.logits(outputs) / self.temperature + self.weight * gain, 1)

    def _shares(self, near: Near, classes: int) -> Tensor:
        """Return the weighted share of the neighbors with each label, (q, classes)."""
        if near.columns is None:
            # A product with zeros and ones: graphs know how to do that.
            ballots = (self.labels[:, None] == torch.arange(classes, device=self.labels.device)).double()
            return near.weights @ ballots / near.total[:, None]
        shares = near.weights.new_zeros((len(near.weights), classes))
        return shares.scatter_add_(1, self.labels[near.columns], near.weights) / near.total[:, None]
