"""Bad input gives our error, with the value and what to do; never a bare traceback of another library."""

from __future__ import annotations

import numpy as np
import pytest

import vicinal as vc
from tests.instances import classification_rows, regression_rows
from vicinal.errors import Incompatible, InvalidArgument, InvalidValue, ShapeMismatch, TooFewRows
from vicinal.neighbors.reference import arithmetic_for

PROPER = np.full((4, 3), 1 / 3)
NEAR = vc.Uniform(n_neighbors=5)


def changed(array, value, row=2, column=1):
    out = np.array(array, dtype=float)
    out[(row, column) if out.ndim == 2 else row] = value
    return out


OUTPUTS = {
    "NaN logit": (lambda: vc.ModelOutputs.from_logits(changed(PROPER, np.nan)), InvalidValue, "row 2, column 1.*nan"),
    "inf logit": (lambda: vc.ModelOutputs.from_logits(changed(PROPER, np.inf)), InvalidValue, "row 2.*inf"),
    "inf half logit": (
        lambda: vc.ModelOutputs.from_logits(changed(PROPER, -np.inf).astype(np.float16)),
        InvalidValue,
        "row 2.*-inf",
    ),
    "NaN representation": (
        lambda: vc.ModelOutputs.from_logits(PROPER, changed(np.ones((4, 2)), np.nan)),
        InvalidValue,
        "representations must be finite; row 2",
    ),
    "NaN probability": (
        lambda: vc.ModelOutputs.from_probabilities(changed(PROPER, np.nan)),
        InvalidValue,
        "row 2 holds nan",
    ),
    "negative probability": (
        lambda: vc.ModelOutputs.from_probabilities(changed(PROPER, -0.1)),
        InvalidValue,
        "row 2 holds the negative value -0.1",
    ),
    "not summing to one": (
        lambda: vc.ModelOutputs.from_probabilities(changed(PROPER, 0.5)),
        InvalidValue,
        "row 2 sums to 1.16.*from_logits",
    ),
    "half precision not summing to one": (
        lambda: vc.ModelOutputs.from_probabilities(changed(PROPER, 0.5).astype(np.float16)),
        InvalidValue,
        "row 2 sums to 1.16",
    ),
    "zero rows": (lambda: vc.ModelOutputs.from_logits(np.empty((0, 3))), TooFewRows, "at least one row"),
    "one class": (lambda: vc.ModelOutputs.from_logits(np.ones((4, 1))), ShapeMismatch, "two classes.*p and 1 - p"),
    "one axis": (lambda: vc.ModelOutputs.from_logits(np.ones(4)), ShapeMismatch, r"2 axes; got shape \(4,\)"),
    "text": (lambda: vc.ModelOutputs.from_logits([["a", "b"]]), InvalidValue, "real numbers"),
    "ragged": (lambda: vc.ModelOutputs.from_logits([[1.0, 2.0], [1.0]]), InvalidValue, "convertible to a numpy array"),
    "complex": (lambda: vc.ModelOutputs.from_logits(PROPER * 1j), InvalidValue, "complex"),
    "rows differ": (
        lambda: vc.ModelOutputs.from_logits(PROPER, np.ones((5, 2))),
        ShapeMismatch,
        "representations must have one row for each of the 4 rows of logits; got 5",
    ),
    "no columns": (lambda: vc.ModelOutputs.from_logits(PROPER, np.ones((4, 0))), ShapeMismatch, "at least one column"),
    "too few names": (
        lambda: vc.ModelOutputs.from_logits(PROPER, class_names=["a"]),
        ShapeMismatch,
        "each of the 3 classes; got 1",
    ),
    "a name twice": (
        lambda: vc.ModelOutputs.from_logits(PROPER, class_names=["a", "b", "a"]),
        InvalidValue,
        "'a' occurs twice",
    ),
    "ids of another length": (lambda: vc.ModelOutputs.from_logits(PROPER, row_ids=[1]), ShapeMismatch, "row_ids"),
    "ids that are floats": (lambda: vc.ModelOutputs.from_logits(PROPER, row_ids=[0.5] * 4), InvalidValue, "row_ids"),
    "uniforms outside": (lambda: vc.ModelOutputs.from_logits(PROPER, uniforms=[0, 0, 0, 2]), InvalidValue, "uniforms"),
    "uniforms NaN": (lambda: vc.ModelOutputs.from_logits(PROPER, uniforms=[0, 0, 0, np.nan]), InvalidValue, "uniforms"),
    "NaN prediction": (lambda: vc.ModelOutputs.from_predictions([1.0, np.nan]), InvalidValue, "row 1 holds nan"),
    "no predictions": (lambda: vc.ModelOutputs.from_predictions([]), TooFewRows, "at least one row"),
    "scale of zero": (lambda: vc.ModelOutputs.from_predictions([1.0], scales=[0.0]), InvalidValue, "above 0"),
    "quantiles differ": (lambda: vc.ModelOutputs.from_quantiles([1.0], [1.0, 2.0]), ShapeMismatch, "upper"),
}


@pytest.mark.parametrize(("make", "kind", "words"), OUTPUTS.values(), ids=OUTPUTS.keys())
def test_outputs_are_checked_at_the_door(make, kind, words):
    with pytest.raises(kind, match=words):
        make()


def calibrate(n=40, coverage=0.8, targets=None, **parts):
    outputs, labels = classification_rows(n, seed=0)
    return vc.calibrate(outputs, labels if targets is None else targets, coverage, **{"localizer": NEAR, **parts})


CALIBRATIONS = {
    **{
        f"coverage {value}": (
            lambda value=value: calibrate(coverage=value),
            InvalidArgument,
            "strictly between 0 and 1",
        )
        for value in (0, 1, 1.5, 10, -0.1, np.nan, True, "most")
    },
    "percent": (lambda: calibrate(coverage=90), InvalidArgument, "0.9, not 90"),
    "too few rows": (lambda: calibrate(n=8, coverage=0.9), TooFewRows, "at least 9 ranked calibration rows; got 8"),
    "one row": (lambda: calibrate(n=1, localizer=vc.Uniform(None)), TooFewRows, "at least 4"),
    "one row left out": (
        lambda: calibrate(n=1, coverage=0.5, localizer=vc.Uniform(None), method=vc.LeaveOneOut()),
        TooFewRows,
        "at least 2",
    ),
    "one row split": (
        lambda: calibrate(n=1, coverage=0.5, localizer=vc.Uniform(None), method=vc.SplitReference()),
        TooFewRows,
        "at least 2",
    ),
    "k beyond the rows": (
        lambda: calibrate(localizer=vc.Uniform(40)),
        TooFewRows,
        "40 neighbors need at least 40 other rows; there are 39",
    ),
    "k beyond the reference": (
        lambda: calibrate(localizer=vc.Uniform(21), method=vc.SplitReference(0.5)),
        TooFewRows,
        "21 neighbors need at least 21 other rows; there are 20",
    ),
    "label too large": (lambda: calibrate(targets=np.full(40, 5)), InvalidValue, r"0 \.\. 4; row 0 holds 5"),
    "label negative": (lambda: calibrate(targets=np.full(40, -1)), InvalidValue, "row 0 holds -1"),
    "labels as text": (lambda: calibrate(targets=["cat"] * 40), InvalidValue, "pass class_names"),
    "labels with NaN": (lambda: calibrate(targets=np.full(40, np.nan)), InvalidValue, "row 0 holds nan"),
    "labels with inf": (lambda: calibrate(targets=np.full(40, np.inf)), InvalidValue, "row 0 holds inf"),
    "labels too large to cast": (
        lambda: calibrate(targets=np.full(40, 2**64 - 1, np.uint64)),
        InvalidValue,
        "row 0 holds 18446744073709551615",
    ),
    "labels of another length": (lambda: calibrate(targets=[0, 1]), ShapeMismatch, "each of the 40 rows"),
    "labels as a table": (lambda: calibrate(targets=np.zeros((40, 5))), ShapeMismatch, "one label per row"),
    "no localizer, rows by number": (
        lambda: calibrate(localizer=None, method=vc.SplitReference(rows=[0, 1, 2])),
        Incompatible,
        "needs a localizer",
    ),
    "a map that is not fitted": (
        lambda: calibrate(representation_map=vc.PrincipalComponents(2)),
        TooFewRows,
        r"a third of the rows, at least 50, is set aside to fit PrincipalComponents\(n=2\); got 40 rows",
    ),
    "a localizer by name": (lambda: calibrate(localizer="knn"), Incompatible, "localizer must be"),
    "a method by name": (lambda: calibrate(method="exact"), Incompatible, "method must be"),
    "a class for a method": (lambda: calibrate(method=vc.Exact), Incompatible, "method must be"),
    "a score by name": (lambda: calibrate(score="aps"), Incompatible, "score must be a score such as LAC"),
    "a regression score": (lambda: calibrate(score=vc.CQR()), Incompatible, "outputs of a regression"),
    "a search by name": (lambda: calibrate(search="faiss"), Incompatible, "search must be"),
    "a map by name": (lambda: calibrate(representation_map="pca"), Incompatible, "representation_map must be"),
    "an unfitted temperature": (lambda: calibrate(probability_model=1.5), Incompatible, "TemperatureScaling"),
}


@pytest.mark.parametrize(("make", "kind", "words"), CALIBRATIONS.values(), ids=CALIBRATIONS.keys())
def test_calibration_is_checked_at_the_door(make, kind, words):
    with pytest.raises(kind, match=words):
        make()


PARTS = {
    "bandwidth 0": (lambda: vc.Exponential(5, 0), "bandwidth must be a finite number above 0; got 0"),
    "bandwidth negative": (lambda: vc.Exponential(5, -1.0), "bandwidth"),
    "bandwidth NaN": (lambda: vc.Exponential(5, np.nan), "bandwidth"),
    "k of 0": (lambda: vc.Uniform(0), "n_neighbors must be a whole number, 1 or more; got 0"),
    "k of a half": (lambda: vc.Uniform(2.5), "n_neighbors"),
    "k as text": (lambda: vc.Uniform("5"), "n_neighbors"),
    "radius 0": (lambda: vc.Ball(0.0), "radius"),
    "radius too large": (lambda: vc.Ball(1e200), "radius"),
    "negative penalty": (lambda: vc.RAPS(-0.1, 5), "rank_penalty"),
    "negative free ranks": (lambda: vc.RAPS(0.1, -1), "free_ranks"),
    "negative seed": (lambda: vc.APS(seed=-1), "seed"),
    "temperature 0": (lambda: vc.TemperatureScaling(0.0), "temperature"),
    "fraction 1": (lambda: vc.SplitReference(1.0), "fraction"),
    "no memory": (lambda: vc.ExactSearch(megabytes=0), "megabytes"),
    "two rests": (lambda: vc.split_rows(9, [None, None]), "at most one None"),
    "no parts": (lambda: vc.split_rows(9, []), "at least one part"),
}


@pytest.mark.parametrize(("make", "words"), PARTS.values(), ids=PARTS.keys())
def test_parts_are_checked_when_they_are_made(make, words):
    with pytest.raises(InvalidArgument, match=words):
        make()


def test_prediction_must_look_like_calibration():
    predictor = calibrate()
    wider, _ = classification_rows(4, seed=1, width=5)
    with pytest.raises(ShapeMismatch, match="3 columns, as in calibration; got 5"):
        predictor.predict(wider)
    more, _ = classification_rows(4, seed=1, classes=7)
    with pytest.raises(ShapeMismatch, match="5 classes, as in calibration; got 7"):
        predictor.predict(more)
    bare = vc.ModelOutputs.from_logits(np.zeros((4, 5)))
    with pytest.raises(Incompatible, match="needs representations"):
        predictor.predict(bare)
    by_name, _ = regression_rows(4, seed=1)
    with pytest.raises(Incompatible, match="outputs of a classifier"):
        predictor.predict(by_name["CQR"])
    with pytest.raises(InvalidArgument, match="0 to 3"):
        predictor.explain(more[:4], row=9)
    with pytest.raises(TooFewRows, match="at least 99"):
        predictor.at(0.99)


def test_regression_scores_name_what_they_lack():
    by_name, targets = regression_rows(30, seed=0)
    for score, outputs, words in (
        (vc.AbsoluteResidual(), by_name["CQR"], "point predictions"),
        (vc.ScaledResidual(), by_name["AbsoluteResidual"], "scales="),
        (vc.CQR(), by_name["AbsoluteResidual"], "from_quantiles"),
        (vc.LAC(), by_name["CQR"], "classifier"),
    ):
        with pytest.raises(Incompatible, match=words):
            vc.calibrate(outputs, targets, 0.8, score=score, localizer=NEAR)
    predictor = vc.calibrate(by_name["CQR"], targets, 0.8, localizer=NEAR)
    with pytest.raises(Incompatible, match="needs targets"):
        predictor.p_values(by_name["CQR"])
    with pytest.raises(InvalidValue, match="row 3 holds nan"):
        vc.calibrate(by_name["CQR"], changed(targets, np.nan, row=3), 0.8, localizer=NEAR)


@pytest.mark.parametrize("localizer", [vc.Uniform(5), vc.Exponential(5, 1.0), vc.Exponential(None, 0.1), vc.Ball(1.0)])
def test_constant_representations_are_everyones_neighbors(localizer):
    outputs, labels = classification_rows(60, seed=0)
    flat = vc.ModelOutputs.from_logits(outputs.logits, np.ones((60, 50), np.float32))
    local = vc.calibrate(flat[:40], labels[:40], 0.8, localizer=localizer).predict(flat[40:])
    split = vc.calibrate(flat[:40], labels[:40], 0.8, method=vc.Split()).predict(flat[40:])
    np.testing.assert_array_equal(local.members, split.members)


def test_far_rows_do_not_underflow_to_no_weight_at_all():
    outputs, labels = classification_rows(60, seed=0)
    far = vc.ModelOutputs.from_logits(outputs.logits, outputs.representations * 1e6)
    predictor = vc.calibrate(far[:40], labels[:40], 0.8, localizer=vc.Exponential(10, 1e-3))
    thresholds = predictor.predict(far[40:]).thresholds
    assert np.all(np.isfinite(thresholds))


@pytest.mark.parametrize(("dtype", "size"), [(np.float32, 1e19), (np.float64, 1e160)])
@pytest.mark.parametrize("width", [3, 40])
def test_representations_too_long_for_a_distance_are_refused(dtype, size, width):
    if arithmetic_for(np.dtype(dtype), width)[0] != dtype:
        pytest.skip("this machine compares float32 rows in float64, which holds such lengths")
    logits, labels = np.zeros((40, 3)), np.zeros(40, int)
    good = vc.ModelOutputs.from_logits(logits, np.ones((40, width), dtype))
    long = vc.ModelOutputs.from_logits(logits, np.full((40, width), size, dtype))
    with pytest.raises(InvalidValue, match="Scale them down"):
        vc.calibrate(long, labels, 0.8, localizer=NEAR)
    predictor = vc.calibrate(good, labels, 0.8, localizer=NEAR)
    with pytest.raises(InvalidValue, match="Scale them down"):
        predictor.predict(long)


def test_evaluation_is_checked_too():
    sets = calibrate().predict(classification_rows(50, seed=1)[0])
    with pytest.raises(ShapeMismatch, match="each of the 50 rows"):
        vc.evaluate(sets, [0, 1])
    with pytest.raises(ShapeMismatch, match="representations"):
        vc.evaluate(sets, np.zeros(50, int), representations=np.ones((3, 2)))
    with pytest.raises(TooFewRows, match="parts have 12 rows"):
        vc.split_rows(9, [6, 6])
