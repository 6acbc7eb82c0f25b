"""Checks for parts of your own: `check_score(MyScore())` raises an error if a rule for scores is broken.

Each check runs one part on small generated rows, compares it with a slow and simple implementation where there is one,
runs its formula in torch if torch is installed, and, if the part is registered, saves and loads it. A check returns
nothing; an `AssertionError` names the rule that does not hold. The tests of this library run every check on every
registered part.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import fields
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import array_api_compat.numpy
import numpy as np

from vicinal._util.arrays import Floats, Ints, Reals
from vicinal._util.register import NAMES
from vicinal.calibration import Exact, Method, ScoredRows, SplitReference, Task
from vicinal.calibration.exact import ExactCalibration
from vicinal.errors import Incompatible
from vicinal.neighbors import BoundLocalizer, ExactNeighborSearch, Localizer, NeighborSearch, Reference
from vicinal.neighbors.engine import engine_of
from vicinal.outputs import ClassificationOutputs, ModelOutputs, RegressionOutputs
from vicinal.persistence.parts import Writer, read_parts
from vicinal.predictor.calibrate import calibrate
from vicinal.predictor.predictors import SetPredictor
from vicinal.probability_models import ProbabilityModel
from vicinal.representations import RowArrays, RowMap
from vicinal.representations.map import read_rows
from vicinal.scores import ClassificationScore, RegressionScore, Score

__all__ = ["check_localizer", "check_map", "check_method", "check_probability_model", "check_score", "check_search"]

UNITS = 2**32
"""Ranks are multiples of 1 / UNITS."""

CLOSE = 2.0**-40
"""How far formulas may differ between array libraries."""

NEAR = np.array([0.0, 1e-12, 0.1, 0.5, 1.0, 2.0, 7.0, 40.0])
"""Distances at which weights are compared."""


def check_score(score: Score) -> None:
    """Check a classification or regression score.

    Parameters
    ----------
    score : ClassificationScore or RegressionScore
        The score to check.

    Raises
    ------
    AssertionError
        If a rule does not hold: for classification, among others, float64 scores without NaN that equal the formula to
        the bit; for regression, a score that is smallest at its center and does not fall away from it.

    Examples
    --------
    >>> import vicinal as vc
    >>> check_score(vc.NeverEmpty(vc.APS()))
    """
    if isinstance(score, RegressionScore):
        _check_regression_score(score)
    elif isinstance(score, ClassificationScore):
        _check_classification_score(score)
    else:
        _require(False, f"{score!r} must derive from ClassificationScore or RegressionScore")  # noqa: FBT003
    _check_stored(score)


def _check_classification_score(score: ClassificationScore) -> None:
    xp = array_api_compat.numpy
    for kind, rows in _probability_rows().items():
        uniforms = np.random.default_rng(1).random(len(rows))
        before = rows.copy()
        found = np.asarray(score.formula(xp, rows, uniforms))
        _require(found.shape == rows.shape, f"the formula must give a score for every label; {kind}")
        _require(found.dtype == np.float64 and not np.isnan(found).any(), f"scores must be float64, never NaN; {kind}")
        _same(score.score_all(rows, uniforms), found, f"score_all must equal the formula to the bit; {kind}")
        labels = np.arange(len(rows)) % rows.shape[1]
        own = found[np.arange(len(rows)), labels]
        _same(score.score_labels(rows, uniforms, labels), own, f"score_labels must equal the formula; {kind}")
        for thresholds in (own, np.nextafter(own, -np.inf), np.full(len(rows), np.inf), np.full(len(rows), -np.inf)):
            members = score.find_members(xp, rows, uniforms, thresholds)
            expected = found <= thresholds[:, None]
            _same(members, expected, f"a label is a member where its score is at most the threshold; {kind}")
            _check_members_in_torch(score, rows, uniforms, thresholds, expected, found)
        one = np.concatenate([score.score_all(rows[i : i + 1], uniforms[i : i + 1]) for i in range(len(rows))])
        _same(one, found, f"a row's scores must not depend on the other rows; {kind}")
        single = rows.astype(np.float32)
        wide = np.asarray(score.formula(xp, single.astype(np.float64), uniforms))
        _same(score.score_all(single, uniforms), wide, f"float32 probabilities must be scored as float64; {kind}")
        _same(rows, before, f"the probabilities must not be changed; {kind}")


def _check_members_in_torch(
    score: ClassificationScore, rows: Reals, uniforms: Floats, thresholds: Floats, expected: Any, found: Floats
) -> None:
    if find_spec("torch") is None:
        return
    import torch

    from vicinal.torch.namespace import xp

    tensors = [torch.from_numpy(np.array(array)) for array in (rows, uniforms, thresholds)]
    members = score.find_members(xp, *tensors).numpy()
    with np.errstate(invalid="ignore"):
        tied = np.abs(found - thresholds[:, None]) <= CLOSE
    _same(members | tied, expected | tied, "members must be the same in torch, but for scores within 2^-40")


def _check_regression_score(score: RegressionScore) -> None:
    outputs = _outputs_for(score)
    prepared = score.prepare(outputs)
    center = score.center(prepared)
    values = center + np.linspace(-3, 3, len(outputs))
    found = score.score_values(prepared, values)
    _require(found.shape == (len(outputs),) and not np.isnan(found).any(), "one score for each row, never NaN")
    _same(np.asarray(score.formula(np, prepared, values)), found, "score_values must equal the formula")
    _require(bool(np.all(score.score_values(prepared, center) <= found)), "the score must be lowest at the center")
    for step in (-1.0, 1.0):
        near, far = (score.score_values(prepared, center + step * size) for size in (0.5, 2.0))
        _require(bool(np.all(near <= far)), "the score must not fall away from the center")
    lower, upper = score.find_interval(prepared, found)
    inside = (lower <= values) & (values <= upper)
    _require(bool(inside.all()), "the interval at a value's own score must hold the value")
    for bound, side in ((lower, -np.inf), (upper, np.inf)):
        beyond = np.nextafter(bound, side)
        outside = np.isinf(bound) | ~(score.score_values(prepared, beyond) <= found)
        _require(bool(outside.all()), "no value beyond the interval may score within the threshold")
    one = np.concatenate([score.score_values(prepared[i : i + 1], values[i : i + 1]) for i in range(len(outputs))])
    _same(one, found, "a row's score must not depend on the other rows")


def check_localizer(localizer: Localizer) -> None:
    """Check a localizer: its weights, and `Exact` with it against brute force.

    Parameters
    ----------
    localizer : Localizer
        The localizer to check.

    Raises
    ------
    AssertionError
        If a rule does not hold: finite log-weights that do not grow with the distance, the same in numpy, numba and
        torch, and p-values of `Exact` that equal those of ranking all rows anew for every candidate score.

    Examples
    --------
    >>> import vicinal as vc
    >>> check_localizer(vc.Gaussian(n_neighbors=5, bandwidth=1.0))
    """
    _require(isinstance(localizer, Localizer), f"{localizer!r} must derive from Localizer")
    scaled = NEAR / localizer.bandwidth
    logs = np.array([float(localizer.log_weight(np)(u)) for u in scaled])
    _require(bool(np.isfinite(logs).all()), "log-weights must be finite at finite distances")
    _require(bool(np.all(np.diff(logs) <= 0)), "weights must not grow with the distance")
    rule = localizer.rule(len(NEAR))
    from vicinal.kernels.weights import log_weight_ratio

    for near, far in ((0, 3), (2, 5), (1, 7)):
        compiled = log_weight_ratio(rule, NEAR[far], NEAR[near])
        _require(
            math.isclose(compiled, logs[far] - logs[near], rel_tol=1e-9, abs_tol=1e-12),
            "the compiled weight must equal the formula",
        )
    _check_weights_in_torch(localizer, logs, scaled)
    for seed in range(6):
        _check_exact_by_brute_force(localizer, seed)
    _check_stored(localizer)


def _check_weights_in_torch(localizer: Localizer, logs: Floats, scaled: Floats) -> None:
    if find_spec("torch") is None:
        return
    import torch

    from vicinal.torch.namespace import xp

    found = localizer.log_weight(xp)(torch.from_numpy(np.array(scaled))).numpy()
    _require(bool(np.allclose(found, logs, rtol=CLOSE, atol=CLOSE)), "log-weights must be the same in torch")


def _check_exact_by_brute_force(localizer: Localizer, seed: int) -> None:
    """Compare the p-values of `Exact` with ranking all rows anew for every candidate score."""
    rng = np.random.default_rng(seed)
    n = max(8, localizer.reach(8)[0] + 2)
    # Points on a grid, so that distances and scores are tied.
    points = rng.integers(0, 3, (n + 1, 2)).astype(float) if seed % 2 else rng.normal(size=(n + 1, 2))
    scores = rng.integers(0, 5, n).astype(float) if seed % 3 else rng.normal(size=n)
    found = Exact().calibrate(Task(ScoredRows(points[:n], scores, np.zeros(n)), localizer))
    assert isinstance(found, ExactCalibration)  # noqa: S101  what Exact makes
    candidates = np.array(sorted({*scores, *(scores + 0.25), -9.0, 9.0}))
    p_values = found.p_values(points[n:], candidates[None])[0]
    squared = ((points[:, None] - points[None]) ** 2).sum(-1)
    expected = [(n + 1 - _count_below(squared, scores, value, localizer)) / (n + 1) for value in candidates]
    _same(p_values, np.array(expected), f"Exact must equal ranking all rows anew; generated rows {seed}")


def _count_below(squared: Floats, scores: Floats, value: float, localizer: Localizer) -> int:
    """Count the calibration rows whose pair is below that of a test row, the last row, with this score; slowly."""
    n, joined = len(scores), [*scores, value]
    pairs = [
        (_rank(squared[i], [j for j in range(n + 1) if j != i], joined, joined[i], localizer), joined[i])
        for i in range(n + 1)
    ]
    return sum(pair < pairs[n] for pair in pairs[:n])


def _rank(squared: Floats, others: list[int], scores: Sequence[float], value: float, localizer: Localizer) -> int:
    """Return the local rank of a value, in units of 2^-32, by its definition."""
    count, radius2 = localizer.reach(len(others))
    if radius2 >= 0:
        near = [j for j in others if squared[j] <= radius2]
    elif count == 0 or count > len(others):
        near = others
    else:
        reach = sorted(squared[j] for j in others)[count - 1]
        near = [j for j in others if squared[j] <= reach]
    if near:
        formula = localizer.log_weight(np)
        logs = [float(formula(math.sqrt(squared[j]) / localizer.bandwidth)) for j in near]
        weights = [math.exp(log - max(logs)) for log in logs]
    else:  # an empty ball: all other rows are neighbors
        near, weights = others, [1.0] * len(others)
    below = sum(weight for j, weight in zip(near, weights, strict=True) if scores[j] < value)
    total = sum(weights)
    return 0 if total == 0 else int(np.rint(UNITS * (below / total)))


def check_probability_model(model: ProbabilityModel, outputs: ClassificationOutputs) -> None:
    """Check a fitted probability model.

    Parameters
    ----------
    model : ProbabilityModel
        The fitted model to check.
    outputs : ClassificationOutputs
        Outputs of a classifier that the model can read.

    Raises
    ------
    AssertionError
        If a rule does not hold: probabilities that sum to one in each row and do not depend on the other rows.

    Examples
    --------
    >>> import vicinal as vc
    >>> check_probability_model(vc.TemperatureScaling(2.0), vc.ModelOutputs.from_logits(np.eye(4) * 3))
    """
    found = model.apply(outputs)
    _require(found.shape == (len(outputs), outputs.n_classes), "a probability for every label")
    _require(bool(np.all(found >= 0)) and bool(np.allclose(found.sum(axis=1), 1)), "rows must sum to one")
    one = np.concatenate([model.apply(outputs[i : i + 1]) for i in range(len(outputs))])
    _same(one, found, "a row's probabilities must not depend on the other rows")
    if find_spec("torch") is not None:
        _check_model_in_torch(model, outputs, found)
    _check_stored(model)


def _check_model_in_torch(model: ProbabilityModel, outputs: ClassificationOutputs, found: Reals) -> None:
    import torch

    from vicinal.torch.tensor_parts import Precision, TensorProbabilities

    precision, normalized = Precision(None, tf32=False), outputs.logits is None
    module = TensorProbabilities(model, precision, normalized=normalized, in_numpy=False)
    rows = outputs.given[:, :0] if outputs.representations is None else outputs.representations
    given = outputs.probabilities if outputs.logits is None else outputs.logits
    tensors = torch.from_numpy(np.array(given)), torch.from_numpy(np.array(rows))
    same = module(*tensors, listed=False).numpy()
    _require(bool(np.allclose(same, found, rtol=CLOSE, atol=CLOSE)), "probabilities must be the same in torch")


def check_map(row_map: RowMap, rows: ModelOutputs | Reals) -> None:
    """Check a fitted map of rows.

    Parameters
    ----------
    row_map : RowMap
        The fitted map to check.
    rows : ModelOutputs or ndarray of shape (n, d)
        Outputs, or representations alone, that the map can read.

    Raises
    ------
    AssertionError
        If a rule does not hold: one finite row for each row, independent of the other rows.

    Examples
    --------
    >>> import vicinal as vc
    >>> check_map(vc.UnitLength(), np.eye(3) + 1)
    """
    given = read_rows(rows, None) if isinstance(rows, ModelOutputs) else RowArrays(np.asarray(rows))
    arrays = {name: array for name, array in given._asdict().items() if array is not None}
    before = {name: array.copy() for name, array in arrays.items()}
    found = row_map.map_rows(array_api_compat.numpy, given)
    n = len(next(iter(arrays.values())))
    _require(found.ndim == 2 and len(found) == n and found.shape[1] > 0, "a row of numbers for each row")  # noqa: PLR2004
    _require(bool(np.isfinite(found).all()), "mapped rows must be finite")
    single = [RowArrays(**{name: array[i : i + 1] for name, array in arrays.items()}) for i in range(n)]
    one = np.concatenate([row_map.map_rows(array_api_compat.numpy, row) for row in single])
    _same(one, found, "a mapped row must not depend on the other rows")
    for name, array in arrays.items():
        _same(array, before[name], f"the {name} must not be changed")
    width = row_map.input_width(found.shape[1])
    known = 0 if given.representations is None else given.representations.shape[1]
    read = known if row_map.reads_representations else 0
    _require(width in (None, read), "input_width must be the width of the representations that are read, or None")
    if find_spec("torch") is not None:
        import torch

        from vicinal.torch.namespace import xp
        from vicinal.torch.tensor_parts import TensorPart

        tensors = RowArrays(**{name: torch.from_numpy(np.array(array)) for name, array in arrays.items()})
        same = TensorPart(row_map).bound.map_rows(xp, tensors).numpy()
        scale = max(1.0, float(np.abs(found).max()))
        single_bits = any(array.dtype != np.float64 for array in arrays.values())
        close = 2.0**-18 if single_bits else CLOSE
        _require(bool(np.allclose(same, found, rtol=close, atol=close * scale)), "a map must be the same in torch")
    _check_stored(row_map)


def check_method(method: Method, *, draws: int = 300) -> None:
    """Check a method: sets, p-values and coverage agree, and a calibrated predictor survives saving and loading.

    Parameters
    ----------
    method : Method
        The method to check.
    draws : int, default 300
        Number of new samples on which the coverage is measured, if the method guarantees one.

    Raises
    ------
    AssertionError
        If a rule does not hold: sets that grow with the coverage and hold the labels with the largest p-values, that do
        not depend on the other rows or on the order of the calibration rows, and a coverage within a band around the
        guaranteed probability that a correct method leaves once in a million runs.

    Examples
    --------
    >>> import vicinal as vc
    >>> check_method(vc.Split(), draws=50)
    """
    from vicinal.neighbors import Uniform
    from vicinal.scores import APS

    outputs, labels = _classified_rows(90, 7)
    near = Uniform(9) if method.local else None
    predictor = calibrate(outputs[:60], labels[:60], 0.8, score=APS(), localizer=near, method=method)
    test, truth = outputs[60:], labels[60:]
    p_values, inner = predictor.p_values(test), np.zeros((30, outputs.n_classes), np.bool_)
    for coverage in (0.5, 0.7, 0.8, 0.9):
        chosen = predictor.at(coverage)
        found = chosen.predict(test)
        cuts = np.where(found.members, p_values, np.inf).min(), np.where(found.members, -np.inf, p_values).max()
        _require(cuts[0] > cuts[1], "members must be the labels with the larger p-values")
        _require(bool(np.all(inner <= found.members)), "sets must grow with the coverage")
        inner = found.members
        alone = np.concatenate([chosen.predict(test[i : i + 1]).members for i in range(len(test))])
        _same(alone, found.members, "a row's set must not depend on the other rows")
    _same(predictor.p_values(test, truth), p_values[np.arange(30), truth], "p-values of targets are those of labels")
    _require(bool(str(predictor.guarantee)), "the guarantee must have words")
    if not isinstance(method, SplitReference):  # it draws its reference rows by their number
        order = np.random.default_rng(3).permutation(60)
        again = calibrate(outputs[:60][order], labels[:60][order], 0.8, score=APS(), localizer=near, method=method)
        _same(again.predict(test).members, predictor.predict(test).members, "the order of rows must not matter")
    if predictor.guarantee.probability is not None:
        _check_coverage(method, near, draws)
    _check_stored(method)
    if type(method) in NAMES:
        _check_saved(predictor, test)


def _check_saved(predictor: SetPredictor, test: ClassificationOutputs) -> None:
    """Check that a calibrated predictor can be saved to a file and loaded, and then predicts the same."""
    from vicinal.persistence.load import load

    with TemporaryDirectory() as folder:
        predictor.save(Path(folder) / "checked.vicinal")
        again = load(Path(folder) / "checked.vicinal")
        _require(isinstance(again, SetPredictor), "a loaded predictor must be of the same kind")
        _same(again.p_values(test), predictor.p_values(test), "a loaded predictor must give the same p-values")
        _require(str(again.guarantee) == str(predictor.guarantee), "a loaded predictor must have the same guarantee")


def _check_coverage(method: Method, near: Localizer | None, draws: int) -> None:
    """Compare the observed coverage with the guaranteed one; a correct method fails once in a million runs."""
    rng, hits, promised = np.random.default_rng(11), 0, 0.0
    for _ in range(draws):
        x = rng.uniform(-2, 2, size=(41, 1))
        y = rng.normal(0, 0.1 + np.abs(x[:, 0]))
        outputs = ModelOutputs.from_predictions(np.zeros(41), x)
        predictor = calibrate(outputs[:40], y[:40], 0.8, localizer=near, method=method)
        hits += int(predictor.predict(outputs[40:]).covers(y[40:])[0])
        promised = predictor.guarantee.probability or 0.0
    band = 4.9 * math.sqrt(promised * (1 - promised) / draws)
    _require(abs(hits / draws - promised) <= band, f"coverage {hits / draws:.3f} must be {promised:.3f} +- {band:.3f}")


def check_search(search: NeighborSearch) -> None:
    """Check a neighbor search.

    Parameters
    ----------
    search : NeighborSearch
        The search to check.

    Raises
    ------
    AssertionError
        If a rule does not hold: distinct rows with their true distances, and, for an exact search, the nearest rows and
        all rows tied with the last of them.

    Examples
    --------
    >>> import vicinal as vc
    >>> check_search(vc.ExactSearch())
    """
    from vicinal.neighbors import Uniform

    rng = np.random.default_rng(5)
    for points in (rng.normal(size=(300, 5)), rng.integers(0, 3, (300, 3)).astype(float)):
        reference, queries = Reference.of(points[:250], np.arange(250)), points[250:]
        near = BoundLocalizer(Uniform(7), 250)
        engine = engine_of(search)
        found = list(engine.nearest_first(search.neighbors(reference, 7, queries), near))
        _require(len(found) == len(queries), "neighbors for every query")
        for (rows, distances, weights, _), query in zip(found, queries, strict=True):
            true = np.sqrt(((points[:250] - query) ** 2).sum(axis=1))
            _require(bool(np.allclose(distances, true[rows], atol=1e-6)), "distances must be those of the rows")
            _require(len(set(rows.tolist())) == len(rows) >= 7, "at least the requested number of rows, each once")  # noqa: PLR2004
            _require(math.isclose(float(np.sum(weights)), 1.0), "weights must sum to one")
            if isinstance(search, ExactNeighborSearch):
                expected = np.flatnonzero(true <= np.sort(true)[6] + 1e-12)
                _same(np.sort(rows), expected, "an exact search must find the nearest and all tied with the last")
        one = [
            next(iter(engine.nearest_first(search.neighbors(reference, 7, queries[i : i + 1]), near))) for i in (0, 9)
        ]
        _same(np.sort(one[0][0]), np.sort(found[0][0]), "a query's neighbors must not depend on the other queries")
        _same(np.sort(one[1][0]), np.sort(found[9][0]), "a query's neighbors must not depend on the other queries")
    _require(isinstance(search.arithmetic(reference), str), "arithmetic must be a string")
    _check_stored(search)


def _check_stored(part: Any) -> None:
    """Check that a registered part is the same after saving and loading."""
    if type(part) not in NAMES:
        return
    writer = Writer()
    place = writer.part(part)
    entries = json.loads(json.dumps(writer.entries, allow_nan=False))
    again = read_parts(entries, {name: column.array for name, column in writer.columns.items()})[place]
    _require(type(again) is type(part), "a part that is read must be of the same class")
    for one in fields(part):
        _require(repr(getattr(again, one.name)) == repr(getattr(part, one.name)), f"{one.name} must be read as written")


def _require(holds: bool, law: str) -> None:  # noqa: FBT001
    if not holds:
        raise AssertionError(law)


def _same(found: Any, expected: Any, law: str) -> None:
    """Require arrays to be equal to the bit."""
    if not np.array_equal(np.asarray(found), np.asarray(expected)):
        raise AssertionError(law)


def _probability_rows() -> dict[str, Floats]:
    """Return probabilities that are sharp, flat, tied, or partly zero."""
    rng = np.random.default_rng(0)
    sharp, flat = np.exp(6 * rng.normal(size=(7, 40))), np.exp(0.5 * rng.normal(size=(7, 5)))
    tied, zeros = rng.integers(1, 4, (7, 12)).astype(float), np.exp(rng.normal(size=(7, 9)))
    zeros[:, 1:] *= rng.random((7, 8)) < 0.5  # noqa: PLR2004
    made = {"sharp rows": sharp, "flat rows": flat, "tied rows": tied, "rows with zeros": zeros}
    return {name: rows / rows.sum(axis=1, keepdims=True) for name, rows in made.items()}


def _classified_rows(n: int, seed: int) -> tuple[ClassificationOutputs, Ints]:
    rng = np.random.default_rng(seed)
    labels = rng.integers(5, size=n)
    logits = rng.normal(size=(n, 5))
    logits[np.arange(n), labels] += 1.5
    return ModelOutputs.from_logits(logits, rng.normal(size=(n, 3))), labels


def _outputs_for(score: RegressionScore) -> RegressionOutputs:
    """Return outputs that a regression score can read."""
    rng = np.random.default_rng(2)
    points, rows = rng.normal(size=25), rng.normal(size=(25, 3))
    for outputs in (
        ModelOutputs.from_predictions(points, rows, scales=0.5 + rng.random(25)),
        ModelOutputs.from_quantiles(points - 1, points + 1, rows),
    ):
        try:
            score.check(outputs)
        except Incompatible:
            continue
        return outputs
    msg = f"{score!r} must read predictions, with scales or without, or two quantiles"
    raise AssertionError(msg)
