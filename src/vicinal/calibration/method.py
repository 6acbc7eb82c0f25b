"""Base classes of calibration methods and of their results."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from vicinal._util.arrays import Floats, Ints, Reals
from vicinal._util.docstrings import InheritsDocs
from vicinal._util.lazy_rows import Readable
from vicinal._util.stored_arrays import StoredArrays
from vicinal.calibration.guarantees import Guarantee
from vicinal.calibration.levels import Coverage, order
from vicinal.calibration.rows import ScoredRows, roll_rows
from vicinal.errors import Incompatible, Option
from vicinal.neighbors import ExactSearch, NeighborSearch
from vicinal.neighbors.exact_search import EXACT_SEARCH
from vicinal.neighbors.localizers import Localizer
from vicinal.outputs import ModelOutputs, RowIds

Scorer: TypeAlias = Callable[[ModelOutputs, ArrayLike], ScoredRows]


@dataclass(frozen=True, eq=False)
class Neighbors:
    """The neighbors of one point, nearest first.

    Parameters
    ----------
    rows : array of int, shape (k,)
        Row numbers among the calibration rows, or among the reference rows if these were given separately.
    distances : array of shape (k,)
        Distance of each neighbor; NaN where no distance was needed.
    weights : array of shape (k,)
        Weights, which sum to one. In `PaperLiteral`, the point itself is not listed.
    scores : array of shape (k,)
        Nonconformity score of each neighbor.
    targets : array of shape (k,)
        Target of each neighbor.
    everyone : bool
        Whether no row was within the radius of a `Ball`, so that all rows are neighbors.

    Examples
    --------
    >>> near = Neighbors(
    ...     rows=np.array([4, 1]), distances=np.array([0.5, 1.0]), weights=np.array([0.5, 0.5]),
    ...     scores=np.array([0.2, 0.9]), targets=np.array([0, 1]), everyone=False,
    ... )
    >>> near.effective_size
    2.0
    """

    rows: Ints  # (k,)
    distances: Floats  # (k,)
    weights: Floats  # (k,)
    scores: Floats  # (k,)
    targets: Ints | Floats  # (k,)
    everyone: bool

    @property
    def effective_size(self) -> float:
        """Effective number of neighbors: 1 / (sum of squared weights)."""
        return float(1.0 / np.sum(self.weights**2)) if len(self.weights) else 0.0


@dataclass(frozen=True, eq=False)
class Landscape:
    """Rows that can be neighbors, with the threshold at each of them."""

    representations: Reals  # (n, d)
    thresholds: Floats  # (n,)
    targets: Ints | Floats  # (n,)


@dataclass(frozen=True, eq=False)
class Task:
    """What a method calibrates on and with.

    Parameters
    ----------
    rows : ScoredRows
        The calibration rows with their scores.
    localizer : Localizer, optional
        Gives each point its neighbors.
    search : NeighborSearch, optional
        Finds the neighbors. Default: `ExactSearch()`.
    scorer : callable, optional
        Computes `ScoredRows` from outputs and targets of the reference rows that were given to the method.
    progress : str, optional
        Label of a progress bar; None for no bar.

    Examples
    --------
    >>> rows = ScoredRows(np.zeros((3, 1)), np.array([0.5, 0.1, 0.9]), np.zeros(3))
    >>> Task(rows).rows.by_score
    array([1, 0, 2])
    """

    rows: ScoredRows
    localizer: Localizer | None = None
    search: NeighborSearch = EXACT_SEARCH
    scorer: Scorer | None = None
    progress: str | None = None

    @property
    def near(self) -> Localizer:
        """The localizer; raises `Incompatible` if there is none."""
        return require_localizer(self.localizer)


class Calibration(InheritsDocs, ABC):
    """Base class of calibrations: the result of a method. One calibration serves every coverage.

    Examples
    --------
    >>> from vicinal.calibration import Split
    >>> rows = ScoredRows(np.zeros((9, 0)), np.linspace(0.1, 0.9, 9), np.zeros(9))
    >>> calibration = Split().calibrate(Task(rows))
    >>> isinstance(calibration, Calibration), calibration.n_ranked
    (True, 9)
    """

    @property
    @abstractmethod
    def n_ranked(self) -> int:
        """Number of rows with whose pairs (rank, score) a new pair is compared."""

    @property
    @abstractmethod
    def width(self) -> int | None:
        """Number of columns that representations must have; None or 0 if they are not needed."""

    @abstractmethod
    def thresholds(self, representations: Readable, coverages: Sequence[Coverage], *, progress: str | None) -> Floats:
        """Return the largest accepted score of each row at each coverage.

        Parameters
        ----------
        representations : array of shape (n, d)
            Mapped representations of n rows.
        coverages : sequence of float
            Requested coverages.
        progress : str or None
            Label of a progress bar; None for no bar.

        Returns
        -------
        array of shape (n, coverages)
            Thresholds.

        Raises
        ------
        TooFewRows
            If there are too few ranked rows for a coverage.
        """

    @abstractmethod
    def p_values(self, representations: Readable, scores: Floats) -> Floats:
        """Return the p-value of each candidate score of each row.

        Parameters
        ----------
        representations : array of shape (n, d)
            Mapped representations of n rows.
        scores : array of shape (n, candidates)
            Candidate scores.

        Returns
        -------
        array of shape (n, candidates)
            P-values.
        """

    @abstractmethod
    def neighbors(self, representations: Readable) -> Iterator[Neighbors]:
        """Yield the neighbors of each point.

        Parameters
        ----------
        representations : array of shape (n, d)
            Mapped representations of n rows.

        Yields
        ------
        Neighbors
            The neighbors of one point, nearest first.
        """

    @property
    @abstractmethod
    def ranked_scores(self) -> Floats:
        """Scores of the ranked rows, ascending, (n_ranked,)."""

    @abstractmethod
    def landscape(self, coverage: Coverage) -> Landscape | None:
        """Return the rows that can be neighbors, with their own thresholds.

        Parameters
        ----------
        coverage : float
            Requested coverage.

        Returns
        -------
        Landscape or None
            Rows and thresholds; None if no distances are needed.
        """

    @abstractmethod
    def effective_sizes(self, representations: Readable) -> Floats:
        """Return the effective number of neighbors of each row.

        Parameters
        ----------
        representations : array of shape (n, d)
            Mapped representations of n rows.

        Returns
        -------
        array of shape (n,)
            1 / (sum of squared weights).
        """

    @abstractmethod
    def global_threshold(self, coverage: Coverage) -> float:
        """Return the threshold without a neighborhood: that of `Split` on the ranked rows.

        Parameters
        ----------
        coverage : float
            Requested coverage.

        Returns
        -------
        float
            The threshold.
        """

    @abstractmethod
    def guarantee(self, coverage: Coverage) -> Guarantee:
        """Return the guarantee at a coverage.

        Parameters
        ----------
        coverage : float
            Requested coverage.

        Returns
        -------
        Guarantee
            The guarantee in numbers and words.
        """

    @property
    @abstractmethod
    def empty_neighborhoods(self) -> int:
        """Number of calibration rows without a neighbor within the radius, for which all rows were used."""

    def check_coverage(self, coverage: Coverage) -> None:
        """Refuse a coverage for which there are too few rows.

        Parameters
        ----------
        coverage : float
            Requested coverage.

        Raises
        ------
        TooFewRows
            If there are too few ranked rows.
        """
        order(coverage, self.n_ranked)

    def reference_rows(self) -> ScoredRows | None:
        """Return the rows that can be neighbors, in score order.

        Returns
        -------
        ScoredRows or None
            The rows; None if there are none.
        """
        return None

    def get_search(self) -> NeighborSearch:
        """Return the search that finds neighbors.

        Returns
        -------
        NeighborSearch
            The search.
        """
        return ExactSearch()

    @property
    def row_numbers(self) -> Ints | None:
        """Numbers of the ranked rows by age, (n,) in any order; None if they are not kept."""
        rows = self.reference_rows()
        return None if rows is None else rows.numbers

    def resolve_search(self) -> NeighborSearch:
        """Return the search with all settings filled in that it chose.

        Returns
        -------
        NeighborSearch
            The search.
        """
        return self.get_search()

    def restore_search(self, kept: StoredArrays) -> None:
        """Restore the index of the search from saved arrays.

        Parameters
        ----------
        kept : StoredArrays
            The saved arrays.
        """
        del kept

    def recall(self, representations: Readable) -> float:
        """Return the mean share of exact neighbors that the search finds.

        Parameters
        ----------
        representations : array of shape (n, d)
            Mapped representations of n rows.

        Returns
        -------
        float
            The share; 1 for an exact search.
        """
        del representations
        return 1.0

    @property
    def arithmetic(self) -> str:
        """Text that identifies how distances are rounded on this machine; stored sums are valid where it is equal."""
        return ""

    def to_arrays(self) -> StoredArrays:
        """Return the arrays from which `Method.restore` makes the calibration again.

        Returns
        -------
        StoredArrays
            The arrays to save.

        Raises
        ------
        Incompatible
            If the calibration cannot be saved.
        """
        msg = f"{type(self).__name__} cannot be saved: it does not define to_arrays."
        raise Incompatible(msg)


class Method(InheritsDocs, ABC):
    """Base class of calibration methods: frozen configurations, whose work is done by `calibrate`.

    Your own method defines `calibrate`, and `restore` if predictors with it are to be saved.

    Examples
    --------
    >>> from vicinal.calibration import Split
    >>> isinstance(Split(), Method), Split().local
    (True, False)
    """

    local: ClassVar[bool]
    """Whether the method uses neighborhoods and therefore needs a localizer."""

    ranks_reference: ClassVar[bool] = False
    """Whether the ranked rows are the reference rows, so that the method can calibrate on them again."""

    @abstractmethod
    def calibrate(self, task: Task) -> Calibration:
        """Calibrate on scored rows.

        Parameters
        ----------
        task : Task
            The rows, the localizer and the search.

        Returns
        -------
        Calibration
            The result.

        Raises
        ------
        TooFewRows
            If the method needs more rows.
        """

    def roll(self, known: Calibration, task: Task, drop: int) -> Calibration:
        """Return the calibration after rows are added and the oldest dropped.

        The result is equal to calibrating on the remaining rows from scratch, which is the default. Methods that can
        do it faster override this.

        Parameters
        ----------
        known : Calibration
            The calibration before.
        task : Task
            The rows to add, the localizer and the search.
        drop : int
            Number of the oldest rows to drop.

        Returns
        -------
        Calibration
            The result.

        Raises
        ------
        Incompatible
            If the calibration does not keep what rolling needs.
        """
        rows = known.reference_rows()
        if rows is None:
            msg = f"{type(self).__name__} cannot roll: it does not keep its calibration rows. Calibrate again."
            raise Incompatible(msg)
        return self.calibrate(replace(task, rows=roll_rows(rows, task.rows, drop)))

    def check_search(self, search: NeighborSearch) -> None:
        """Refuse a search with which the method does not work.

        Parameters
        ----------
        search : NeighborSearch
            The search.

        Raises
        ------
        Incompatible
            If the method does not work with the search.
        """
        del search

    def restore(self, kept: StoredArrays, localizer: Localizer | None, search: NeighborSearch) -> Calibration:
        """Return the calibration from the arrays that its `to_arrays` returned.

        Parameters
        ----------
        kept : StoredArrays
            The saved arrays.
        localizer : Localizer or None
            Gives each point its neighbors.
        search : NeighborSearch
            Finds the neighbors.

        Returns
        -------
        Calibration
            The restored calibration.

        Raises
        ------
        CorruptArtifact
            If the arrays are not those of such a calibration.
        Incompatible
            If the method does not define `restore`.
        """
        del kept, localizer, search
        self.check_restorable()
        raise NotImplementedError

    def check_restorable(self) -> None:
        """Refuse a method that does not define `restore`: a file with it could not be loaded.

        Raises
        ------
        Incompatible
            If the method does not define `restore`.
        """
        if type(self).restore is Method.restore:
            msg = f"{type(self).__name__} cannot be saved or loaded, because it does not define the method restore."
            raise Incompatible(msg)

    def neighbor_ids(self, outputs: ModelOutputs) -> RowIds | None:
        """Return the ids of the rows by which neighbors are numbered.

        Parameters
        ----------
        outputs : ModelOutputs
            Outputs of the calibration rows.

        Returns
        -------
        array of shape (n,) or None
            Row ids, by default those of the calibration rows.
        """
        return outputs.row_ids

    def check_rows_may_be_set_aside(self) -> None:
        """Refuse if the method refers to calibration rows by number: setting rows aside would renumber them.

        Raises
        ------
        Incompatible
            If the method refers to calibration rows by number.
        """
        return


def require_localizer(localizer: Localizer | None) -> Localizer:
    """Return the localizer; refuse None."""
    if localizer is None:
        msg = "a method with neighborhoods needs a localizer, such as {localizer}; got none."
        raise Incompatible(msg, localizer=Option("localizer", "Uniform(100)"))
    return localizer
