"""All calibrated parts as one module: from outputs and representations to sets."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from vicinal.probability_models.chain import find_view_average
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
        self.averaged = find_view_average(predictor.probability_model)
        self.views_apart, self.views = predictor.score.reads_views, predictor.n_views
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
    def needed(self) -> tuple[int, ...] | None:
        """Views on which the network must run; None for all."""
        if self.views_apart or self.reads_representations:  # representations are means over all views
            return None
        return (0,) if self.averaged is None else self.averaged.needed

    @property
    def randomized(self) -> bool:
        """Whether the score uses a uniform number for each row."""
        return self.seed is not None

    @property
    def cost(self) -> Cost:
        """Memory for a row."""
        each = LABEL_BYTES * self.n_classes * (self.views or 1)
        labels = Cost(each, each)
        return labels | self.probabilities.cost | self.mapping.cost | self.thresholds.cost

    def forward(
        self, outputs: Tensor, representations: Tensor | None, uniforms: Tensor | None, *, listed: bool = False
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return members, (q, classes), the threshold of each row, and its largest probability, (q,).

        Outputs are of shape (q, classes), or with views (q, views, classes).
        """
        views = outputs.ndim > 2  # noqa: PLR2004  rows, views, classes
        own = outputs[:, 0] if views else outputs
        bare = own[:, :0] if representations is None else at_least_single(representations)
        scored = None
        if views and self.views_apart:
            each = [self.probabilities(outputs[:, view], bare, listed=listed) for view in range(outputs.shape[1])]
            chances, scored = each[0], torch.stack(each, dim=1)
        else:
            chances = self.probabilities(outputs, bare, listed=listed)
        rows = self.mapping(bare, chances) if self.thresholds.width else bare[:, :0]
        thresholds, gap = self.thresholds(rows, outputs.shape[0], listed=listed)
        if uniforms is None:
            uniforms = hash_words(value_words(own), self.output_keys) if self.randomized else outputs.new_zeros(1)
        # Another device rounds the last bits differently: a score that equals a threshold up to rounding is a member,
        # unless the threshold stands for an open gap.
        equal = self.probabilities.equal
        bounds = thresholds + torch.where(gap, -equal, equal)
        read = chances if scored is None else scored
        mask = self.score.bound.find_members(xp, read, uniforms.double(), bounds)
        if torch.compiler.is_compiling():
            # A graph cannot raise an error for a row that is not finite, so such a row gets all labels.
            broken = ~outputs.flatten(1).isfinite().all(1) | ~bare.isfinite().all(1)
            mask, thresholds = mask | broken[:, None], torch.where(broken, math.inf, thresholds)
        return mask, thresholds, chances.amax(1)
