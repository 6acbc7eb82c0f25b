"""A generated row that a predictor accepts, used to compile the code and as the example request in OpenAPI."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from vicinal._util.arrays import Floats
from vicinal.errors import VicinalError
from vicinal.neighbors.fitted_rows import FittedRows
from vicinal.outputs import ModelOutputs
from vicinal.predictor.predictors import SetPredictor
from vicinal.reporting.explorer import voting
from vicinal.representations import RowMap
from vicinal.service.batching import AnyPredictor


def sample(predictor: AnyPredictor) -> ModelOutputs | None:
    """Return one row that the predictor accepts; None if the width of its representations is not known."""
    width = input_width(predictor)
    if width is None:
        return None
    near = np.round(np.sin(np.arange(width)), 3).astype(np.float64)[None] if width else None
    for outputs in _candidates(predictor, near):
        try:
            predictor.predict(outputs)  # type: ignore[arg-type]
        except VicinalError:
            continue
        return outputs
    return None


def _candidates(predictor: AnyPredictor, near: Floats | None) -> Iterator[ModelOutputs]:
    if isinstance(predictor, SetPredictor):
        row = np.round(4 * np.cos(np.arange(predictor.n_classes)), 2)
        views = predictor.n_views
        yield ModelOutputs.from_logits(row[None] if views is None else np.tile(row, (1, views, 1)), near)
        return
    yield ModelOutputs.from_quantiles([1.0], [2.0], near)
    yield ModelOutputs.from_predictions([1.5], near)
    yield ModelOutputs.from_predictions([1.5], near, scales=[0.5])


def input_width(predictor: AnyPredictor) -> int | None:
    """Return the number of columns of representations: 0 if none are read, None if a map does not tell."""
    width = predictor.calibration.width
    near = _before(predictor.representation_map, width) if width else 0
    # A difficulty map may read no representations where the votes or scales do.
    if near or not predictor.scores_read_representations:
        return near
    model = voting(predictor)
    if model is None:
        return None
    remembered: FittedRows = model.fitted_rows
    return _before(remembered.representation_map, remembered.reference.width)


def _before(mapping: RowMap | None, width: int) -> int | None:
    """Return the number of columns that a map reads to return `width` columns."""
    return width if mapping is None else mapping.input_width(width)
