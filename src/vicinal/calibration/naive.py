"""The uncalibrated baseline of the paper: trust the model's probabilities. It promises nothing."""

from __future__ import annotations

import numpy as np

from vicinal.calibration.levels import Coverage, exact_coverage
from vicinal.outputs import ClassificationOutputs, as_classification
from vicinal.probability_models.model import ProbabilityModel, probability_chunks, row_maxima
from vicinal.regions import PredictionSets
from vicinal.scores.aps import walk_members


def naive_sets(
    outputs: ClassificationOutputs, coverage: Coverage, probability_model: ProbabilityModel | None = None
) -> PredictionSets:
    """Return the smallest prefixes of the sorted probabilities with mass of at least `coverage`.

    Examples
    --------
    >>> outputs = ClassificationOutputs.from_probabilities([[0.6, 0.3, 0.1]])
    >>> naive_sets(outputs, 0.8).labels()
    [[0, 1]]
    """
    # A label belongs where the mass before it is below the coverage: APS with U = 0 and a bound just below it.
    as_classification(outputs)
    wanted = float(exact_coverage(coverage))
    bound = np.nextafter(wanted, -np.inf)
    members = np.empty((len(outputs), outputs.n_classes), np.bool_)
    confidences = np.empty(len(outputs))
    for start, chunk in probability_chunks(outputs, probability_model):
        rows = slice(start, start + len(chunk))
        members[rows] = walk_members(chunk, np.zeros(len(chunk)), np.full(len(chunk), bound), 0.0, 0)
        confidences[rows] = row_maxima(chunk)
    return PredictionSets(members, np.full(len(outputs), bound), confidences, outputs.class_names, wanted)
