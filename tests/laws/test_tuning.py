"""Tuning: candidates are judged as LeaveOneOut predicts, errors are what they say, and the choice follows its rules."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import vicinal as vc
from tests.instances import (
    CLASSIFICATION_SCORES,
    LOCALIZERS,
    METHODS,
    REGRESSION_SCORES,
    VIEW_SCORES,
    classification_rows,
    regression_rows,
)
from vicinal._util.register import list_registered, part_fields
from vicinal.calibration import Method
from vicinal.errors import Incompatible, InvalidArgument, TooFewRows
from vicinal.neighbors.fit import descend_grid
from vicinal.neighbors.lists import NeighborLists
from vicinal.neighbors.localizers import Localizer
from vicinal.representations import RepresentationMap
from vicinal.scores import ClassificationScore, RegressionScore
from vicinal.tuning.bench import Bench, LabelScores, ValueScores, neighborhoods
from vicinal.tuning.choose import ChoiceSaving
from vicinal.tuning.judge import Judge, Judged, Several
from vicinal.tuning.report import localizer_words, part_words, score_words
from vicinal.tuning.strategies import Strategy

NEAR = [
    vc.Uniform(5),
    vc.Uniform(0.3),
    vc.Exponential(7, 0.4),
    vc.Exponential(0.2, 2.0),
    vc.Exponential(None, 0.7),
    vc.Exponential(3, 1e-3),
]
FEW = vc.Space(
    score=[vc.LAC(), vc.NeverEmpty(vc.APS())],
    representation_map=[None, vc.UnitLength()],
    shares=(0.1, 0.3),
    multiples=(0.2,),
    bandwidths=(),
)


def judged_by_lists(outputs, targets, folds, localizer, scores, space):
    judge = Judge(folds, 0.8)
    rows = np.arange(len(outputs))
    near = neighborhoods(space, outputs, targets, rows, judge, [None], lambda words: None)[0]
    bench = Bench(judge, scores, [near])
    several = Several.of([bench.score(source) for source in scores.sources])
    return judge.neighborhoods(near.lists, localizer, several)


def judged_by_predicting(outputs, targets, folds, localizer, score, probability_model=None):
    """The slow twin: calibrate LeaveOneOut on the other folds, predict the fold."""
    sizes, covered = np.empty(len(outputs)), np.empty(len(outputs), bool)
    for fold in np.unique(folds):
        others, own = folds != fold, folds == fold
        predictor = vc.calibrate(
            outputs[others],
            targets[others],
            0.8,
            score=score,
            localizer=localizer,
            probability_model=probability_model,
            method=vc.LeaveOneOut(),
        )
        found = predictor.predict(outputs[own])
        sizes[own] = found.sizes if isinstance(found, vc.PredictionSets) else found.lengths
        covered[own] = found.covers(targets[own])
    return sizes, covered


@pytest.mark.parametrize("lattice", [False, True], ids=["anywhere", "lattice"])
@pytest.mark.parametrize("localizer", NEAR, ids=str)
def test_candidates_are_judged_as_leave_one_out_predicts(localizer, lattice):
    outputs, labels = classification_rows(83, seed=3)
    if lattice:  # distances tie, and rows coincide
        outputs = vc.ModelOutputs.from_logits(outputs.logits, np.round(outputs.representations))
    folds = np.random.default_rng(0).permutation(83) % 4
    space = vc.Space(
        score=CLASSIFICATION_SCORES, localizer=[localizer], probability_model=[None], representation_map=[None]
    )
    scores = LabelScores(outputs, labels, np.arange(83), space, 0.8)
    found = judged_by_lists(outputs, labels, folds, localizer, scores, space)
    for score, judged in zip(CLASSIFICATION_SCORES, found, strict=True):
        sizes, covered = judged_by_predicting(outputs, labels, folds, localizer, score)
        assert np.array_equal(judged.sizes[:, 1], sizes), score
        assert np.array_equal(judged.covered[:, 1], covered), score
        assert np.all(np.diff(judged.sizes, axis=1) >= 0)
        assert np.all(np.diff(judged.covered.astype(int), axis=1) >= 0)


@pytest.mark.parametrize("localizer", NEAR, ids=str)
@pytest.mark.parametrize("score", [vc.AbsoluteResidual(), vc.ScaledResidual(), vc.CQR()], ids=str)
def test_regressions_are_judged_as_leave_one_out_predicts(localizer, score):
    by_name, targets = regression_rows(70, seed=5)
    outputs = by_name[type(score).__name__]
    folds = np.random.default_rng(1).permutation(70) % 5
    space = vc.Space(score=[score], localizer=[localizer], representation_map=[None])
    scores = ValueScores(outputs, targets, np.arange(70), space)
    judged = judged_by_lists(outputs, targets, folds, localizer, scores, space)[0]
    sizes, covered = judged_by_predicting(outputs, targets, folds, localizer, score)
    assert np.array_equal(judged.sizes[:, 1], sizes)
    assert np.array_equal(judged.covered[:, 1], covered)


@pytest.mark.parametrize("score", CLASSIFICATION_SCORES, ids=str)
def test_everyone_is_judged_as_split_predicts(score):
    outputs, labels = classification_rows(90, seed=4)
    folds = np.random.default_rng(0).permutation(90) % 3
    space = vc.Space(score=[score], probability_model=[None])
    scores = LabelScores(outputs, labels, np.arange(90), space, 0.8)
    judged = Judge(folds, 0.8).everyone(scores.of(scores.sources[0]))
    sizes, covered = judged_by_predicting(outputs, labels, folds, vc.Uniform(None), score)
    assert np.array_equal(judged.sizes[:, 1], sizes)
    assert np.array_equal(judged.covered[:, 1], covered)


@given(st.integers(2, 40), st.integers(1, 4), st.integers(0, 5), st.booleans(), st.data())
def test_lists_hold_the_nearest_of_every_fold_and_their_ties(n, width, n_folds, lattice, data):
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    points = rng.integers(0, 3, (n, width)).astype(float) if lattice else rng.normal(size=(n, width))
    folds = rng.integers(0, n_folds, n) if n_folds > 1 else None
    most = data.draw(st.integers(1, n - 1))
    least = data.draw(st.integers(0, n - 1))
    found = NeighborLists.among(points, most, folds, least)
    lists = found.lists
    distances = np.sqrt(((points[:, None] - points[None]) ** 2).sum(axis=2))
    assert np.diff(lists.starts).min() >= least
    if least:
        np.fill_diagonal(distances, np.inf)
        expected = np.median(np.sort(distances, axis=1)[:, least - 1])
        assert np.isclose(found.typical_distance(least), expected)
    for i in range(n):
        who = lists.who[lists.starts[i] : lists.starts[i + 1]]
        listed = np.sqrt(lists.squared[lists.starts[i] : lists.starts[i + 1]])
        assert i not in who
        assert len(set(who.tolist())) == len(who)
        assert np.allclose(listed, distances[i, who])
        assert np.all(np.diff(listed) >= 0)
        for fold in [-1] if folds is None else range(n_folds):
            others = np.array([j for j in range(n) if j != i and (folds is None or folds[j] != fold)], dtype=int)
            limit = np.sort(distances[i, others])[min(most, len(others)) - 1] if len(others) else -1.0
            needed = {int(j) for j in others if distances[i, j] <= limit * (1 - 1e-12)}
            assert needed <= set(who.tolist())


@given(st.lists(st.floats(-5, 5), min_size=12, max_size=12))
def test_walking_downhill_ends_where_no_neighbor_is_lower(values):
    grid = np.array(values).reshape(3, 4)
    asked = []

    def loss(place):
        asked.append(place)
        return grid[place]

    row, column = descend_grid(3, 4, loss)
    assert len(asked) == len(set(asked))
    beside = [(row + a, column + b) for a, b in ((-1, 0), (1, 0), (0, -1), (0, 1))]
    assert all(grid[row, column] <= grid[at] for at in beside if 0 <= at[0] < 3 and 0 <= at[1] < 4)


@pytest.mark.parametrize(("score", "localizer"), [(vc.LAC(), None), (vc.APS(), vc.Uniform(0.2))], ids=str)
def test_the_standard_error_is_the_deviation_over_draws(score, localizer):
    sizes, errors = [], []
    for seed in range(150):
        outputs, labels = classification_rows(300, seed=seed)
        space = vc.Space(
            score=[score],
            probability_model=[None],
            representation_map=[None],
            localizer=[localizer or vc.Uniform(None)],
        )
        report = vc.tune(outputs, labels, 0.8, strategy=vc.Grid(space), seed=seed)
        one = next(c for c in report.candidates if c.everyone == (localizer is None))
        sizes.append(one.size)
        errors.append(one.standard_error)
    ratio = np.std(sizes, ddof=1) / np.mean(errors)
    assert 0.75 < ratio < 1.3  # a deviation over 150 draws is known to about 6 %


def test_the_same_seed_gives_the_same_report_and_rows_are_not_changed():
    outputs, labels = classification_rows(200, seed=1)
    before = outputs.logits.copy(), outputs.representations.copy(), labels.copy()
    one, other = (vc.tune(outputs, labels, 0.8, strategy=vc.Grid(FEW), seed=7) for _ in range(2))
    assert [c.size for c in one.candidates] == [c.size for c in other.candidates]
    assert str(one) == str(other)
    for array, kept in zip((outputs.logits, outputs.representations, labels), before, strict=True):
        assert np.array_equal(array, kept)


def test_the_report_holds_every_candidate_and_its_settings_calibrate():
    outputs, labels = classification_rows(260, seed=2)
    report = vc.tune(outputs[:200], labels[:200], 0.8, strategy=vc.Grid(FEW))
    neighborhoods_each = 2 * 2 * 2  # shares, weights, maps
    assert len(report.candidates) == 2 * 3 * (1 + neighborhoods_each)
    assert [c.size for c in report.candidates] == sorted(c.size for c in report.candidates)
    assert report.winner in report.candidates
    assert report.everyone in report.candidates
    assert report.winner.name in str(report)
    for candidate in report.candidates[:: len(report.candidates) // 7]:
        predictor = vc.calibrate(outputs[200:], labels[200:], 0.8, **candidate.settings)
        assert predictor.predict(outputs[:5]).members.shape == (5, 5)


def test_the_frontier_is_what_nobody_beats():
    outputs, labels = classification_rows(300, seed=3)
    report = vc.tune(outputs, labels, 0.8, strategy=vc.Grid(FEW))
    frontier = report.frontier
    for candidate in report.candidates:
        beaten = any(f.size <= candidate.size and f.worst_tenth >= candidate.worst_tenth for f in frontier)
        assert beaten
    for one, other in itertools.pairwise(frontier):
        assert one.size <= other.size
        assert one.worst_tenth < other.worst_tenth


def test_where_the_neighborhood_means_nothing_everyone_wins_mostly():
    wins = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        logits = rng.normal(size=(300, 4))
        labels = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
        outputs = vc.ModelOutputs.from_logits(logits, rng.normal(size=(300, 3)))
        space = vc.Space(score=[vc.LAC()], probability_model=[None], representation_map=[None])
        wins += vc.tune(outputs, labels, 0.8, strategy=vc.Grid(space), seed=seed).winner.everyone
    assert wins >= 14


def test_where_the_noise_is_local_a_neighborhood_wins_and_shortens_intervals():
    by_name, targets = regression_rows(900, seed=8)
    outputs = by_name["AbsoluteResidual"]
    space = vc.Space(score=[vc.AbsoluteResidual()])
    report = vc.tune(outputs[:500], targets[:500], 0.9, strategy=vc.Grid(space))
    assert not report.winner.everyone
    assert report.winner.saving > report.winner.saving_error
    full = vc.tune(outputs[:500], targets[:500], 0.9)
    assert isinstance(full.winner.score, vc.ScaledResidual)
    assert full.winner.size < report.everyone.size


class Shifted(RepresentationMap):
    def formula(self, xp, representations):
        return representations + 1.0


def test_a_bound_on_the_worst_tenth_is_kept_or_the_closest_is_named():
    outputs, labels = classification_rows(500, seed=9)
    free = vc.tune(outputs, labels, 0.9, strategy=vc.Grid(FEW))
    gap = 0.91 - max(c.worst_tenth for c in free.candidates)
    bound = vc.tune(outputs, labels, 0.9, strategy=vc.Grid(FEW), objective=vc.DecileGap(gap))
    assert bound.met
    assert bound.winner.worst_tenth >= 0.9 - gap
    assert bound.winner.size >= free.winner.size - 1e-12 or free.winner.everyone
    never = vc.tune(outputs, labels, 0.9, strategy=vc.Grid(FEW), objective=vc.DecileGap(0.001))
    assert not never.met
    assert "The closest is" in never.sentence
    assert never.winner.worst_tenth == max(c.worst_tenth for c in never.candidates)
    classes = vc.tune(outputs, labels, 0.9, strategy=vc.Grid(FEW), objective=vc.ClassGap(0.5))
    assert classes.met


def test_bayesian_search_tries_what_it_is_told_and_repeats_itself():
    outputs, labels = classification_rows(200, seed=1)
    space = vc.Space(representation_map=[None, Shifted()])
    reports = [vc.tune(outputs, labels, 0.8, strategy=vc.Bayesian(trials=25, seed=3, space=space)) for _ in range(2)]
    local = [c for c in reports[0].candidates if not c.everyone]
    assert len(local) == 25
    assert str(reports[0]) == str(reports[1])
    assert all(0.03 <= c.localizer.n_neighbors <= 0.3 for c in local)
    by_name, targets = regression_rows(120, seed=1)
    found = vc.tune(by_name["CQR"], targets, 0.8, strategy=vc.Bayesian(trials=5))
    assert len(found.candidates) == 6


def test_more_rows_than_judge_are_drawn_but_fitted_on():
    outputs, labels = classification_rows(400, seed=1)
    space = vc.Space(score=[vc.LAC()], probability_model=[vc.NeighborVotes.fit], shares=(0.2,), multiples=())
    report = vc.tune(outputs, labels, 0.8, strategy=vc.Grid(space), most_rows=100)
    assert report.rows == 100
    assert len(report.winner.probability_model.voters) == 400


def test_without_representations_neighbors_are_as_hard_and_without_both_it_says_so():
    outputs, labels = classification_rows(100, seed=1)
    bare = vc.ModelOutputs.from_logits(outputs.logits)
    report = vc.tune(bare, labels, 0.8)
    maps = {str(candidate.representation_map) for candidate in report.candidates if not candidate.everyone}
    assert maps == {f"DifficultyMap({one}), fitted" for one in ("Entropy()", "Confidence()", "NaiveSetSize(mass=0.95)")}
    assert len(vc.tune(bare, labels, 0.8, strategy=vc.Bayesian(3)).candidates) > 3
    none = vc.tune(bare, labels, 0.8, strategy=vc.Grid(vc.Space(representation_map=[None])))
    assert all(candidate.everyone for candidate in none.candidates)
    assert any("no representations" in note for note in none.notes)


def test_a_class_without_rows_is_a_note_not_an_error():
    outputs, labels = classification_rows(200, seed=1)
    some = labels != 3
    report = vc.tune(outputs[some], labels[some], 0.8, strategy=vc.Grid(FEW))
    assert any("1 of 5 classes have no tuning row" in note for note in report.notes)


SHORT_PARTS = [*CLASSIFICATION_SCORES, *VIEW_SCORES, *REGRESSION_SCORES, *LOCALIZERS, *METHODS]


@pytest.mark.parametrize("part", SHORT_PARTS, ids=repr)
def test_the_words_for_a_part_hold_its_name_and_all_its_numbers(part):
    words = part_words(part)
    assert words.startswith(type(part).__name__)
    for name, value in part_fields(part).items():
        if isinstance(value, float) or (isinstance(value, int) and name != "seed"):
            assert f"{value:.3g}" in words or str(value) in words


def test_the_words_cover_every_registered_score_and_localizer():
    known = {type(part) for part in SHORT_PARTS}
    own = list_registered((Localizer, ClassificationScore, RegressionScore, Method))
    assert {part for part in own if part.__module__.startswith("vicinal.")} <= known
    found = [localizer_words(one) for one in (vc.Gaussian(50, 2.0), vc.Cauchy(50, 1.0), vc.Uniform(None))]
    assert found == ["Gaussian(50, 2)", "Cauchy(50, 1)", "none"]
    assert score_words(vc.NeverEmpty(vc.RAPS(0.01, 5, seed=3))) == "NeverEmpty(RAPS(0.01, 5, 3))"


BAD = {
    "few rows": (lambda o, y: vc.tune(o[:20], y[:20], 0.9), TooFewRows, "needs at least 30 rows; got 20"),
    "few for the coverage": (lambda o, y: vc.tune(o, y, 0.999), TooFewRows, "at least 1251 rows; got 120"),
    "more neighbors than rows": (
        lambda o, y: vc.tune(o, y, 0.8, strategy=vc.Grid(vc.Space(localizer=[vc.Uniform(500)]))),
        TooFewRows,
        "500 neighbors need at least 500 other rows",
    ),
    "a ball": (lambda o, y: vc.Space(localizer=[vc.Ball(1.0)]), Incompatible, "is a ball"),
    "no list": (lambda o, y: vc.Space(score=vc.LAC()), InvalidArgument, "a list of at least one part"),
    "empty list": (lambda o, y: vc.Space(localizer=[]), InvalidArgument, "a list of at least one part"),
    "a share of 2": (lambda o, y: vc.Space(shares=(2,)), InvalidArgument, "a share must be strictly between 0 and 1"),
    "wrong task": (
        lambda o, y: vc.tune(o, y, 0.8, strategy=vc.Grid(vc.Space(score=[vc.CQR()]))),
        Incompatible,
        "must hold a (classification|regression) score",
    ),
    "objective": (lambda o, y: vc.tune(o, y, 0.8, objective="size"), Incompatible, "objective must be MeanSize"),
    "strategy": (lambda o, y: vc.tune(o, y, 0.8, strategy=FEW), Incompatible, "strategy must be Grid"),
    "outputs": (lambda o, y: vc.tune(o.logits, y, 0.8), Incompatible, "tune needs ModelOutputs"),
    "bound of 2": (lambda o, y: vc.DecileGap(2.0), InvalidArgument, "at_most must be strictly between 0 and 1"),
    "tenths of few rows": (
        lambda o, y: vc.tune(o, y, 0.8, objective=vc.DecileGap(0.1)),
        TooFewRows,
        "at least 200 tuning rows, 20 in each tenth; got 120",
    ),
    "classes of a regression": (
        lambda o, y: vc.tune(regression_rows(120, 1)[0]["CQR"], y, 0.8, objective=vc.ClassGap(0.1)),
        Incompatible,
        "ClassGap is for classifiers",
    ),
    "coverage": (lambda o, y: vc.tune(o, y, 90), InvalidArgument, "0.9, not 90"),
    "no trials": (lambda o, y: vc.Bayesian(trials=0), InvalidArgument, "trials must be a whole number"),
    "votes of the same rows": (
        lambda o, y: vc.tune(o, y, 0.8, strategy=vc.Grid(vc.Space(probability_model=[vc.NeighborVotes.fit(o, y)]))),
        Incompatible,
        "NeighborVotes was fitted on must be other rows",
    ),
    "a fit that fits nothing": (
        lambda o, y: vc.tune(o, y, 0.8, strategy=vc.Grid(vc.Space(probability_model=[lambda a, b: 1]))),
        Incompatible,
        "return a probability model",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_a_sentence(name):
    call, error, words = BAD[name]
    outputs, labels = classification_rows(120, seed=1)
    with pytest.raises(error, match=words):
        call(outputs, labels)


def test_every_search_and_space_is_public():
    assert issubclass(vc.Grid, Strategy)
    assert math.isclose(sum(vc.Space().shares), 0.43)


def test_choosing_among_noise_saves_nothing_and_among_signal_what_it_saves():
    rng = np.random.default_rng(0)
    folds = rng.permutation(500) % 5
    means = []
    for _ in range(40):
        noise = [rng.normal(size=500).astype(np.float32) for _ in range(200)]
        found = ChoiceSaving.of(noise, folds)
        assert max(float(row.mean()) for row in noise) > 1.5 * found.error  # the best looks good
        means.append(found.mean / found.error)
    assert abs(np.mean(means)) < 4 / np.sqrt(40)  # chosen on other rows, it is not
    signal = [*noise, (rng.normal(size=500) + 0.5).astype(np.float32)]
    found = ChoiceSaving.of(signal, folds)
    assert found.mean == pytest.approx(float(signal[-1].mean()), abs=1e-6)


def test_the_excess_risk_of_a_candidate_is_that_of_its_tenths():
    rng = np.random.default_rng(4)
    tenths = np.repeat(np.arange(10), 400)
    shares = rng.uniform(0.7, 1.0, 10)
    estimates = []
    for _ in range(200):
        covered = rng.random(4000) < shares[tenths]
        judged = Judged(0.9, np.ones((4000, 3)), np.stack([covered] * 3, axis=1), tenths, None)
        estimates.append(judged.excess_risk)
    known = np.mean((shares - 0.9) ** 2)
    assert abs(np.mean(estimates) - known) < 4 * np.std(estimates) / np.sqrt(200)
    few = Judged(0.9, np.ones((20, 3)), np.ones((20, 3), bool), np.arange(20) % 10, None)
    assert few.excess_risk is None
    assert vc.ExcessRisk(0.005).excess(few) == 0
    assert vc.ExcessRisk(0.005).excess(judged) == pytest.approx(max(0, judged.excess_risk - 0.005))


def test_an_objective_of_excess_risk_is_met():
    outputs, labels = classification_rows(400, seed=2)
    loose = vc.tune(outputs, labels, 0.8, strategy=vc.Grid(FEW), objective=vc.ExcessRisk(0.5))
    tight = vc.tune(outputs, labels, 0.8, strategy=vc.Grid(FEW), objective=vc.ExcessRisk(0.002))
    assert loose.winner.size <= tight.winner.size
    assert tight.winner.excess_risk <= loose.winner.excess_risk
    with pytest.raises(vc.TooFewRows, match="ExcessRisk needs at least 200 tuning rows"):
        vc.tune(outputs[:100], labels[:100], 0.8, objective=vc.ExcessRisk(0.01))
