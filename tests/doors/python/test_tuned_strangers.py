"""What a careful reader found, each as a law: leaks from either side, twins, odd numbers, odd parts."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

import vicinal as vc
from tests.instances import classification_rows, regression_rows
from tests.laws.test_tuning import judged_by_lists, judged_by_predicting
from vicinal.errors import Incompatible, InvalidArgument, InvalidValue
from vicinal.reporting import gather_report
from vicinal.scores import ClassificationScore
from vicinal.tuning.bench import LabelScores

SMALL = vc.Space(score=[vc.LAC()], probability_model=[None], shares=(0.2,), multiples=(0.2,), bandwidths=())


def test_few_calibration_rows_among_many_fitted_ones_are_refused():
    outputs, labels = classification_rows(1000, seed=1)
    votes = vc.NeighborVotes.fit(outputs, labels)
    with pytest.raises(Incompatible, match="50 of 1000 are the same"):
        vc.calibrate(outputs[:50], labels[:50], 0.8, localizer=vc.Uniform(5), probability_model=votes)
    method = vc.SplitReference(rows=(outputs, labels))
    with pytest.raises(Incompatible, match="reference rows must be other rows"):
        vc.calibrate(outputs[:50], labels[:50], 0.8, localizer=vc.Uniform(5), method=method)


@pytest.mark.parametrize("twins", [0.1, 0.2, 0.25, 0.4])
def test_twins_in_the_data_do_not_stop_calibrate(twins):
    by_name, targets = regression_rows(600, seed=1)
    rng = np.random.default_rng(0)
    rows = np.concatenate([np.arange(600 - int(600 * twins)), rng.integers(0, 100, int(600 * twins))])
    rows = rng.permutation(rows)
    outputs, values = by_name["AbsoluteResidual"][rows], targets[rows]
    assert vc.calibrate(outputs, values, 0.9).tuning.rows == 200


def test_noise_does_not_win_where_the_model_is_nearly_always_right():
    wins = 0
    for seed in range(10):
        rng = np.random.default_rng(seed)
        labels = rng.integers(3, size=300)
        outputs = vc.ModelOutputs.from_logits(
            8 * np.eye(3)[labels] + rng.normal(size=(300, 3)), rng.normal(size=(300, 3))
        )
        wins += not vc.tune(outputs, labels, 0.9, strategy=vc.Grid(SMALL), seed=seed).winner.everyone
    assert wins <= 1


def test_tuning_rows_used_for_reference_do_not_vote_on_themselves():
    outputs, labels = classification_rows(400, seed=2)
    votes = vc.NeighborVotes.fit(outputs[:200], labels[:200])
    predictor = vc.calibrate(
        outputs[200:],
        labels[200:],
        0.8,
        localizer=vc.Uniform(20),
        probability_model=votes,
        method=vc.SplitReference(rows=(outputs[:200], labels[:200])),
    )
    own = 1 - votes.apply_left_out(outputs[:200])[np.arange(200), labels[:200]]
    assert np.array_equal(predictor.calibration.reference.scores, np.sort(own))
    by_name, targets = regression_rows(400, seed=2)
    rows = by_name["AbsoluteResidual"]
    scales = vc.NeighborScales.fit(rows[:200], targets[:200])
    scaled = vc.calibrate(
        rows[200:],
        targets[200:],
        0.8,
        localizer=vc.Uniform(20),
        score=vc.ScaledResidual(scales),
        method=vc.SplitReference(rows=(rows[:200], targets[:200])),
    )
    residuals = np.abs(targets - rows.predictions)[:200] / scales.apply_left_out(rows[:200])
    assert np.array_equal(scaled.calibration.reference.scores, np.sort(residuals))


@pytest.mark.parametrize("coverage", [Fraction(5, 6), Decimal("0.8"), np.float32(0.9), 0.85])
def test_the_report_shows_the_coverage_as_it_was_given(coverage):
    outputs, labels = classification_rows(80, seed=3)
    predictor = vc.calibrate(outputs[:29], labels[:29], coverage, localizer=vc.Uniform(5))
    data = gather_report(predictor, outputs[29:], labels[29:], rows=5)
    assert data["headline"]["size"] == predictor.predict(outputs[29:]).sizes.mean()
    assert len(set(data["curve"]["targets"])) == len(data["curve"]["targets"])
    tuned = vc.tune(outputs, labels, coverage, strategy=vc.Grid(SMALL))
    assert tuned.coverage == pytest.approx(float(coverage))


@pytest.mark.parametrize("score", [vc.AbsoluteResidual(), None])
def test_intervals_of_one_length_can_be_reported(score):
    by_name, targets = regression_rows(400, seed=4)
    outputs = by_name["AbsoluteResidual"]
    for method, localizer in ((vc.Split(), None), (None, vc.Uniform(None))):
        predictor = vc.calibrate(outputs[:300], targets[:300], 0.8, method=method, localizer=localizer, score=score)
        data = gather_report(predictor, outputs[300:], targets[300:], rows=5)
        assert sum(data["sizes"]["split"]) == 100


def test_residuals_are_not_called_targets():
    by_name, targets = regression_rows(400, seed=5)
    outputs = by_name["AbsoluteResidual"]
    score = vc.ScaledResidual(vc.NeighborScales.fit(outputs[:150], targets[:150]))
    predictor = vc.calibrate(outputs[150:300], targets[150:300], 0.8, score=score, method=vc.Split())
    explorer = gather_report(predictor, outputs[300:], targets[300:], rows=5)["explorer"]
    assert explorer["neighbor_column"] == "Residual"
    residuals = np.abs(targets - outputs.predictions)[:150]
    for row in explorer["rows"]:
        assert [one["label"] for one in row["neighbors"]] == [
            f"{residuals[one['row']]:.4g}" for one in row["neighbors"]
        ]


def test_split_with_a_localizer_has_no_neighborhood():
    outputs, labels = classification_rows(200, seed=6)
    predictor = vc.calibrate(outputs[:100], labels[:100], 0.8, localizer=vc.Uniform(9), method=vc.Split())
    assert predictor.localizer is None
    assert "no neighborhood" in vc.diagnose(predictor, outputs[100:], labels[100:]).advice


def test_a_high_coverage_gets_the_rows_it_needs_to_be_tuned_at(monkeypatch):
    monkeypatch.setattr("vicinal.predictor.calibrate.MOST_JUDGED", 60)
    monkeypatch.setattr("vicinal.predictor.calibrate.MOST_ASIDE", 60)
    outputs, labels = classification_rows(1200, seed=7)
    predictor = vc.calibrate(outputs, labels, 0.99, score=vc.LAC(), probability_model=vc.TemperatureScaling(1.0))
    assert predictor.tuning.rows >= 126
    with pytest.raises(InvalidArgument, match="most_rows must be a whole number, 126 or more"):
        vc.tune(outputs, labels, 0.99, most_rows=60)


def test_rounded_rows_are_judged_as_leave_one_out_predicts_in_mapped_space():
    outputs, labels = classification_rows(120, seed=8)
    rows = vc.UnitLength().apply(np.round(outputs.representations, 1) + 0.05)
    outputs = vc.ModelOutputs.from_logits(outputs.logits, rows)
    folds = np.random.default_rng(0).permutation(120) % 4
    for localizer in (vc.Uniform(7), vc.Uniform(0.1), vc.Exponential(11, 0.1)):
        space = vc.Space(
            score=[vc.LAC(), vc.APS()], localizer=[localizer], probability_model=[None], representation_map=[None]
        )
        scores = LabelScores(outputs, labels, np.arange(120), space, 0.8)
        found = judged_by_lists(outputs, labels, folds, localizer, scores, space)
        for score, judged in zip((vc.LAC(), vc.APS()), found, strict=True):
            sizes, covered = judged_by_predicting(outputs, labels, folds, localizer, score)
            assert np.array_equal(judged.sizes[:, 1], sizes)
            assert np.array_equal(judged.covered[:, 1], covered)


@dataclass(frozen=True, eq=True)
class Shifted(ClassificationScore):
    """A score that holds an array, and so is not hashable, and hands out the array it was given."""

    shift: np.ndarray

    def formula(self, xp, probabilities, uniforms):
        return probabilities

    def score_all(self, probabilities, uniforms):
        return np.asarray(probabilities)


def test_a_score_of_ones_own_can_be_tuned_and_changes_nobody_elses():
    outputs, labels = classification_rows(200, seed=9)
    alone = vc.tune(outputs, labels, 0.8, strategy=vc.Grid(SMALL))
    both = vc.Space(
        score=[Shifted(np.ones(3)), vc.LAC()],
        probability_model=[None],
        shares=(0.2,),
        multiples=(0.2,),
        bandwidths=(),
    )
    together = vc.tune(outputs, labels, 0.8, strategy=vc.Grid(both))
    own = [c.size for c in together.candidates if isinstance(c.score, vc.LAC)]
    assert own == [c.size for c in alone.candidates]
    assert len(vc.tune(outputs, labels, 0.8, strategy=vc.Bayesian(3, space=both)).candidates) == 5


ODD = {
    "a class for a fit": (
        lambda: vc.Space(probability_model=[vc.NeighborVotes]),
        InvalidArgument,
        "probability_model must be",
    ),
    "no space": (lambda: vc.Grid([vc.LAC()]), Incompatible, "must be a Space"),
    "one share": (lambda: vc.Space(shares=0.1), InvalidArgument, "shares must be a list of numbers"),
    "the float one": (lambda: vc.Uniform(1.0), InvalidArgument, "1 for one neighbor"),
    "a diagnosis of text": (
        lambda: vc.diagnose(predicted(), *classification_rows(60, 1), inputs=[["a"]] * 60),
        InvalidValue,
        "inputs must be real numbers",
    ),
    "a diagnosis of NaN": (
        lambda: vc.diagnose(predicted(), *classification_rows(60, 1), inputs=np.full((60, 2), np.nan)),
        InvalidValue,
        "inputs must be finite",
    ),
}


def predicted():
    outputs, labels = classification_rows(60, seed=2)
    return vc.calibrate(outputs, labels, 0.8, localizer=vc.Uniform(9))


@pytest.mark.parametrize("name", ODD)
def test_odd_input_is_a_sentence(name):
    call, error, words = ODD[name]
    with pytest.raises(error, match=words):
        call()


@pytest.mark.parametrize(
    "space",
    [
        vc.Space(localizer=[vc.Uniform(None)]),
        vc.Space(shares=()),
        vc.Space(penalties=(0.0, 0.1), multiples=()),
        vc.Space(penalties=(), bandwidths=()),
    ],
)
def test_bayesian_search_takes_what_a_grid_takes(space):
    outputs, labels = classification_rows(100, seed=1)
    for search in (vc.Grid(space), vc.Bayesian(3, space=space)):
        assert vc.tune(outputs, labels, 0.8, strategy=search, folds=5.0, seed=0.0).winner is not None


def test_one_column_has_no_direction():
    rng = np.random.default_rng(0)
    x = rng.uniform(1, 2, size=(200, 1))
    labels = (x[:, 0] > 1.5).astype(int)
    outputs = vc.ModelOutputs.from_logits(rng.normal(size=(200, 2)), x)
    votes = vc.NeighborVotes.fit(outputs, labels)
    assert votes.voters.representation_map is None
    assert np.mean(votes.apply(outputs).argmax(axis=1) == labels) > 0.95
