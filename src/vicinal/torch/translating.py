"""From the parts of a calibrated predictor to parts on tensors."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from vicinal import maps as numpy_maps
from vicinal import probabilities as numpy_probabilities
from vicinal import scores as numpy_scores
from vicinal.calibration.exact import LENGTHS, SUMS, ExactCalibration
from vicinal.calibration.plugged import PluggedCalibration
from vicinal.calibration.split import SplitCalibration
from vicinal.errors import Incompatible
from vicinal.kernels.ranks import Rule
from vicinal.neighbors.reference import Reference as NumpyReference
from vicinal.predictor import SetPredictor
from vicinal.torch import maps, methods, probabilities, scores

Located: TypeAlias = Callable[[NumpyReference, Rule, object], methods.Reference]
"""What makes rows and a rule, with the map that rows went through, into neighbors on tensors."""


def tensor(array: NDArray[Any]) -> Tensor:
    """Return a copy of an array as a tensor."""
    return torch.from_numpy(np.array(array, order="C"))


def score_part(score: object) -> scores.Score:
    """Return a score on tensors."""
    if isinstance(score, numpy_scores.NeverEmpty):
        return scores.NeverEmpty(score=score_part(score.score))
    if isinstance(score, numpy_scores.APS):
        return scores.RAPS(rank_penalty=0.0, free_ranks=0)
    if isinstance(score, numpy_scores.RAPS):
        return scores.RAPS(rank_penalty=float(score.rank_penalty), free_ranks=int(score.free_ranks))
    if isinstance(score, numpy_scores.LAC):
        return scores.LAC()
    raise _unknown(score)


def map_part(representation: object) -> maps.Map:
    """Return a representation map on tensors; None is the identity."""
    if representation is None or isinstance(representation, numpy_maps.Identity):
        return maps.Identity()
    if isinstance(representation, numpy_maps.UnitLength):
        return maps.UnitLength()
    if isinstance(representation, numpy_maps.Rounded):
        return maps.Rounded(bits=int(representation.bits))
    if isinstance(representation, numpy_maps.Affine):
        axes = None if representation.axes is None else tensor(representation.axes)
        return maps.Affine(shift=tensor(representation.shift), scale=tensor(representation.scale), axes=axes)
    if isinstance(representation, numpy_maps.Chained):
        return maps.Chained(**{f"map{place}": map_part(part) for place, part in enumerate(representation.parts)})
    raise _unknown(representation)


def reference_part(
    reference: NumpyReference, rule: Rule, representation: object, *, dtype: torch.dtype | None, tf32: bool
) -> methods.Reference:
    """Return rows that can be neighbors on tensors."""
    rows = tensor(reference.rows)
    return methods.Reference(
        rows=rows if dtype is None else rows.to(dtype),
        n=int(reference.n),
        n_neighbors=int(rule.n_neighbors),
        radius2=float(rule.radius2),
        bandwidth=None if math.isinf(rule.bandwidth) else float(rule.bandwidth),
        own_weight=float(rule.own_weight),
        tf32=tf32,
        same_bits=map_part(representation).same_bits,
    )


def probability_part(model: object, located: Located, *, normalized: bool) -> probabilities.Probabilities:
    """Return a probability model on tensors; None is the softmax, or probabilities as given."""
    if model is None:
        return probabilities.Probabilities(normalized=normalized)
    if isinstance(model, numpy_probabilities.TemperatureScaling):
        return probabilities.Temperature(normalized=normalized, temperature=float(model.temperature))
    if isinstance(model, numpy_probabilities.NeighborVotes):
        return probabilities.Votes(
            normalized=normalized,
            temperature=float(model.temperature),
            weight=float(model.weight),
            smoothing=float(model.smoothing),
            labels=tensor(model.labels),
            voters=located(
                model.voters.reference, model.voters.localizer.rule(len(model.voters) - 1), model.voters.representation
            ),
            representation=map_part(model.voters.representation),
        )
    raise _unknown(model)


def threshold_part(predictor: SetPredictor, located: Located) -> methods.Thresholds:
    """Return a calibrated method on tensors."""
    found, order = predictor.calibration, predictor.guarantee.order
    if isinstance(found, SplitCalibration):
        return methods.SplitThresholds(order=order, scores=tensor(found.scores))
    if not isinstance(found, (PluggedCalibration, ExactCalibration)):
        raise _unknown(predictor.method)
    if not found.search.exact:
        msg = (
            f"a module finds neighbors exactly, and this predictor was calibrated with {found.search!r}: sets would "
            "not be those that were calibrated. Calibrate with ExactSearch() or vicinal.torch.TorchSearch()."
        )
        raise Incompatible(msg)
    shared: dict[str, Any] = {
        "order": order,
        "scores": tensor(found.reference.scores),
        "reference": located(found.reference.rows, found.rule, predictor.representation),
    }
    if isinstance(found, PluggedCalibration):
        return methods.PluggedThresholds(**shared, ranks=tensor(found.ranks), values=tensor(found.values))
    sums = {name: tensor(getattr(found.joined, name)) for name in (*LENGTHS, *SUMS, "near_count", "alone")}
    return methods.JoinedThresholds(**shared, **sums)


def _unknown(part: object) -> Incompatible:
    msg = (
        f"{type(part).__name__} is not one of vicinal's own parts and cannot run on tensors: predict with "
        "predictor.predict on what collect returns."
    )
    return Incompatible(msg)
