"""All calibrated parts as one module: from outputs and representations to sets."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from vicinal.torch.blocks import Cost
from vicinal.torch.namespace import xp
from vicinal.torch.tensor_parts import (
    Precision,
    TensorMap,
    TensorModule,
    TensorPart,
    TensorProbabilities,
    at_least_single,
)
from vicinal.torch.thresholds import make_thresholds
from vicinal.torch.uniforms import hash_keys, hash_words, value_words

if TYPE_CHECKING:
    from vicinal.predictor import SetPredictor

LABEL_BYTES = 40
"""Bytes per label, with all temporary results."""


class Conformal(TensorModule):
    """All parts of a predictor as a module: from outputs and representations to sets."""

    output_keys: Tensor
    id_keys: Tensor

    def __init__(self, predictor: SetPredictor, precision: Precision, *, normalized: bool) -> None:
        super().__init__()
        self.n_classes, self.seed = predictor.n_classes, predictor.score.seed
        self.score = TensorPart(predictor.score)
        self.mapping = TensorMap(predictor.representation_map)
        self.probabilities = TensorProbabilities(
            predictor.probability_model, precision, normalized=normalized, in_numpy=self.mapping.reads_outputs
        )
        self.thresholds = make_thresholds(predictor.calibration, predictor.coverage, self.mapping, precision)
        seed = 0 if self.seed is None else int(self.seed)
        self.keep(output_keys=hash_keys(seed, self.n_classes + 1), id_keys=hash_keys(seed, 3))

    @property
    def reads_representations(self) -> bool:
        """Whether any part reads representations."""
        near = bool(self.thresholds.width) and self.mapping.reads_representations
        return near or self.probabilities.width != 0

    @property
    def widths(self) -> set[int]:
        """The width of representations that each part requires, for parts that know it."""
        near = self.mapping.input_width(self.thresholds.width) if self.thresholds.width else 0
        return {width for width in (near, self.probabilities.width) if width}

    @property
    def randomized(self) -> bool:
        """Whether the score uses a uniform number for each row."""
        return self.seed is not None

    @property
    def cost(self) -> Cost:
        """Memory for a row."""
        labels = Cost(LABEL_BYTES * self.n_classes, LABEL_BYTES * self.n_classes)
        return labels | self.probabilities.cost | self.mapping.cost | self.thresholds.cost

    def forward(
        self, outputs: Tensor, representations: Tensor | None, uniforms: Tensor | None, *, listed: bool = False
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return members, (q, classes), the threshold of each row, and its largest probability, (q,)."""
        bare = outputs[:, :0] if representations is None else at_least_single(representations)
        chances = self.probabilities(outputs, bare, listed=listed)
        rows = self.mapping(bare, chances) if self.thresholds.width else bare[:, :0]
        thresholds, gap = self.thresholds(rows, outputs.shape[0], listed=listed)
        if uniforms is None:
            uniforms = hash_words(value_words(outputs), self.output_keys) if self.randomized else outputs.new_zeros(1)
        # Another device rounds the last bits differently: a score that equals a threshold up to rounding is a member,
        # unless the threshold stands for an open gap.
        equal = self.probabilities.equal
        bounds = thresholds + torch.where(gap, -equal, equal)
        mask = self.score.bound.find_members(xp, chances, uniforms.double(), bounds)
        if torch.compiler.is_compiling():
            # A graph cannot raise an error for a row that is not finite, so such a row gets all labels.
            broken = ~outputs.isfinite().all(1) | ~bare.isfinite().all(1)
            mask, thresholds = mask | broken[:, None], torch.where(broken, math.inf, thresholds)
        return mask, thresholds, chances.amax(1)
