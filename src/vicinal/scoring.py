"""From outputs and targets to scored rows, with the checks that parts fit each other."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from vicinal._arrays import Floats, Reals, as_labels, as_reals, as_targets, check_finite, check_rows
from vicinal.calibration import ScoredRows
from vicinal.errors import Incompatible
from vicinal.maps import RepresentationMap
from vicinal.outputs import ClassificationOutputs, ModelOutputs, RegressionOutputs
from vicinal.probabilities import ProbabilityModel, probability_chunks
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


def as_classification(outputs: ModelOutputs) -> ClassificationOutputs:
    """Refuse anything but outputs of a classifier."""
    if not isinstance(outputs, ClassificationOutputs):
        msg = (
            "this needs outputs of a classifier; use ModelOutputs.from_logits or .from_probabilities. "
            f"Got {type(outputs).__name__}."
        )
        raise Incompatible(msg)
    return outputs


def as_regression(outputs: ModelOutputs) -> RegressionOutputs:
    """Refuse anything but outputs of a regression."""
    if not isinstance(outputs, RegressionOutputs):
        msg = (
            "this needs outputs of a regression; use ModelOutputs.from_predictions or .from_quantiles. "
            f"Got {type(outputs).__name__}."
        )
        raise Incompatible(msg)
    return outputs


def fitting_score(outputs: ModelOutputs, nonconformity: Score | None) -> Score:
    """Return the score, or the natural one for these outputs; refuse one that does not fit them."""
    if nonconformity is None:
        return natural_score(outputs)
    if isinstance(nonconformity, ClassificationScore):
        as_classification(outputs)
    elif isinstance(nonconformity, RegressionScore):
        nonconformity.check(as_regression(outputs))
    else:
        msg = f"nonconformity must be a score such as LAC() or AbsoluteResidual(); got {nonconformity!r}."
        raise Incompatible(msg)
    return nonconformity


def natural_score(outputs: ModelOutputs) -> Score:
    """Return LAC, CQR, ScaledResidual or AbsoluteResidual, by what the outputs hold."""
    if not isinstance(outputs, RegressionOutputs):
        as_classification(outputs)
        return LAC()
    if outputs.predictions is None:
        return CQR()
    return AbsoluteResidual() if outputs.scales is None else ScaledResidual()


def label_scores(
    outputs: ClassificationOutputs,
    targets: ArrayLike,
    score: ClassificationScore,
    probabilities: ProbabilityModel | None,
) -> Floats:
    """Return the score of each row's label, (n,)."""
    labels = as_labels(targets, len(outputs), outputs.n_classes)
    uniforms = row_uniforms(outputs, score.seed)
    out = np.empty(len(outputs))
    for start, chunk in probability_chunks(outputs, probabilities):
        rows = slice(start, start + len(chunk))
        out[rows] = score.of_labels(chunk, uniforms[rows], labels[rows])
    return out


def value_scores(outputs: RegressionOutputs, targets: ArrayLike, score: RegressionScore) -> Floats:
    """Return the score of each row's value, (n,)."""
    score.check(outputs)
    return score.of_values(outputs, as_targets(targets, len(outputs)))


def target_scores(
    outputs: ModelOutputs, targets: ArrayLike, score: Score, probabilities: ProbabilityModel | None
) -> Floats:
    """Return the score of each row's target, (n,), for either task; scores may be infinite but never NaN."""
    if isinstance(score, RegressionScore):
        return value_scores(as_regression(outputs), targets, score)
    return label_scores(as_classification(outputs), targets, score, probabilities)


def mapped_representations(outputs: ModelOutputs, representation: RepresentationMap | None) -> Reals:
    """Return the representations, mapped where there is a map, (n, d)."""
    if outputs.representations is None:
        msg = (
            "a neighborhood needs representations: pass them as the second argument of ModelOutputs.from_..., "
            "or use method=Split(), which needs none."
        )
        raise Incompatible(msg)
    if representation is None:
        return outputs.representations
    mapped = as_reals(representation.of(outputs.representations), "mapped representations", 2)
    check_rows(len(outputs), mapped, "mapped representations", "the outputs")
    check_finite(mapped, "mapped representations")
    return mapped


def scored_rows(
    outputs: ModelOutputs,
    targets: ArrayLike,
    score: Score,
    probabilities: ProbabilityModel | None,
    representations: Reals,
) -> ScoredRows:
    """Return rows with the score of their target."""
    scores = target_scores(outputs, targets, score, probabilities)
    if isinstance(score, ClassificationScore):
        return ScoredRows(representations, scores, np.asarray(targets).astype(np.int64))
    return ScoredRows(representations, scores, np.asarray(targets).astype(np.float64))


def no_columns(n_rows: int) -> Reals:
    """Return representations without columns, for rules that measure no distance."""
    return np.zeros((n_rows, 0))
