"""Rows with several views: view 0 is the input itself, and the other views matter only to parts that read them."""

from __future__ import annotations

import math

import array_api_compat.numpy
import numpy as np
import pytest

import vicinal as vc
from tests.instances import CLASSIFICATION_SCORES, METHODS, VIEW_SCORES, view_rows
from vicinal.outputs import stack_outputs
from vicinal.probability_models.model import softmax_rows
from vicinal.scores.uniforms import row_uniforms


def test_slices_masks_and_stacks_keep_the_views():
    outputs, _ = view_rows(20, 0)
    assert repr(outputs[3:5]) == "ClassificationOutputs(2 x 4 views x 5 float64 logits, 2 x 3 float64 representations)"
    halves = stack_outputs([outputs[:7], outputs[np.arange(7, 20)]])
    assert np.array_equal(halves.logits, outputs.logits)
    assert (len(outputs), outputs.n_views, outputs.n_classes) == (20, 4, 5)
    assert outputs.view(0).n_views == 1
    assert np.array_equal(outputs.view(2).given, outputs.logits[:, 2])
    one = vc.ModelOutputs.from_logits(outputs.logits[:, :1])
    assert (one.n_views, one.has_views, outputs.view(0).has_views) == (1, True, False)


def test_representations_of_views_are_averaged_row_by_row():
    rng = np.random.default_rng(1)
    logits, places = rng.normal(size=(50, 10, 3)), rng.normal(size=(50, 10, 1)).astype(np.float32)
    whole = vc.ModelOutputs.from_logits(logits, places).representations
    assert whole.dtype == np.float32
    assert np.allclose(whole, places.mean(axis=1))
    single = [vc.ModelOutputs.from_logits(logits[i : i + 1], places[i : i + 1]).representations for i in range(50)]
    assert np.array_equal(whole, np.concatenate(single))
    assert np.array_equal(vc.ModelOutputs.from_logits(logits, places[:, 0]).representations, places[:, 0])


@pytest.mark.parametrize("score", CLASSIFICATION_SCORES, ids=repr)
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_uniforms_and_scores_are_those_of_the_input_itself(score, dtype):
    outputs, labels = view_rows(60, 2, dtype=dtype)
    assert np.array_equal(row_uniforms(outputs, 3), row_uniforms(outputs.view(0), 3))
    predictor = vc.calibrate(outputs[:40], labels[:40], 0.8, score=score, method=vc.Split())
    plain = vc.calibrate(outputs.view(0)[:40], labels[:40], 0.8, score=score, method=vc.Split())
    for rows in (outputs[40:], outputs[40:].view(0)):
        assert np.array_equal(predictor.predict(rows).members, plain.predict(rows.view(0)).members)
        assert np.array_equal(predictor.p_values(rows), plain.p_values(rows))


@pytest.mark.parametrize("method", METHODS, ids=repr)
def test_probabilities_with_views(method):
    outputs, labels = view_rows(80, 3)
    given = np.exp(outputs.logits) / np.exp(outputs.logits).sum(axis=2, keepdims=True)
    rows = vc.ModelOutputs.from_probabilities(given, outputs.representations)
    predictor = vc.calibrate(rows[:60], labels[:60], 0.8, localizer=vc.Uniform(10), method=method)
    plain = vc.calibrate(rows.view(0)[:60], labels[:60], 0.8, localizer=vc.Uniform(10), method=method)
    assert np.array_equal(predictor.predict(rows[60:]).members, plain.predict(rows.view(0)[60:]).members)


def test_a_row_is_recognized_with_and_without_its_other_views():
    outputs, labels = view_rows(60, 4)
    with pytest.raises(vc.Incompatible, match="same"):
        vc.calibrate(
            outputs, labels, 0.8, localizer=vc.Uniform(5), method=vc.SplitReference(rows=(outputs.view(0), labels))
        )


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: vc.ModelOutputs.from_logits([[[1, 2], [1, 2]], [[1, 2]]]), "same views of every row; row 1 has 1"),
        (lambda: vc.ModelOutputs.from_logits(np.zeros((2, 0, 3))), "at least one view"),
        (lambda: vc.ModelOutputs.from_logits(np.zeros((2, 2, 1))), "at least two classes"),
        (lambda: vc.ModelOutputs.from_logits(np.zeros((2, 2, 2, 2))), "axes"),
        (lambda: vc.ModelOutputs.from_logits(np.zeros((2, 3, 4)), np.zeros((2, 2, 4))), "the logits have 3 views"),
        (lambda: vc.ModelOutputs.from_logits(np.zeros((2, 4)), np.zeros((2, 2, 4))), "the logits have no views"),
        (lambda: vc.ModelOutputs.from_logits(np.array([[[0, 1], [0, np.nan]]])), "row 0, view 1, column 1 holds nan"),
        (lambda: vc.ModelOutputs.from_probabilities([[[0.5, 0.5], [0.5, 0.6]]]), "view 1 of row 0 sums to 1.1"),
        (lambda: vc.ModelOutputs.from_logits(np.zeros((2, 3, 4))).view(3), "from 0 to 2"),
    ],
)
def test_bad_views(make, words):
    with pytest.raises(vc.VicinalError, match=words):
        make()


FITTING, LABELS = view_rows(300, 5)


@pytest.mark.parametrize("mean", [vc.MeanProbabilities(), vc.MeanLogits()], ids=repr)
def test_the_average_is_its_formula(mean):
    outputs, _ = view_rows(30, 6)
    weights, temperature = (0.5, 0.0, 0.3, 0.2), 1.7
    found = vc.ViewAverage(weights, temperature, mean).apply(outputs)
    scaled = outputs.logits / temperature
    if mean == vc.MeanLogits():
        expected = softmax_rows(np.tensordot(scaled, weights, axes=(1, 0)), 1.0)
    else:
        raised = np.exp(scaled)
        expected = np.tensordot(raised / raised.sum(axis=2, keepdims=True), weights, axes=(1, 0))
    assert np.allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize("mean", [vc.MeanProbabilities(), vc.MeanLogits()], ids=repr)
def test_fitted_weights_have_the_largest_likelihood(mean):
    loss, weights, temperature = mean.fit(FITTING.logits, LABELS)

    def loss_of(weights, temperature):
        found = vc.ViewAverage(tuple(weights / weights.sum()), temperature, mean).apply(FITTING)
        return -np.log(found[np.arange(len(LABELS)), LABELS]).mean()

    assert loss_of(weights, temperature) == pytest.approx(loss, abs=1e-9)
    rng = np.random.default_rng(0)
    for _ in range(200):
        other = np.maximum(weights + rng.normal(0, 0.1, len(weights)), 0)
        assert loss_of(other, temperature * np.exp(rng.normal(0, 0.1))) > loss - 1e-4
    assert loss_of(np.array([1.0, 0, 0, 0]), vc.TemperatureScaling.fit(FITTING, LABELS).temperature) > loss
    assert weights.min() >= 0


def test_few_views_are_chosen_one_by_one():
    fitted = vc.ViewAverage.fit(FITTING, LABELS, most_views=3)
    assert fitted.order[0] == 0
    assert len(set(fitted.order)) == 3
    assert list(fitted.losses) == sorted(fitted.losses, reverse=True)
    assert set(fitted.needed) <= set(fitted.order)
    alone = vc.ViewAverage.fit(FITTING, LABELS, most_views=1)
    temperature = vc.TemperatureScaling.fit(FITTING, LABELS).temperature
    assert alone.weights == (1.0, 0.0, 0.0, 0.0)
    assert alone.temperature == pytest.approx(temperature, rel=1e-2)
    assert np.allclose(fitted.compact().apply(_keep(FITTING, fitted.needed)), fitted.apply(FITTING))
    whole = vc.ViewAverage.fit(FITTING, LABELS)
    assert (whole.order, whole.losses) == ((), ())


def _keep(outputs, views):
    return vc.ModelOutputs.from_logits(outputs.logits[:, list(views)], outputs.representations)


def test_votes_follow_views_in_a_chain():
    chain = vc.ProbabilityChain.fit(FITTING, LABELS)
    views, votes = chain.parts
    plain = vc.ModelOutputs.from_probabilities(views.apply(FITTING), FITTING.representations)
    assert np.array_equal(chain.apply(FITTING), votes.apply(plain))
    assert np.array_equal(chain.apply_left_out(FITTING), votes.apply_left_out(plain))
    assert not np.allclose(chain.apply_left_out(FITTING), chain.apply(FITTING))
    own = np.arange(len(LABELS)), LABELS
    left_out = -np.log(chain.apply_left_out(FITTING)[own]).mean()
    assert left_out < -np.log(views.apply(FITTING)[own]).mean()
    with pytest.raises(vc.Incompatible, match="ProbabilityChain"):  # the voting rows must not be calibration rows
        vc.calibrate(FITTING, LABELS, 0.8, probability_model=chain, method=vc.Split())


@pytest.mark.parametrize("method", METHODS, ids=repr)
def test_a_predictor_with_views_is_saved_and_does_not_depend_on_the_batch(method, tmp_path):
    chain = vc.ProbabilityChain.fit(FITTING, LABELS)
    outputs, labels = view_rows(120, 7)
    predictor = vc.calibrate(
        outputs[:80], labels[:80], 0.8, score=vc.APS(), localizer=vc.Uniform(9), probability_model=chain, method=method
    )
    whole = predictor.predict(outputs[80:])
    single = [predictor.predict(outputs[i : i + 1]) for i in range(80, 120)]
    assert np.array_equal(whole.members, np.concatenate([one.members for one in single]))
    assert np.array_equal(whole.confidences, np.concatenate([one.confidences for one in single]))
    predictor.save(tmp_path / "x.vicinal")
    again = vc.load(tmp_path / "x.vicinal")
    assert np.array_equal(again.predict(outputs[80:]).members, whole.members)
    assert again.probability_model.parts[0] == chain.parts[0]
    tight = predictor.predict(outputs[80:], memory=1)
    assert np.array_equal(tight.members, whole.members)


def test_tune_tries_views_where_rows_have_them():
    outputs, labels = view_rows(400, 8)
    space = vc.Space(score=[vc.LAC()], shares=(0.3,), multiples=(), bandwidths=(), representation_map=[None])
    report = vc.tune(outputs, labels, 0.8, strategy=vc.Grid(space))
    tried = {type(one.probability_model).__name__ for one in report.candidates}
    assert tried == {"NoneType", "TemperatureScaling", "NeighborVotes", "ViewAverage", "ProbabilityChain"}
    assert "ViewAverage, then NeighborVotes" in str(report)
    assert type(report.winner.probability_model) in (vc.ViewAverage, vc.ProbabilityChain)
    plain = vc.tune(outputs.view(0), labels, 0.8, strategy=vc.Grid(space))
    assert {type(one.probability_model) for one in plain.candidates} <= {
        type(None),
        vc.TemperatureScaling,
        vc.NeighborVotes,
    }


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: vc.ViewAverage.fit(FITTING.view(0), LABELS), "two views of each row or more; these rows have one"),
        (lambda: vc.ViewAverage.fit(FITTING, LABELS, most_views=5), "most_views must be a whole number from 1 to 4"),
        (lambda: vc.ViewAverage.fit(FITTING[:0], LABELS[:0]), "at least one row"),
        (lambda: vc.ViewAverage.fit(FITTING, LABELS + 9), "row 0 holds"),
        (lambda: vc.ViewAverage((0.5, 0.4), 1.0, vc.MeanLogits()), "sum to one"),
        (lambda: vc.ViewAverage((1.5, -0.5), 1.0, vc.MeanLogits()), "none negative"),
        (lambda: vc.ViewAverage((), 1.0, vc.MeanLogits()), "sum to one"),
        (lambda: vc.ViewAverage((1.0,), 0.0, vc.MeanLogits()), "temperature"),
        (lambda: vc.ViewAverage((1.0, 0.0), 1.0, vc.MeanLogits()).apply(FITTING), "must have 2 views of each row"),
        (lambda: vc.ViewAverage((1.0, 0.0), 1.0, vc.MeanLogits()).apply(FITTING.view(0)), "2 views.*; got 1"),
        (lambda: vc.ProbabilityChain((vc.TemperatureScaling(1.0),)), "two fitted probability models or more; got 1"),
        (lambda: vc.ProbabilityChain((vc.TemperatureScaling(1.0), vc.LAC())), r"got LAC\(\)"),
        (
            lambda: vc.ProbabilityChain((vc.TemperatureScaling(1.0), vc.ViewAverage((1.0,), 1.0, vc.MeanLogits()))),
            "move ViewAverage to the front",
        ),
        (
            lambda: vc.ProbabilityChain((vc.NeighborVotes.fit(FITTING, LABELS), vc.TemperatureScaling(1.0))),
            "move NeighborVotes to the end",
        ),
        (
            lambda: vc.ProbabilityChain((vc.ProbabilityChain.fit(FITTING, LABELS), vc.TemperatureScaling(1.0))),
            "another chain",
        ),
    ],
)
def test_bad_models_of_views(make, words):
    with pytest.raises(vc.VicinalError, match=words):
        make()


def test_views_in_calibration_but_not_in_prediction_are_refused():
    model = vc.ViewAverage.fit(FITTING, LABELS)
    outputs, labels = view_rows(80, 9)
    predictor = vc.calibrate(outputs, labels, 0.8, probability_model=model, method=vc.Split())
    with pytest.raises(
        vc.ShapeMismatch, match="outputs must have 4 views of each row, as in the fit of ViewAverage; got 1"
    ):
        predictor.predict(outputs.view(0))


@pytest.mark.parametrize("share", [0.1, 0.25, 0.3, 0.5, 0.7, 0.75, 1.0, 1])
def test_the_rank_is_computed_exactly(share):
    for views in range(1, 41):
        assert vc.OverViews(vc.LAC(), share).rank(views) == -(-round(100 * share) * views // 100)


@pytest.mark.parametrize("score", VIEW_SCORES, ids=repr)
def test_a_label_scores_by_a_share_of_its_views(score):
    outputs, labels = view_rows(40, 10)
    given = np.stack([softmax_rows(np.ascontiguousarray(outputs.logits[:, view]), 1.0) for view in range(4)], axis=1)
    uniforms = row_uniforms(outputs, score.seed)
    each = np.stack(
        [score.score.score_all(np.ascontiguousarray(given[:, view]), uniforms) for view in range(4)], axis=1
    )
    expected = np.sort(each, axis=1)[:, math.ceil(score.share * 4) - 1]
    xp = array_api_compat.numpy
    assert np.array_equal(score.score_all(given, uniforms), expected)
    assert np.array_equal(score.formula(xp, given, uniforms), expected)
    own = expected[np.arange(40), labels]
    assert np.array_equal(score.score_labels(given, uniforms, labels), own)
    for thresholds in (own, np.nextafter(own, -np.inf)):
        assert np.array_equal(score.find_members(xp, given, uniforms, thresholds), expected <= thresholds[:, None])


@pytest.mark.parametrize("method", METHODS, ids=repr)
@pytest.mark.parametrize("score", VIEW_SCORES, ids=repr)
def test_predictors_over_views(method, score, tmp_path):
    outputs, labels = view_rows(120, 11)
    model = vc.NeighborVotes.fit(FITTING, LABELS)
    predictor = vc.calibrate(
        outputs[:80], labels[:80], 0.8, score=score, localizer=vc.Uniform(9), probability_model=model, method=method
    )
    test = outputs[80:]
    sets = predictor.predict(test)
    assert np.array_equal(sets.members, predictor.label_scores(test)[1] <= sets.thresholds[:, None])
    assert np.array_equal(sets.members[3:4], predictor.predict(test[3:4]).members)
    assert np.array_equal(predictor.predict(test, memory=1).members, sets.members)
    if not isinstance(method, vc.PaperLiteral):
        m, n = predictor.guarantee.order, predictor.guarantee.n
        assert np.array_equal(predictor.p_values(test) > (n + 1 - m) / (n + 1), sets.members)
    single = predictor.predict(test.view(2))
    assert single.members.shape == sets.members.shape
    predictor.save(tmp_path / "x.vicinal")
    again = vc.load(tmp_path / "x.vicinal")
    assert np.array_equal(again.predict(test).members, sets.members)
    assert again.score.views == 4
    assert "of the 4 views" in str(again.guarantee)


def test_the_guarantee_names_the_coverage_of_a_single_view():
    outputs, labels = view_rows(99, 12)
    predictor = vc.calibrate(outputs, labels, 0.9, score=vc.OverViews(vc.LAC(), 0.6), method=vc.Split())
    assert "at least 3 of the 4 views" in str(predictor.guarantee)
    assert "at least 0.9000 * 3/4 = 0.6750" in str(predictor.guarantee)
    assert "0.8000 * 3/4 = 0.6000" in str(predictor.at(0.8).guarantee)


def test_a_single_view_drawn_at_random_is_covered_often_enough():
    outputs, labels = view_rows(20_000, 13)
    predictor = vc.calibrate(outputs[:2000], labels[:2000], 0.9, score=vc.OverViews(vc.LAC(), 1.0), method=vc.Split())
    views = np.random.default_rng(0).integers(4, size=18_000)
    rows = vc.ModelOutputs.from_logits(outputs.logits[2000:][np.arange(18_000), views])
    assert vc.evaluate(predictor.predict(rows), labels[2000:]).coverage > 0.89
    plain = vc.calibrate(outputs[:2000], labels[:2000], 0.9, score=vc.LAC(), method=vc.Split())
    assert vc.evaluate(plain.predict(rows), labels[2000:]).coverage < 0.88


def test_tune_compares_scores_over_views():
    outputs, labels = view_rows(400, 14)
    scores = [vc.OverViews(vc.LAC(), 0.6), vc.OverViews(vc.APS(), 0.6)]
    space = vc.Space(score=scores, shares=(0.3,), multiples=(), bandwidths=(), representation_map=[None])
    report = vc.tune(outputs, labels, 0.8, strategy=vc.Grid(space))
    assert {type(one.probability_model).__name__ for one in report.candidates} == {
        "NoneType",
        "TemperatureScaling",
        "NeighborVotes",
    }
    predictor = vc.calibrate(*(part[:200] for part in view_rows(200, 15)), 0.8, **report.settings)
    assert predictor.score.views == 4


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: vc.OverViews(vc.AbsoluteResidual(), 0.5), "OverViews wraps a score of one view"),
        (lambda: vc.OverViews(vc.OverViews(vc.LAC(), 0.5), 0.5), "OverViews wraps a score of one view"),
        (lambda: vc.NeverEmpty(vc.OverViews(vc.LAC(), 0.5)), "put it inside"),
        (lambda: vc.OverViews(vc.LAC(), 0), "share must be a number above 0 and at most 1"),
        (lambda: vc.OverViews(vc.LAC(), 1.5), "share must be a number above 0 and at most 1"),
        (lambda: vc.OverViews(vc.LAC(), 0.5, 0), "views must be a whole number"),
        (
            lambda: vc.calibrate(
                *view_rows(80, 9),
                0.8,
                score=vc.OverViews(vc.LAC(), 0.5),
                probability_model=vc.ViewAverage.fit(FITTING, LABELS),
                method=vc.Split(),
            ),
            "scores each view apart; leave out",
        ),
    ],
)
def test_bad_scores_over_views(make, words):
    with pytest.raises(vc.VicinalError, match=words):
        make()


def test_other_numbers_of_views_are_refused():
    outputs, labels = view_rows(80, 9)
    predictor = vc.calibrate(outputs, labels, 0.8, score=vc.OverViews(vc.LAC(), 0.5), method=vc.Split())
    fewer, new = view_rows(20, 16, views=3)
    with pytest.raises(vc.ShapeMismatch, match="4 views of each row, or one, as in calibration; got 3"):
        predictor.predict(fewer)
    with pytest.raises(vc.ShapeMismatch, match="4 views of each row as in calibration; got 1"):
        vc.roll(predictor, fewer.view(0), new)


@pytest.mark.parametrize("parts", ["chain", "over views"])
def test_difficulty_maps_read_the_probabilities_of_views(parts):
    outputs, labels = view_rows(240, 17)
    model = vc.ProbabilityChain.fit(FITTING, LABELS) if parts == "chain" else None
    score = vc.LAC() if parts == "chain" else vc.OverViews(vc.LAC(), 0.6)
    hard = vc.DifficultyMap(vc.Entropy()).fit(FITTING, LABELS, model)
    predictor = vc.calibrate(
        outputs[:200],
        labels[:200],
        0.8,
        score=score,
        localizer=vc.Uniform(50),
        representation_map=hard,
        probability_model=model,
    )
    sets = predictor.predict(outputs[200:])
    assert np.array_equal(sets.thresholds, predictor.thresholds(outputs[200:]))
    single = [predictor.predict(outputs[i : i + 1]).members for i in range(200, 240)]
    assert np.array_equal(sets.members, np.concatenate(single))
    torch = pytest.importorskip("torch")
    from vicinal.torch import ConformalModule

    module = ConformalModule(
        torch.nn.Flatten(), predictor, layer=None if parts == "over views" else lambda x: x, views=[len] * 3
    )
    tables = torch.from_numpy(outputs.logits[200:]), torch.from_numpy(outputs.representations[200:])
    found = module.sets_of(*tables)
    assert np.array_equal(found.mask.numpy(), sets.members)
