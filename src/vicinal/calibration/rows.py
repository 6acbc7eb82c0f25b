"""Calibration rows: their scores, their order by score, and checks that they fit each other and the parts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from vicinal._util.arrays import Floats, Ints, Reals, as_labels, as_targets
from vicinal._util.hashing import hash_table, row_marks
from vicinal._util.lazy_rows import Readable, take_rows
from vicinal._util.repeats import check_repeats
from vicinal._util.stored_arrays import StoredArrays
from vicinal.calibration.ages import find_kept_places
from vicinal.errors import CorruptArtifact, Incompatible, InvalidValue, Option, ShapeMismatch, TooFewRows
from vicinal.neighbors import Reference
from vicinal.neighbors.fitted_rows import FittedRows
from vicinal.outputs import (
    ClassificationOutputs,
    ModelOutputs,
    RegressionOutputs,
    as_classification,
    as_regression,
)
from vicinal.probability_models import ProbabilityModel, probability_chunks
from vicinal.probability_models.model import read_left_out, read_views_left_out
from vicinal.representations.map import RowMap, check_mapped, map_representations, read_fitting_rows
from vicinal.scores import (
    CQR,
    LAC,
    AbsoluteResidual,
    ClassificationScore,
    RegressionScore,
    ScaledResidual,
    Score,
)
from vicinal.scores.uniforms import row_uniforms


@dataclass(frozen=True, eq=False)
class ScoredRows:
    """Rows with their representations, targets, and the scores of the targets.

    Parameters
    ----------
    representations : array of shape (n, d)
        Mapped representations.
    scores : array of shape (n,)
        Nonconformity score of each target.
    targets : array of shape (n,)
        Class numbers or values.
    given_numbers : array of int, shape (n,), optional
        Number of each row among the calibration rows. Default: 0, 1, 2, ...

    Examples
    --------
    >>> rows = ScoredRows(np.zeros((3, 1)), np.array([0.5, 0.1, 0.9]), np.zeros(3))
    >>> rows.by_score
    array([1, 0, 2])
    """

    representations: Readable  # (n, d)
    scores: Floats  # (n,)
    targets: Ints | Floats  # (n,)
    given_numbers: Ints | None = None  # (n,)

    @property
    def numbers(self) -> Ints:
        """Number of each row among the calibration rows, (n,)."""
        return np.arange(len(self)) if self.given_numbers is None else self.given_numbers

    @property
    def by_score(self) -> Ints:
        """Positions of the rows in ascending order of their score, (n,)."""
        return np.argsort(self.scores, kind="stable")

    def __len__(self) -> int:
        return len(self.scores)

    def __getitem__(self, rows: Ints) -> ScoredRows:
        return ScoredRows(
            take_rows(self.representations, rows), self.scores[rows], self.targets[rows], self.numbers[rows]
        )


@dataclass(frozen=True, eq=False)
class ReferenceRows:
    """Rows that can be neighbors, in score order."""

    rows: Reference
    scores: Floats  # (n,) ascending
    targets: Ints | Floats  # (n,)
    numbers: Ints  # (n,) among the calibration rows

    @classmethod
    def of(cls, rows: ScoredRows) -> ReferenceRows:
        """Sort rows by score."""
        by_score = np.argsort(rows.scores, kind="stable")
        return cls(
            Reference.of(rows.representations, by_score),
            rows.scores[by_score],
            rows.targets[by_score],
            by_score if rows.given_numbers is None else rows.given_numbers[by_score],
        )

    def unpad(self) -> ScoredRows:
        """Return the rows without their padding."""
        return ScoredRows(self.rows.rows[: self.rows.n], self.scores, self.targets, self.numbers)

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays to save; rows stay padded, so that they can be used from a file without a copy."""
        columns = {"scores": self.scores, "targets": self.targets, "numbers": self.numbers}
        return {"rows": self.rows.rows, "bits": np.array([self.rows.bits]), **columns}

    @classmethod
    def restore(cls, kept: StoredArrays) -> ReferenceRows:
        """Return the rows from saved arrays."""
        scores = kept.ascending("scores")
        n = len(scores)
        rows = Reference.restore(kept.table("rows"), n, int(kept.counts("bits", 1, most=64)[0]))
        numbers = kept.counts("numbers", n, most=2**62)
        if len(np.unique(numbers)) != n:
            msg = "the numbers of rows must be distinct."
            raise CorruptArtifact(msg)
        return cls(rows, scores, kept.targets(n), numbers)


def roll_rows(known: ScoredRows, new: ScoredRows, drop: int) -> ScoredRows:
    """Return the rows that remain after the `drop` oldest are dropped, oldest first, then the new ones."""
    kept = find_kept_places(known.numbers, drop)
    return ScoredRows(
        np.concatenate([known.representations[kept], new.representations[:].astype(known.representations.dtype)]),
        np.concatenate([known.scores[kept], new.scores]),
        np.concatenate([known.targets[kept], new.targets]),
    )


def fit_score(outputs: ModelOutputs, score: Score | None) -> Score:
    """Return the score, or the default for these outputs; refuse one that does not fit them."""
    if score is None:
        return default_score(outputs)
    if isinstance(score, ClassificationScore):
        as_classification(outputs)
    elif isinstance(score, RegressionScore):
        score.check(as_regression(outputs))
    else:
        msg = f"score must be a score such as LAC() or AbsoluteResidual(); got {score!r}."
        raise Incompatible(msg)
    return score


def default_score(outputs: ModelOutputs) -> Score:
    """Return LAC, CQR, ScaledResidual or AbsoluteResidual, depending on the outputs."""
    if not isinstance(outputs, RegressionOutputs):
        as_classification(outputs)
        return LAC()
    if outputs.predictions is None:
        return CQR()
    return AbsoluteResidual() if outputs.scales is None else ScaledResidual()


def label_scores(
    outputs: ClassificationOutputs, labels: Ints, score: ClassificationScore, probability_model: ProbabilityModel | None
) -> Floats:
    """Return the score of each row's label, (n,)."""
    uniforms = np.zeros(len(labels)) if score.seed is None else row_uniforms(outputs, score.seed)
    out = np.empty(len(labels))
    for start, chunk in probability_chunks(outputs, probability_model, each_view=score.reads_views):
        rows = slice(start, start + len(chunk))
        out[rows] = check_scores(score.score_labels(chunk, uniforms[rows], labels[rows]), (len(chunk),), score)
    return out


def score_targets(outputs: RegressionOutputs, values: Floats, score: RegressionScore) -> Floats:
    """Return the score of each row's value, (n,)."""
    score.check(outputs)
    return check_scores(score.score_values(score.prepare(outputs), values), (len(outputs),), score)


def check_scores(scores: Floats, shape: tuple[int, ...], score: Score) -> Floats:
    """Refuse scores of another shape, and NaN; infinite scores are valid."""
    if np.shape(scores) != shape:
        msg = f"{score} must return scores of shape {shape}; got {np.shape(scores)}."
        raise ShapeMismatch(msg, argument="scores", expected=shape, found=np.shape(scores))
    if np.isnan(scores).any():
        row = int(np.argwhere(np.isnan(scores))[0][0])
        msg = f"{score} must not return NaN, which cannot be ranked; row {{row}} has the score NaN."
        raise InvalidValue(msg, argument="scores", row=row)
    return scores


def neighborhood_representations(
    outputs: ModelOutputs, row_map: RowMap | None, probability_model: ProbabilityModel | None = None
) -> Readable:
    """Return the representations, mapped when they are read if there is a map, (n, d)."""
    if row_map is None and outputs.representations is not None:
        return outputs.representations
    return map_representations(outputs, row_map, "a neighborhood", Option("method", "Split()"), probability_model)


def calibration_representations(
    outputs: ModelOutputs, row_map: RowMap | None, probability_model: ProbabilityModel | None
) -> Readable:
    """Return the same; each row on which the map was fitted, as tuning rows are, is left out of the fit."""
    known = None if row_map is None else row_map.fitted_rows
    if row_map is None and outputs.representations is not None:
        return outputs.representations
    if row_map is None or known is None or not known.holds(outputs, type(row_map).__name__):
        return neighborhood_representations(outputs, row_map, probability_model)
    arrays = read_fitting_rows(outputs, probability_model)
    return check_mapped(row_map.map_left_out(arrays), row_map, len(outputs))


def score_rows(
    outputs: ModelOutputs, values: Ints | Floats, score: Score, probability_model: ProbabilityModel | None
) -> Floats:
    """Return the score of each row's target, for either task; a row on which a part was fitted is left out of it."""
    if isinstance(score, RegressionScore):
        rows, known = as_regression(outputs), score.fitted_rows
        own = known is not None and known.holds(rows, type(score).__name__)
        prepare = score.prepare_left_out if own else score.prepare
        found = score.score_values(prepare(rows), values.astype(np.float64, copy=False))
        return check_scores(found, (len(rows),), score)
    assert isinstance(outputs, ClassificationOutputs)  # noqa: S101  as its score is
    classified, labels = outputs, values.astype(np.int64, copy=False)
    voting = None if probability_model is None else probability_model.fitted_rows
    if voting is not None and voting.holds(classified, type(probability_model).__name__):
        left_out = (read_views_left_out if score.reads_views else read_left_out)(classified, probability_model)
        uniforms = row_uniforms(classified, score.seed)
        return check_scores(score.score_labels(left_out, uniforms, labels), (len(labels),), score)
    return label_scores(classified, labels, score, probability_model)


def check_targets(outputs: ModelOutputs, targets: ArrayLike) -> Ints | Floats:
    """Return the targets of either task as a checked array, so that rows can be selected from it."""
    if isinstance(outputs, ClassificationOutputs):
        return as_labels(targets, len(outputs), outputs.n_classes, outputs.class_names)
    return as_targets(targets, len(outputs))


def no_columns(n_rows: int) -> Reals:
    """Return representations without columns, for localizers that need no distances."""
    return np.zeros((n_rows, 0))


def check_other_rows(
    outputs: ModelOutputs, targets: Ints | Floats, others: ModelOutputs, other_targets: ArrayLike
) -> Ints | Floats:
    """Return the checked targets of reference rows; refuse rows that do not fit, or that repeat calibration rows."""
    if len(others) == 0:
        msg = "there must be at least one reference row; got none."
        raise TooFewRows(msg, rows=0, needed=1)
    if isinstance(outputs, ClassificationOutputs):
        classes = as_classification(others).n_classes
        if classes != outputs.n_classes:
            msg = f"reference rows must have {outputs.n_classes} classes, like the calibration rows; got {classes}."
            raise ShapeMismatch(msg, argument="rows", expected=outputs.n_classes, found=classes)
    else:
        as_regression(others)
    one, other = outputs.representations, others.representations
    if one is not None and other is not None and one.shape[1] != other.shape[1]:
        width, found = one.shape[1], other.shape[1]
        msg = f"representations of reference rows must have {width} columns, like the calibration rows; got {found}."
        raise ShapeMismatch(msg, argument="representations", expected=width, found=found)
    values = check_targets(others, other_targets)
    message = f"reference rows must be other rows than the calibration rows; {OWN_NEIGHBOR}"
    message += " To use a part of the calibration rows as reference rows, use {method}."
    check_repeats(row_marks(outputs, targets), row_marks(others, values), message, method=DIVIDE)
    return values


def check_fitted_apart(outputs: ModelOutputs, part: object, remembered: FittedRows | None) -> None:
    """Refuse a part that was fitted on calibration rows: each would be its own neighbor."""
    if remembered is not None:
        name = f"the rows that {type(part).__name__} was fitted on"
        rows = remembered.map_representations(outputs, type(part).__name__)
        check_apart(rows, remembered.reference.rows[: len(remembered)], name, " Fit and tune on other rows.")


OWN_NEIGHBOR = "{repeats}, and a row that is its own neighbor breaks the guarantee."

DIVIDE = Option("method", "SplitReference(fraction=0.5)")


def check_apart(calibration: Readable, others: Readable, name: str, advice: str = "") -> None:
    """Refuse rows that repeat calibration rows, compared by their mapped representations."""
    message = f"{name} must be other rows than the calibration rows; {OWN_NEIGHBOR}{advice}"
    check_repeats(hash_table(calibration), hash_table(others), message)
