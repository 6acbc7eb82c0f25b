"""The uncalibrated baseline of the paper, which trusts the probabilities of the model."""

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
    """Return uncalibrated sets: the most probable labels whose probabilities sum to at least the coverage.

    There is no guarantee: the sets cover as often as requested only if the probabilities of the model are right.

    Parameters
    ----------
    outputs : ClassificationOutputs
        Outputs of n rows.
    coverage : float
        Requested coverage, strictly between 0 and 1.
    probability_model : ProbabilityModel, optional
        Fitted model of the probabilities, such as `TemperatureScaling`.

    Returns
    -------
    PredictionSets
        One set for each row.

    Raises
    ------
    Incompatible
        If the outputs are not those of a classifier.
    InvalidArgument
        If the coverage lies outside its range.

    Examples
    --------
    >>> outputs = ClassificationOutputs.from_probabilities([[0.6, 0.3, 0.1]])
    >>> naive_sets(outputs, 0.8).labels()
    [[0, 1]]
    """
    # A label is in the set if the mass before it is below the coverage: APS with U = 0 and a threshold just below it.
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
