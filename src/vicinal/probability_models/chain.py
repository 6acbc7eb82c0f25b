"""Probability models one after another: each reads the probabilities of the one before it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from numpy.typing import ArrayLike

from vicinal._util.arrays import Reals
from vicinal._util.register import register
from vicinal.errors import Incompatible
from vicinal.neighbors.fitted_rows import FittedRows
from vicinal.outputs import ClassificationOutputs
from vicinal.probability_models.model import SMALLEST_PROBABILITY, ProbabilityModel
from vicinal.probability_models.views import ViewAverage
from vicinal.probability_models.votes import NeighborVotes

ProbabilityFit: TypeAlias = Callable[[ClassificationOutputs, ArrayLike], ProbabilityModel]

VIEWS_THEN_VOTES: tuple[ProbabilityFit, ...] = (ViewAverage.fit, NeighborVotes.fit)


@register
@dataclass(frozen=True, eq=False)
class ProbabilityChain(ProbabilityModel):
    """Apply fitted probability models one after another.

    Each model after the first reads the logarithms of the probabilities of the one before it, and the same
    representations. Make it with `fit`, on rows that are not calibration rows, or from models fitted that way.

    Parameters
    ----------
    parts : tuple of ProbabilityModel
        Two fitted models or more, in the order in which they are applied. Only the first may read views, and only the
        last may keep rows.

    Raises
    ------
    Incompatible
        If there are fewer than two parts, one is not a fitted model, or their order is not possible.

    Examples
    --------
    >>> from vicinal.probability_models import TemperatureScaling
    >>> twice = ProbabilityChain((TemperatureScaling(2.0), TemperatureScaling(3.0)))
    >>> rows = ClassificationOutputs.from_logits([[6.0, 0.0]])
    >>> abs(twice.apply(rows) - TemperatureScaling(6.0).apply(rows)).max() < 1e-12
    np.True_
    """

    parts: tuple[ProbabilityModel, ...]

    def __post_init__(self) -> None:
        wrong = [part for part in self.parts if not isinstance(part, ProbabilityModel)]
        if wrong or len(self.parts) < 2:  # noqa: PLR2004
            got = repr(wrong[0]) if wrong else f"{len(self.parts)}"
            msg = f"ProbabilityChain needs a tuple of two fitted probability models or more; got {got}."
            raise Incompatible(msg)
        nested = next((part for part in self.parts if isinstance(part, ProbabilityChain)), None)
        if nested is not None:
            msg = "ProbabilityChain must not contain another chain; give all models in one tuple."
            raise Incompatible(msg)
        late = next((part for part in self.parts[1:] if part.reads_views), None)
        if late is not None:
            msg = f"in a chain, only the first model may read views; move {type(late).__name__} to the front."
            raise Incompatible(msg)
        early = next((part for part in self.parts[:-1] if part.fitted_rows is not None), None)
        if early is not None:
            msg = f"in a chain, only the last model may keep rows; move {type(early).__name__} to the end."
            raise Incompatible(msg)

    @classmethod
    def fit(
        cls, outputs: ClassificationOutputs, targets: ArrayLike, *, fits: Sequence[ProbabilityFit] = VIEWS_THEN_VOTES
    ) -> ProbabilityChain:
        """Fit models one after another, each on the rows as the models before it return them.

        Parameters
        ----------
        outputs : ClassificationOutputs
            Outputs of rows that are not calibration rows.
        targets : array of shape (n,)
            True labels: class numbers or class names.
        fits : sequence of fit functions
            Two or more. Default: `ViewAverage.fit`, then `NeighborVotes.fit`.

        Returns
        -------
        ProbabilityChain
            The fitted models.

        Raises
        ------
        Incompatible
            If a model needs views or representations that the rows do not have.
        """
        parts: list[ProbabilityModel] = []
        rows = outputs
        for number, fit in enumerate(fits):
            parts.append(fit(rows, targets))
            if number < len(fits) - 1:
                rows = parts[-1].transform(rows)
        return cls(tuple(parts))

    def formula(self, xp: Any, logits: Any, representations: Any) -> Any:
        """Return the probabilities of each row."""
        found = self.parts[0].formula(xp, logits, representations)
        for part in self.parts[1:]:
            raised = xp.where(found > SMALLEST_PROBABILITY, found, xp.full_like(found, SMALLEST_PROBABILITY))
            found = part.formula(xp, xp.log(raised), representations)
        return found

    def apply(self, outputs: ClassificationOutputs) -> Reals:
        """Return the probabilities of each row."""
        return self.parts[-1].apply(self._before_last(outputs))

    def apply_left_out(self, outputs: ClassificationOutputs) -> Reals:
        """Return the probabilities of the rows that the last model keeps, each as if left out of its fit."""
        return self.parts[-1].apply_left_out(self._before_last(outputs))

    def _before_last(self, outputs: ClassificationOutputs) -> ClassificationOutputs:
        for part in self.parts[:-1]:
            outputs = part.transform(outputs)
        return outputs

    @property
    def fitted_rows(self) -> FittedRows | None:
        """Rows that the last model keeps, or None; they must not be calibration rows."""
        return self.parts[-1].fitted_rows

    @property
    def reads_representations(self) -> bool:
        """Whether a model reads representations."""
        return any(part.reads_representations for part in self.parts)

    @property
    def reads_views(self) -> bool:
        """Whether the first model reads views."""
        return self.parts[0].reads_views


def find_view_average(model: ProbabilityModel | None) -> ViewAverage | None:
    """Return the model that averages views, alone or at the beginning of a chain; None without one."""
    first = model.parts[0] if isinstance(model, ProbabilityChain) else model
    return first if isinstance(first, ViewAverage) else None
