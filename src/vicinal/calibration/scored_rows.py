"""From outputs and targets to scored rows, with the checks that parts fit each other."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from vicinal._util.arrays import Floats, Ints, Reals, as_labels, as_targets
from vicinal._util.hashing import hashed_values, overlap
from vicinal._util.lazy_rows import Readable
from vicinal._util.memory import rows_within
from vicinal.calibration import ScoredRows
from vicinal.errors import Incompatible, InvalidValue, Option, ShapeMismatch, TooFewRows
from vicinal.neighbors.fitted_rows import FittedRows
from vicinal.outputs import (
    ClassificationOutputs,
    ModelOutputs,
    RegressionOutputs,
    as_classification,
    as_regression,
)
from vicinal.probability_models import ProbabilityModel, probability_chunks
from vicinal.probability_models.model import proper_probabilities
from vicinal.representations import RepresentationMap
from vicinal.representations.map import map_representations
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


def fitting_score(outputs: ModelOutputs, score: Score | None) -> Score:
    """Return the score, or the natural one for these outputs; refuse one that does not fit them."""
    if score is None:
        return natural_score(outputs)
    if isinstance(score, ClassificationScore):
        as_classification(outputs)
    elif isinstance(score, RegressionScore):
        score.check(as_regression(outputs))
    else:
        msg = f"score must be one such as LAC() or AbsoluteResidual(); got {score!r}."
        raise Incompatible(msg)
    return score


def natural_score(outputs: ModelOutputs) -> Score:
    """Return LAC, CQR, ScaledResidual or AbsoluteResidual, by what the outputs hold."""
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
    uniforms = row_uniforms(outputs, score.seed)
    out = np.empty(len(outputs))
    for start, chunk in probability_chunks(outputs, probability_model):
        rows = slice(start, start + len(chunk))
        out[rows] = checked_scores(score.score_labels(chunk, uniforms[rows], labels[rows]), (len(chunk),), score)
    return out


def value_scores(outputs: RegressionOutputs, values: Floats, score: RegressionScore) -> Floats:
    """Return the score of each row's value, (n,)."""
    score.check(outputs)
    return checked_scores(score.score_values(score.prepare(outputs), values), (len(outputs),), score)


def checked_scores(scores: Floats, shape: tuple[int, ...], score: Score) -> Floats:
    """Refuse scores of another shape, and NaN; they may be infinite."""
    if np.shape(scores) != shape:
        msg = f"{score} must return scores of shape {shape}; got {np.shape(scores)}."
        raise ShapeMismatch(msg)
    if np.isnan(scores).any():
        row = int(np.argwhere(np.isnan(scores))[0][0])
        msg = f"{score} must not return NaN, which has no place among scores; row {{row}} has it."
        raise InvalidValue(msg, row=row)
    return scores


def mapped_representations(outputs: ModelOutputs, representation_map: RepresentationMap | None) -> Readable:
    """Return the representations, mapped as they are read where there is a map, (n, d)."""
    return map_representations(outputs, representation_map, "a neighborhood", Option("method", "Split()"))


def scored_rows(
    outputs: ModelOutputs,
    targets: ArrayLike,
    score: Score,
    probability_model: ProbabilityModel | None,
    representations: Readable,
) -> ScoredRows:
    """Return rows with the score of their target, for either task; rows that a part remembers, without themselves."""
    if isinstance(score, RegressionScore):
        values, rows = as_targets(targets, len(outputs)), as_regression(outputs)
        prepared = score.prepare_left_out if _remembers(score.fitted_rows, rows, score) else score.prepare
        found = checked_scores(score.score_values(prepared(rows), values), (len(rows),), score)
        return ScoredRows(representations, found, values)
    classified = as_classification(outputs)
    labels = as_labels(targets, len(outputs), classified.n_classes, classified.class_names)
    if probability_model is not None and _remembers(probability_model.fitted_rows, classified, probability_model):
        own = proper_probabilities(probability_model.apply_left_out(classified), classified, probability_model)
        uniforms = row_uniforms(classified, score.seed)
        found = checked_scores(score.score_labels(own, uniforms, labels), (len(labels),), score)
        return ScoredRows(representations, found, labels)
    return ScoredRows(representations, label_scores(classified, labels, score, probability_model), labels)


def _remembers(remembered: FittedRows | None, outputs: ModelOutputs, part: object) -> bool:
    """Return whether these are the rows that a part was fitted on, in their order: tuning rows used for reference."""
    if remembered is None or len(remembered) != len(outputs):
        return False
    rows = _hashed(remembered.map_representations(outputs, type(part).__name__))
    return bool(np.array_equal(rows, hashed_values(remembered.reference.rows[: len(remembered)], 0)))


def checked_targets(outputs: ModelOutputs, targets: ArrayLike) -> Ints | Floats:
    """Return the targets of either task as a checked array, so that rows can be chosen from it."""
    if isinstance(outputs, ClassificationOutputs):
        return as_labels(targets, len(outputs), outputs.n_classes, outputs.class_names)
    return as_targets(targets, len(outputs))


def no_columns(n_rows: int) -> Reals:
    """Return representations without columns, for rules that measure no distance."""
    return np.zeros((n_rows, 0))


def check_other_rows(outputs: ModelOutputs, others: ModelOutputs) -> None:
    """Refuse reference rows of another width or class count than the calibration rows, none, and the same again."""
    if len(others) == 0:
        msg = "reference rows must be at least one row; got none."
        raise TooFewRows(msg, rows=0, needed=1)
    if isinstance(outputs, ClassificationOutputs):
        classes = as_classification(others).n_classes
        if classes != outputs.n_classes:
            msg = f"reference rows must have {outputs.n_classes} classes, as the calibration rows; got {classes}."
            raise ShapeMismatch(msg)
    else:
        as_regression(others)
    one, other = outputs.representations, others.representations
    if one is None or other is None:
        return
    if one.shape[1] != other.shape[1]:
        msg = f"reference rows must have {one.shape[1]} columns of representations, as the calibration rows; "
        raise ShapeMismatch(msg + f"got {other.shape[1]}.")
    check_apart(one, other, "reference rows", " To divide the rows you have, use SplitReference(fraction=...).")


def check_fitted_apart(outputs: ModelOutputs, part: object, remembered: FittedRows | None) -> None:
    """Refuse a fitted part that remembers the calibration rows: each would vote on itself."""
    if remembered is not None:
        name = f"the rows that {type(part).__name__} was fitted on"
        rows = remembered.map_representations(outputs, type(part).__name__)
        check_apart(
            rows, remembered.reference.rows[: len(remembered)], name, " Fit and tune on rows set aside for that."
        )


def _hashed(rows: Readable) -> Floats:
    """Return a number for each row by which it is recognized, (n,), reading piece by piece."""
    step = rows_within(0.25, 4 * 8 * rows.shape[1], 4096)
    return np.concatenate([hashed_values(rows[start : start + step], 0) for start in range(0, len(rows), step)])


def check_apart(calibration: Readable, others: Readable, name: str, advice: str = "") -> None:
    """Refuse others that stand among the calibration rows."""
    again = overlap(_hashed(calibration), _hashed(others))
    if again:
        msg = (
            f"{name} must be other rows than the calibration rows; {again:.0%} are the same, and a "
            f"row that is its own neighbor breaks the guarantee.{advice}"
        )
        raise Incompatible(msg)
