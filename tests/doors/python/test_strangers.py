"""What a stranger's hands do: odd arrays, empty slices, parts that misbehave, arguments of the wrong kind."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from dataclasses import dataclass, replace

import numpy as np
import pytest

import vicinal as vc
from tests.instances import METHODS, classification_rows, regression_rows
from vicinal.errors import Incompatible, InvalidArgument, InvalidValue, ShapeMismatch, TooFewRows
from vicinal.probability_models import ProbabilityModel
from vicinal.representations import RepresentationMap
from vicinal.scores import ClassificationScore

NEAR = vc.Uniform(n_neighbors=5)


def frozen(array):
    array.flags.writeable = False
    return array


@pytest.mark.parametrize("method", METHODS, ids=lambda method: type(method).__name__)
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, ">f4", ">f8"])
def test_read_only_strided_fortran_and_foreign_arrays(method, dtype, tmp_path):
    outputs, labels = classification_rows(120, seed=0, width=30)
    logits, near = outputs.logits.astype(dtype), outputs.representations.astype(dtype)
    np.save(tmp_path / "near.npy", near)
    forms = [
        (frozen(logits.copy()), frozen(near.copy())),
        (np.asfortranarray(logits), np.asfortranarray(near)),
        (np.repeat(logits, 2, axis=0)[::2], np.repeat(near, 2, axis=1)[:, ::2]),
        (logits.tolist(), np.load(tmp_path / "near.npy", mmap_mode="r")),
    ]
    found = []
    for form in forms:
        rows = vc.ModelOutputs.from_logits(*form)
        predictor = vc.calibrate(
            rows[:80], frozen(labels[:80].copy()), 0.8, score=vc.APS(), localizer=NEAR, method=method
        )
        found.append(predictor.predict(rows[80:]).members)
    for other in found[1:3]:
        np.testing.assert_array_equal(other, found[0])
    kind = np.dtype(dtype)
    assert vc.ModelOutputs.from_logits(logits).logits.dtype == kind.newbyteorder("=")


@pytest.mark.parametrize("method", METHODS, ids=lambda method: type(method).__name__)
def test_no_rows_give_no_answers(method):
    outputs, labels = classification_rows(60, seed=0)
    probabilities = vc.ModelOutputs.from_probabilities(
        vc.TemperatureScaling(1.0).apply(outputs), outputs.representations
    )
    for rows in (outputs, probabilities):
        predictor = vc.calibrate(rows, labels, 0.8, localizer=NEAR, method=method)
        sets = predictor.predict(rows[:0])
        assert sets.members.shape == (0, 5)
        assert predictor.p_values(rows[:0]).shape == (0, 5)
        assert repr(sets)
        with pytest.raises(TooFewRows, match="at least one row"):
            vc.evaluate(sets, [])
    with pytest.raises(TooFewRows, match="at least one row"):
        vc.calibrate(outputs[:0], labels[:0], 0.8, localizer=NEAR, method=method)


def test_rows_are_chosen_by_slices_numbers_and_masks():
    outputs, _ = classification_rows(10, seed=0)
    assert len(outputs[[1, 2, 2]]) == 3
    assert len(outputs[np.arange(10) > 6]) == 3
    for wrong in (3, 1.5, "a", np.zeros((2, 2), int)):
        with pytest.raises(Incompatible, match="slice"):
            outputs[wrong]


def test_class_names_must_mean_the_same_and_may_be_targets():
    rng = np.random.default_rng(0)
    logits, labels = rng.normal(size=(60, 2)), rng.integers(2, size=60)
    names = ["cat", "dog"]
    rows = vc.ModelOutputs.from_logits(logits, class_names=names)
    predictor = vc.calibrate(rows, np.array(names)[labels], 0.8, method=vc.Split())
    same = vc.calibrate(rows, labels, 0.8, method=vc.Split())
    np.testing.assert_array_equal(predictor.predict(rows).members, same.predict(rows).members)
    sets = predictor.predict(vc.ModelOutputs.from_logits(logits))
    assert vc.evaluate(sets, np.array(names)[labels]).coverage == vc.evaluate(sets, labels).coverage
    swapped = vc.ModelOutputs.from_logits(logits, class_names=names[::-1])
    with pytest.raises(Incompatible, match="class_names differ"):
        predictor.predict(swapped)
    with pytest.raises(InvalidValue, match="row 0 holds 'cow'"):
        vc.calibrate(rows, ["cow"] * 60, 0.8, method=vc.Split())


@dataclass(frozen=True)
class Returning(ProbabilityModel):
    found: object

    def formula(self, xp, logits, representations):
        raise NotImplementedError

    def apply(self, outputs):
        return self.found(outputs)


BAD_MODELS = {
    "NaN": (lambda o: np.full(o.given.shape, np.nan), InvalidValue, "nan"),
    "not summing to one": (lambda o: np.ones(o.given.shape), InvalidValue, "sums to 5"),
    "fewer columns": (lambda o: np.full((len(o), 4), 0.25), ShapeMismatch, "must return probabilities of shape"),
    "fewer rows": (lambda o: np.full((1, 5), 0.2), ShapeMismatch, "must return probabilities of shape"),
    "text": (lambda o: np.full(o.given.shape, "a"), InvalidValue, "real numbers"),
}


@pytest.mark.parametrize(("found", "kind", "words"), BAD_MODELS.values(), ids=BAD_MODELS.keys())
def test_a_probability_model_that_misbehaves_is_refused(found, kind, words):
    outputs, labels = classification_rows(60, seed=0)
    with pytest.raises(kind, match=words):
        vc.calibrate(outputs, labels, 0.8, score=vc.APS(), localizer=NEAR, probability_model=Returning(found))
    with pytest.raises(kind, match=words):
        vc.naive_sets(outputs, 0.8, Returning(found))


def test_a_probability_model_may_return_half_precision():
    outputs, labels = classification_rows(60, seed=0)
    model = Returning(lambda o: np.full(o.given.shape, 0.2, np.float16))
    predictor = vc.calibrate(outputs, labels, 0.8, score=vc.APS(), localizer=NEAR, probability_model=model)
    assert predictor.predict(outputs).members.shape == (60, 5)


@dataclass(frozen=True)
class Broken(ClassificationScore):
    value: float
    width: int = 5

    def formula(self, xp, probabilities, uniforms):
        return np.full((len(probabilities), self.width), self.value)

    def score_labels(self, probabilities, uniforms, labels):
        return np.full(len(labels) + self.width - 5, self.value)


@dataclass(frozen=True)
class NoColumns(RepresentationMap):
    def formula(self, xp, representations):
        return representations[:, :0]


def test_scores_and_maps_that_misbehave_are_refused():
    outputs, labels = classification_rows(60, seed=0)
    with pytest.raises(InvalidValue, match="must not return NaN"):
        vc.calibrate(outputs, labels, 0.8, score=Broken(np.nan), localizer=NEAR)
    with pytest.raises(ShapeMismatch, match="must return scores of shape"):
        vc.calibrate(outputs, labels, 0.8, score=Broken(0.5, 7), localizer=NEAR)
    with pytest.raises(ShapeMismatch, match="at least one column"):
        vc.calibrate(outputs, labels, 0.8, localizer=NEAR, representation_map=NoColumns())
    predictor = vc.calibrate(outputs, labels, 0.8, localizer=NEAR)
    with pytest.raises(ShapeMismatch, match="must return members of shape"):
        replace(predictor, score=Broken(0.5, 7)).predict(outputs)


def test_reference_rows_must_look_like_calibration_rows():
    outputs, labels = classification_rows(60, seed=0, width=20)
    narrow, _ = classification_rows(60, seed=0, width=2)
    more, _ = classification_rows(60, seed=0, width=20, classes=7)
    other, _ = classification_rows(60, seed=1, width=20)
    values, targets = regression_rows(60, seed=0)
    cases = [
        ((narrow, labels), ShapeMismatch, "20 columns"),
        ((more, labels), ShapeMismatch, "5 classes"),
        ((values["CQR"], targets), Incompatible, "classifier"),
        ((other, labels[:3]), ShapeMismatch, "each of the 60 rows"),
        ((outputs[:0], labels[:0]), TooFewRows, "at least one reference row"),
        ((outputs, labels), Incompatible, "other rows than the calibration rows"),
        ((outputs[10:30], labels[10:30]), Incompatible, "other rows than the calibration rows"),
    ]
    for rows, kind, words in cases:
        with pytest.raises(kind, match=words):
            vc.calibrate(outputs, labels, 0.8, localizer=NEAR, method=vc.SplitReference(rows=rows))
    for rows in (outputs, (outputs,), "rows", (labels, outputs), [0.5], [1, 1]):
        with pytest.raises(Incompatible, match="a pair"):
            vc.SplitReference(rows=rows)
    for rows in ([60], [-1], list(range(60))):
        with pytest.raises(InvalidArgument, match="row numbers 0 to 59"):
            vc.calibrate(outputs, labels, 0.8, localizer=NEAR, method=vc.SplitReference(rows=rows))
    assert len(repr(vc.SplitReference(rows=(outputs, labels)))) < 80


def test_reference_rows_of_few_distinct_values_may_coincide():
    # Categorical inputs: other rows, the same values. Refusing them would refuse a valid use.
    outputs, labels = classification_rows(200, seed=0, width=2)
    rows = vc.ModelOutputs.from_logits(outputs.logits, np.sign(outputs.representations))
    reference = (rows[100:], labels[100:])
    vc.calibrate(rows[:100], labels[:100], 0.8, localizer=NEAR, method=vc.SplitReference(rows=reference))
    mixed = (outputs[70:170], labels[70:170])
    with pytest.raises(Incompatible, match="30 of 100 are the same"):
        vc.calibrate(outputs[:100], labels[:100], 0.8, localizer=NEAR, method=vc.SplitReference(rows=mixed))


def test_reference_rows_by_number_are_the_same_as_apart():
    outputs, labels = classification_rows(90, seed=0)
    chosen, rest = np.arange(0, 60, 2), np.arange(1, 60, 2)
    by_number = vc.calibrate(
        outputs[:60], labels[:60], 0.8, localizer=NEAR, method=vc.SplitReference(rows=chosen)
    ).predict(outputs[60:])
    apart = vc.calibrate(
        outputs[rest],
        labels[rest],
        0.8,
        localizer=NEAR,
        method=vc.SplitReference(rows=(outputs[chosen], labels[chosen])),
    ).predict(outputs[60:])
    np.testing.assert_array_equal(by_number.thresholds, apart.thresholds)


class Grudging:
    """As a tensor that requires a gradient: it has `__array__`, which raises."""

    def __array__(self, dtype=None, copy=None):
        raise RuntimeError("call detach() first")


WRONG = {
    "coverages as a number": (lambda p, o: p.thresholds(o, 0.8), InvalidArgument, "a list of at least one coverage"),
    "no coverages": (lambda p, o: p.thresholds(o, []), InvalidArgument, "a list of at least one coverage"),
    "thresholds of nothing": (lambda p, _: p.thresholds(None), Incompatible, "ModelOutputs"),
    "explain nothing": (lambda p, _: p.explain(None), Incompatible, "ModelOutputs"),
    "predict an array": (lambda p, _: p.predict(np.zeros((3, 5))), Incompatible, "outputs of a classifier"),
    "evaluate nothing": (lambda *_: vc.evaluate(None, [0]), Incompatible, "sets or intervals"),
    "temperature of an array": (
        lambda *_: vc.TemperatureScaling.fit(np.zeros((3, 2)), [0, 1, 0]),
        Incompatible,
        "classifier",
    ),
    "temperature of no rows": (lambda _, o: vc.TemperatureScaling.fit(o[:0], []), TooFewRows, "at least one row"),
    "naive sets of an array": (lambda *_: vc.naive_sets(np.zeros((3, 2)), 0.9), Incompatible, "classifier"),
    "coverage as text": (lambda p, _: p.at("9/10"), InvalidArgument, "strictly between 0 and 1"),
    "a seed too large": (lambda *_: vc.APS(seed=2**64), InvalidArgument, "seed"),
    "endless neighbors": (
        lambda _, o: vc.calibrate(o, [0] * 60, 0.8, localizer=vc.Uniform(10**400)),
        InvalidArgument,
        "n_neighbors",
    ),
    "names that are numbers": (
        lambda *_: vc.ModelOutputs.from_logits([[0.0, 1.0]], class_names=[1, 2]),
        InvalidValue,
        "must be text",
    ),
    "names as a number": (
        lambda *_: vc.ModelOutputs.from_logits([[0.0, 1.0]], class_names=5),
        InvalidValue,
        "class_names",
    ),
    "names as one text": (
        lambda *_: vc.ModelOutputs.from_logits([[0.0, 1.0]], class_names="ab"),
        InvalidValue,
        "class_names",
    ),
    "ragged targets": (lambda _, o: vc.calibrate(o, [[1], [1, 2]], 0.8, localizer=NEAR), InvalidValue, "targets"),
    "ragged ids": (
        lambda *_: vc.ModelOutputs.from_logits([[0.0, 1.0]] * 2, row_ids=[[1], [1, 2]]),
        InvalidValue,
        "row_ids",
    ),
    "an array that refuses": (lambda *_: vc.ModelOutputs.from_logits(Grudging()), InvalidValue, "call detach"),
    "a masked array": (
        lambda *_: vc.ModelOutputs.from_logits(np.ma.array(np.zeros((2, 2)), mask=[[0, 1], [0, 0]])),
        InvalidValue,
        "masked",
    ),
    "fraction as text": (lambda *_: vc.SplitReference("a"), InvalidArgument, "fraction"),
    "parts as a number": (lambda *_: vc.split_rows(100, 5), InvalidArgument, "parts"),
    "a share of one": (lambda *_: vc.split_rows(100, [1.0]), InvalidArgument, "a share strictly between 0 and 1"),
    "strata as a table": (
        lambda *_: vc.split_rows(4, [2], stratify=np.zeros((4, 2))),
        ShapeMismatch,
        "one label per row",
    ),
    "strata as a number": (lambda *_: vc.split_rows(4, [2], stratify=3), ShapeMismatch, "one label per row"),
}


@pytest.mark.parametrize(("call", "kind", "words"), WRONG.values(), ids=WRONG.keys())
def test_arguments_of_the_wrong_kind(call, kind, words):
    outputs, labels = classification_rows(60, seed=0)
    predictor = vc.calibrate(outputs, labels, 0.8, localizer=NEAR)
    with pytest.raises(kind, match=words):
        call(predictor, outputs)


def test_shares_are_rounded_together():
    for n in range(2, 40):
        assert sum(len(part) for part in vc.split_rows(n, [0.5, 0.5])) == n
        assert sum(len(part) for part in vc.split_rows(n, [0.3, np.float32(0.3), 0.4])) in (n - 1, n)
    assert not np.array_equal(vc.split_rows(50, [25], 2**53)[0], vc.split_rows(50, [25], 2**53 + 1)[0])


def test_extreme_quantiles_still_give_intervals():
    outputs = vc.ModelOutputs.from_quantiles([-1.5e308, 0.1], [1.5e308, 0.1 + 2e-16])
    score = vc.CQR()
    lower, upper = score.find_interval(outputs, score.score_values(outputs, np.array([1.0, 0.1])))
    assert np.all(lower <= upper)
    rng = np.random.default_rng(0)
    low = rng.normal(size=5000)
    rows = vc.ModelOutputs.from_quantiles(low, low + rng.exponential(size=5000))
    values = np.nextafter(score.center(rows), rng.choice([-np.inf, np.inf], 5000))
    lower, upper = score.find_interval(rows, score.score_values(rows, values))
    assert np.all((lower <= values) & (values <= upper))


def test_evaluation_does_not_depend_on_row_order():
    rng = np.random.default_rng(0)
    covered = np.sort(rng.random(1000) < 0.9)
    order = rng.permutation(1000)
    flat = vc.PredictionIntervals(np.zeros(1000), np.ones(1000), np.ones(1000), 0.9)
    targets = np.where(covered, 0.5, 2.0)
    assert vc.evaluate(flat, targets) == vc.evaluate(flat, targets[order])
    members = np.stack([covered, ~covered], axis=1)
    a = vc.evaluate(vc.PredictionSets(members, np.zeros(1000), np.full(1000, 0.5), coverage=0.9), np.zeros(1000, int))
    assert a.worst_confidence == a.coverage


def test_few_rows_have_no_worst_group():
    sets = vc.PredictionSets(np.zeros((10, 2), bool), np.zeros(10), np.linspace(0, 1, 10), coverage=0.9)
    found = vc.evaluate(sets, np.zeros(10, int))
    assert found.size_gap is None
    assert found.worst_class is None
    assert str(found)
    with pytest.raises(TooFewRows, match="at least 40"):
        vc.evaluate(sets, np.zeros(10, int), representations=np.ones((10, 2)))


def test_empty_balls_are_counted_and_said():
    outputs, labels = classification_rows(60, seed=0)
    other, _ = classification_rows(1, seed=9)
    for method in (vc.Exact(), vc.LeaveOneOut(), vc.SplitReference(0.5)):
        lonely = vc.calibrate(outputs, labels, 0.8, localizer=vc.Ball(1e-9), method=method)
        assert lonely.calibration.empty_neighborhoods == lonely.calibration.n_ranked
        assert "all rows are used" in str(lonely.explain(other))
        crowded = vc.calibrate(outputs, labels, 0.8, localizer=vc.Ball(100.0), method=method)
        assert crowded.calibration.empty_neighborhoods == 0
    everyone = vc.calibrate(outputs, labels, 0.8, localizer=vc.Uniform(None))
    assert everyone.calibration.empty_neighborhoods == 0
    assert "distance" not in str(everyone.explain(outputs[:1]))


def test_p_values_of_many_rows_need_little_more_than_their_answer():
    rng = np.random.default_rng(0)
    raw = rng.random((40_000, 200), dtype=np.float32)
    outputs = vc.ModelOutputs.from_probabilities(raw / raw.sum(axis=1, keepdims=True))
    predictor = vc.calibrate(outputs[:500], np.zeros(500, int), 0.9, score=vc.APS(), method=vc.Split())
    predictor.p_values(outputs[:10])
    import tracemalloc

    tracemalloc.start()
    answer = predictor.p_values(outputs)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < answer.nbytes + 150e6


def test_a_folder_that_cannot_be_written_is_no_hindrance(tmp_path):
    program = (
        "import numba\n"
        "real = numba.njit\n"
        "def njit(cache=False, **options):\n"
        "    if cache: raise RuntimeError('cannot cache function: no locator available')\n"
        "    return real(**options)\n"
        "numba.njit = njit\n"
        "from vicinal.kernels.rows import hash_keys\n"
        "numba.njit = real\n"
        "import numpy as np; k = np.empty(3, np.uint64); hash_keys(np.uint64(1), k); print(k[0] != 0)"
    )
    found = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd=tmp_path, env={**os.environ}
    )
    assert found.stdout.strip() == "True", found.stderr


OWN = """
from dataclasses import dataclass

import vicinal as vc
from vicinal.neighbors import WeightedNeighbors
from vicinal.scores import ClassificationScore


@vc.register
@dataclass(frozen=True)
class Half(ClassificationScore):
    factor: float = 0.5

    def formula(self, xp, probabilities, uniforms):
        return 1.0 - self.factor * probabilities


@vc.register
@dataclass(frozen=True)
class Slow(WeightedNeighbors):
    def log_weight(self, xp):
        return lambda u: -xp.log1p(u)
"""


def test_a_registered_part_of_ones_own_is_saved_and_nothing_is_imported_for_a_file(tmp_path, monkeypatch):
    (tmp_path / "own_parts_of_a_test.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    own = importlib.import_module("own_parts_of_a_test")
    outputs, labels = classification_rows(120, seed=4)
    predictor = vc.calibrate(outputs[:80], labels[:80], 0.8, score=own.Half(), localizer=own.Slow(9, 0.5))
    predictor.save(tmp_path / "a.vicinal")
    assert b"own_parts_of_a_test:Half" in (tmp_path / "a.vicinal").read_bytes()
    loaded = vc.load(tmp_path / "a.vicinal")
    np.testing.assert_array_equal(loaded.predict(outputs[80:]).members, predictor.predict(outputs[80:]).members)
    assert loaded.localizer == own.Slow(9, 0.5)
    program = "import sys, vicinal as vc\ntry:\n    vc.load(sys.argv[1])\nexcept vc.UnsupportedArtifact as error:\n"
    program += "    print(error, 'own_parts_of_a_test' in sys.modules)"
    command = [sys.executable, "-c", program, str(tmp_path / "a.vicinal")]
    said = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path).stdout
    assert "Import own_parts_of_a_test before loading" in said
    assert said.strip().endswith("False")


def test_what_cannot_be_registered_is_refused():
    with pytest.raises(Incompatible, match="frozen dataclass"):
        vc.register(type("Loose", (vc.LAC,), {}))
    with pytest.raises(Incompatible, match="frozen dataclass"):
        vc.register(3)
