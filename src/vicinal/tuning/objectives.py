"""Objectives of tuning: small sets, or small sets among those whose coverage is even enough."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Protocol

from vicinal._util.arrays import proper_share
from vicinal._util.groups import GROUP_ROWS
from vicinal._util.register import register
from vicinal.errors import Incompatible, TooFewRows


class Measured(Protocol):
    """The measurements that an objective may use."""

    @property
    def target(self) -> float:
        """Target coverage."""

    @property
    def worst_tenth(self) -> float | None:
        """Coverage of the least covered tenth of the rows; None if the tenths are too small to measure."""

    @property
    def class_gap(self) -> float | None:
        """Mean over classes of |coverage - target|; None for a regression."""

    @property
    def excess_risk(self) -> float | None:
        """Excess risk of the target coverage over the tenths of the rows; None if they are too small to measure."""


class Objective(ABC):
    """Minimize the mean size among the candidates that stay within a bound."""

    @abstractmethod
    def excess(self, measured: Measured) -> float:
        """Return by how much a candidate exceeds the bound.

        Parameters
        ----------
        measured : Candidate
            A candidate, or anything with `target`, `worst_tenth`, `class_gap` and `excess_risk`.

        Returns
        -------
        float
            0 if the candidate is within the bound.
        """

    def check(self, n_rows: int, *, regression: bool) -> None:
        """Raise an error if the bound cannot be measured on these rows.

        Parameters
        ----------
        n_rows : int
            Number of tuning rows.
        regression : bool
            Whether the outputs are a regression's.

        Raises
        ------
        TooFewRows
            If there are too few rows to measure the bound.
        Incompatible
            If the bound does not apply to this kind of outputs.
        """
        return


@register
@dataclass(frozen=True)
class MeanSize(Objective):
    """Objective: the smallest mean size, without a bound on the coverage of groups of rows.

    The size is the number of labels in a set, or the length of an interval.

    Examples
    --------
    >>> import vicinal as vc
    >>> data = vc.datasets.load_cifar100_resnet18()[:200]
    >>> space = vc.Space(score=[vc.LAC()], probability_model=[None], shares=(0.1,), multiples=(), bandwidths=())
    >>> report = vc.tune(data.outputs, data.labels, 0.9, objective=MeanSize(), strategy=vc.Grid(space))
    >>> report.met
    True
    """

    def excess(self, measured: Measured) -> float:
        """Return 0: there is no bound.

        Parameters
        ----------
        measured : Candidate
            A candidate.

        Returns
        -------
        float
            Always 0.
        """
        del measured
        return 0.0


@register
@dataclass(frozen=True)
class DecileGap(Objective):
    """Objective: the smallest mean size such that no tenth of the rows is covered too little.

    Parameters
    ----------
    at_most : float
        Largest allowed shortfall, target - coverage, of the least covered tenth of the rows; between 0 and 1.

    Notes
    -----
    The rows are cut into tenths by the confidence of the model (its largest probability), for a regression by the
    predicted value.

    Examples
    --------
    >>> DecileGap(at_most=0.1)
    DecileGap(at_most=0.1)
    """

    at_most: float

    def __post_init__(self) -> None:
        proper_share("at_most", self.at_most)

    def check(self, n_rows: int, *, regression: bool) -> None:
        """Raise an error if tenths of the rows are too small to measure.

        Parameters
        ----------
        n_rows : int
            Number of tuning rows.
        regression : bool
            Whether the outputs are a regression's; not used.

        Raises
        ------
        TooFewRows
            If a tenth would have fewer rows than are needed to measure its coverage.
        """
        _check_tenths("DecileGap", n_rows)

    def excess(self, measured: Measured) -> float:
        """Return by how much the worst tenth falls short of the bound.

        Parameters
        ----------
        measured : Candidate
            A candidate.

        Returns
        -------
        float
            The value max(0, target - worst_tenth - at_most); 0 if the worst tenth is unknown.
        """
        worst = measured.worst_tenth
        return 0.0 if worst is None else max(0.0, measured.target - worst - self.at_most)


@register
@dataclass(frozen=True)
class ExcessRisk(Objective):
    """Objective: the smallest mean size such that coverage hardly depends on which tenth a row is in.

    Parameters
    ----------
    at_most : float
        Largest allowed excess risk of the target coverage; between 0 and 1. If the coverage of each tenth is off by
        0.1, the excess risk is 0.01.

    Notes
    -----
    The excess risk is the mean of (coverage of the row's tenth - target)^2 over the rows, without the part that is
    chance: the coverage of a tenth is taken from its other rows. It is the measure of `evaluate` (ERT), for a
    classifier that knows the tenth only, so that it can be computed for every candidate. Tenths are those of
    `DecileGap`; unlike it, all of them count, and coverage above the target counts too.

    References
    ----------
    Braun et al., "Conditional coverage diagnostics for conformal prediction", arXiv 2512.11779.

    Examples
    --------
    >>> ExcessRisk(at_most=0.005)
    ExcessRisk(at_most=0.005)
    """

    at_most: float

    def __post_init__(self) -> None:
        proper_share("at_most", self.at_most)

    def check(self, n_rows: int, *, regression: bool) -> None:
        """Raise an error if tenths of the rows are too small to measure.

        Parameters
        ----------
        n_rows : int
            Number of tuning rows.
        regression : bool
            Whether the outputs are a regression's; not used.

        Raises
        ------
        TooFewRows
            If a tenth would have fewer rows than are needed to measure its coverage.
        """
        _check_tenths("ExcessRisk", n_rows)

    def excess(self, measured: Measured) -> float:
        """Return by how much the excess risk exceeds the bound.

        Parameters
        ----------
        measured : Candidate
            A candidate.

        Returns
        -------
        float
            The largest of 0 and excess_risk - at_most; 0 if the excess risk is unknown.
        """
        return 0.0 if measured.excess_risk is None else max(0.0, measured.excess_risk - self.at_most)


def _check_tenths(name: str, n_rows: int) -> None:
    """Raise an error if tenths of the rows are too small to measure."""
    needed = 10 * GROUP_ROWS
    if n_rows < needed:
        msg = f"{name} needs at least {needed} tuning rows, {GROUP_ROWS} in each tenth; got {n_rows}."
        raise TooFewRows(msg, rows=n_rows, needed=needed)


@register
@dataclass(frozen=True)
class ClassGap(Objective):
    """Objective: the smallest mean size such that coverage is nearly the same in all classes.

    Parameters
    ----------
    at_most : float
        Largest allowed mean over classes of |coverage - target|; between 0 and 1.

    Notes
    -----
    With few rows per class the coverage of a class varies by chance alone: with 30 rows and target 0.9, by 0.04 on
    average.

    Examples
    --------
    >>> ClassGap(at_most=0.05)
    ClassGap(at_most=0.05)
    """

    at_most: float

    def __post_init__(self) -> None:
        proper_share("at_most", self.at_most)

    def check(self, n_rows: int, *, regression: bool) -> None:
        """Raise an error for a regression, which has no classes.

        Parameters
        ----------
        n_rows : int
            Number of tuning rows; not used.
        regression : bool
            Whether the outputs are a regression's.

        Raises
        ------
        Incompatible
            For a regression.
        """
        if regression:
            msg = "ClassGap is for classifiers; for a regression use DecileGap, in tenths of the predicted value."
            raise Incompatible(msg)

    def excess(self, measured: Measured) -> float:
        """Return by how much the mean gap over classes exceeds the bound.

        Parameters
        ----------
        measured : Candidate
            A candidate.

        Returns
        -------
        float
            The value max(0, class_gap - at_most).
        """
        return 0.0 if measured.class_gap is None else max(0.0, measured.class_gap - self.at_most)
