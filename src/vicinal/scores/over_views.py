"""OverViews: any score, required to be small in a share of the views of a row (robust prediction sets)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil
from typing import Any

import numpy as np

from vicinal._util.arrays import Floats, Reals, is_number, whole_number
from vicinal._util.register import register
from vicinal.errors import Incompatible, InvalidArgument, ShapeMismatch
from vicinal.scores.score import ClassificationScore


@register
@dataclass(frozen=True)
class OverViews(ClassificationScore):
    """Score a label by the largest of its scores in a share of the views of the row.

    It makes sets robust where the views are perturbed copies of an input, such as copies with noise. With the requested
    probability, the true label is accepted in at least that share of the views.

    Parameters
    ----------
    score : ClassificationScore
        The score of a label in one view.
    share : float
        Share of the views, above 0 and at most 1.
    views : int, optional
        Number of views of each calibration row. Default: `calibrate` sets it.

    Raises
    ------
    Incompatible
        If `score` is not a classification score, or reads views itself.
    InvalidArgument
        If the share or the number of views lies outside its range.

    Notes
    -----
    The score of a label is the ceil(share * J)-th smallest of its scores over the J views [1]_. All views of a row have
    the same uniform number U. If one view of a test row is drawn at random and only this view is given, its set
    contains the truth with probability at least coverage * share. With a neighborhood, this needs the representation of
    all views.

    References
    ----------
    .. [1] S. Ghosh, Y. Shi, T. Belkhouja, Y. Yan, J. Doppa, B. Jones, "Probabilistically robust conformal prediction",
       UAI 2023.

    Examples
    --------
    >>> from vicinal.scores import LAC
    >>> views = np.array([[[0.75, 0.25], [0.5, 0.5], [1.0, 0.0]]])
    >>> OverViews(LAC(), share=0.6).score_all(views, np.empty(1))
    array([[0.25, 0.75]])
    """

    score: ClassificationScore
    share: float
    views: int | None = None

    reads_views = True

    def __post_init__(self) -> None:
        if not isinstance(self.score, ClassificationScore) or self.score.reads_views:
            msg = f"OverViews wraps a score of one view, such as LAC(); got {self.score!r}."
            raise Incompatible(msg)
        if not (is_number(self.share) and 0 < self.share <= 1):
            raise InvalidArgument("share", self.share, "a number above 0 and at most 1")
        if self.views is not None:
            whole_number("views", self.views, least=1)

    @property
    def seed(self) -> int | None:  # type: ignore[override]
        """Seed of the wrapped score."""
        return self.score.seed

    @property
    def n_views(self) -> int | None:
        """Number of views of each calibration row."""
        return self.views

    def for_views(self, n_views: int) -> OverViews:
        """Return the score for calibration rows with this number of views."""
        return replace(self, views=n_views)

    def check_views(self, n_views: int, *, one: bool) -> None:
        """Refuse rows with another number of views than the calibration rows; with `one`, rows of one view are fine."""
        if self.views is None or n_views == self.views or (one and n_views == 1):
            return
        msg = f"outputs must have {self.views} views of each row{', or one,' if one else ''} as in calibration; "
        msg += f"got {n_views}."
        raise ShapeMismatch(msg, argument="outputs", expected=self.views, found=n_views)

    def describe_views(self, probability: float | None, *, local: bool) -> str:
        """Return what the guarantee means for views, in words."""
        if self.views is None:
            return ""
        rank = self.rank(self.views)
        words = f"The true label counts as contained if it is accepted in at least {rank} of the {self.views} views."
        if probability is None:
            return words
        same = ", with the representation of all views," if local else ""
        least = probability * rank / self.views
        return (
            f"{words} A row predicted from a single view that is drawn at random{same} is covered with probability at "
            f"least {probability:.4f} * {rank}/{self.views} = {least:.4f}."
        )

    def rank(self, views: int) -> int:
        """Return which smallest score over the views is the score of a label: ceil(share * views).

        Parameters
        ----------
        views : int
            Number of views of a row.

        Returns
        -------
        int
            A number from 1 to `views`.
        """
        return ceil(Fraction(str(self.share)) * views)

    def formula(self, xp: Any, probabilities: Any, uniforms: Any) -> Any:
        """Return the score of every label, from probabilities of shape (n, views, classes) or (n, classes)."""
        each = [self.score.formula(xp, one, uniforms) for one in _split_views(probabilities)]
        return xp.sort(xp.stack(each, axis=1), axis=1)[:, self.rank(len(each)) - 1]

    def score_all(self, probabilities: Reals, uniforms: Floats) -> Floats:
        """Return the score of every label, from probabilities of any float type."""
        if not isinstance(probabilities, np.ndarray):
            return super().score_all(probabilities, uniforms)
        each = [self.score.score_all(one, uniforms) for one in _split_views(probabilities)]
        rank = self.rank(len(each))
        found: Floats = np.partition(np.stack(each, axis=1), rank - 1, axis=1)[:, rank - 1]
        return found

    def find_members(self, xp: Any, probabilities: Any, uniforms: Any, thresholds: Any) -> Any:
        """Return which labels score at most the threshold of their row: in enough views."""
        views = _split_views(probabilities)
        accepted = [xp.astype(self.score.find_members(xp, one, uniforms, thresholds), xp.int64) for one in views]
        return sum(accepted[1:], accepted[0]) >= self.rank(len(views))


def _split_views(probabilities: Any) -> list[Any]:
    """Return the probabilities of each view, (n, classes); without an axis of views there is one."""
    if probabilities.ndim == 2:  # noqa: PLR2004  rows and classes
        return [probabilities]
    views = [probabilities[:, view] for view in range(probabilities.shape[1])]
    return [np.ascontiguousarray(one) for one in views] if isinstance(probabilities, np.ndarray) else views
