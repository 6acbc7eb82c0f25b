"""Every calibrated part as one: from outputs and representations to sets."""

from __future__ import annotations

import torch
from torch import Tensor

from vicinal.torch import maps, methods, probabilities, scores
from vicinal.torch.blocks import Cost
from vicinal.torch.maps import at_least_single
from vicinal.torch.parts import Part, require
from vicinal.torch.uniforms import hash_keys, hashed, value_words

MOST_CLASSES = 2**31
"""More than any network has."""

LABEL_BYTES = 40
"""Bytes that a label takes, with all that is computed of it."""


class Conformal(Part):
    """From outputs and representations to sets: every part that was calibrated."""

    n_classes: int
    seed: int | None
    score: scores.Score
    probabilities: probabilities.Probabilities
    representation: maps.Map
    thresholds: methods.Thresholds

    derived = ("output_keys", "id_keys")
    output_keys: Tensor
    id_keys: Tensor

    def check(self) -> None:
        """Refuse parts of other numbers of classes or columns."""
        require(self.n_classes in range(2, MOST_CLASSES), "classes")
        require(self.seed is None or 0 <= self.seed < 2**63, "a seed")
        model = self.probabilities
        if isinstance(model, probabilities.Votes):
            require(int(model.labels.max()) < self.n_classes, "labels that are classes")
        require(len(self.widths) <= 1, "one width of representations")
        require((self.seed is not None) == self.score.randomized, "a seed where the score is randomized")

    def __init__(self, **fields: object) -> None:
        super().__init__(**fields)  # type: ignore[arg-type]
        for name, words in (("output_keys", self.n_classes), ("id_keys", 2)):
            self.register_buffer(name, hash_keys(self.seed or 0, words + 1), persistent=False)

    @property
    def widths(self) -> set[int]:
        """How wide representations must be, for each part that reads them."""
        model, near = self.probabilities, self.thresholds
        found = {self.representation.taken_width(near.width)} if near.width else set()
        if isinstance(model, probabilities.Votes):
            found.add(model.representation.taken_width(model.voters.width))
        return found

    @property
    def randomized(self) -> bool:
        """Whether the score uses a uniform number for each row."""
        return self.seed is not None

    @property
    def cost(self) -> Cost:
        """What a row takes of memory."""
        labels = Cost(LABEL_BYTES * self.n_classes, LABEL_BYTES * self.n_classes)
        votes = self.probabilities.voters.cost if isinstance(self.probabilities, probabilities.Votes) else Cost(0, 0)
        return labels | votes | self.thresholds.cost

    def forward(
        self, outputs: Tensor, representations: Tensor | None, uniforms: Tensor | None, *, listed: bool = False
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return which labels belong, (q, classes), the threshold of each row, and its largest probability, (q,)."""
        bare = outputs[:, :0] if representations is None else at_least_single(representations)
        rows = self.representation(bare) if self.thresholds.width else bare[:, :0]
        thresholds, gap = self.thresholds(rows, outputs.shape[0], listed=listed)
        chances = self.probabilities(outputs, bare, listed=listed)
        if uniforms is None:
            uniforms = hashed(value_words(outputs), self.output_keys) if self.randomized else outputs.new_zeros(1)
        mask = self.score.members(chances, uniforms.double(), scores.bounds(thresholds, gap, self.probabilities.equal))
        if not torch.compiler.is_compiling():
            return mask, thresholds, chances.amax(1)
        # A graph cannot refuse a row that is not finite, as is done before this is called.
        broken = ~outputs.isfinite().all(1) | ~bare.isfinite().all(1)
        return (*scores.everything(mask, thresholds, broken), chances.amax(1))


PARTS: dict[str, type[Part]] = {
    kind.__name__: kind
    for kind in (
        Conformal,
        scores.LAC,
        scores.RAPS,
        scores.NeverEmpty,
        maps.Identity,
        maps.UnitLength,
        maps.Rounded,
        maps.Affine,
        maps.Chained,
        probabilities.Probabilities,
        probabilities.Temperature,
        probabilities.Votes,
        methods.Reference,
        methods.SplitThresholds,
        methods.PluggedThresholds,
        methods.JoinedThresholds,
    )
}
"""Every part that a state dict can name."""
