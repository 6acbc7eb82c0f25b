"""Answers are pleasant: rows, loops, data frames, and a view in a notebook."""

from __future__ import annotations

from html.parser import HTMLParser

import numpy as np
import pytest

import vicinal as vc
from tests.instances import classification_rows, regression_rows


class Checker(HTMLParser):
    """Finds tags that are not closed, and anything that a browser would run."""

    def __init__(self):
        super().__init__()
        self.open, self.words = [], []

    def handle_starttag(self, tag, attrs):
        assert tag in {"table", "caption", "tr", "th", "td", "p", "b", "div"}
        assert all(name == "style" for name, _ in attrs)
        self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)


def check_html(shown):
    checker = Checker()
    checker.feed(shown._repr_html_())
    assert checker.open == []
    return " ".join(checker.words)


@pytest.fixture(scope="module")
def predictor():
    outputs, labels = classification_rows(300, seed=0)
    named = vc.ModelOutputs.from_logits(
        outputs.logits, outputs.representations, class_names=["<b>ant", *"bcde"][: outputs.n_classes]
    )
    return vc.calibrate(named[:200], labels[:200], 0.8, localizer=vc.Uniform(20)), named[200:], labels[200:]


def test_every_answer_has_a_view(predictor):
    found, outputs, labels = predictor
    sets = found.predict(outputs)
    assert "<b>ant" in check_html(sets)
    assert "and 90 more rows" in check_html(sets)
    by_name, targets = regression_rows(200, seed=0)
    rows = by_name["AbsoluteResidual"]
    intervals = vc.calibrate(rows[:100], targets[:100], 0.8, localizer=vc.Uniform(10))
    assert "lower" in check_html(intervals.predict(rows[100:]))
    assert "coverage" in check_html(vc.evaluate(sets, labels, groups=labels))
    assert "probability" in check_html(found.guarantee)
    assert "neighbors" in check_html(found.explain(outputs, row=0))
    assert "thin neighborhoods" in check_html(vc.diagnose(found, outputs, labels))
    assert "candidates" in check_html(vc.tune(outputs, labels, 0.8, progress=False))
    assert "Uniform" in check_html(found)
    assert "Uniform" in check_html(intervals)


def test_empty_sets_are_explained(predictor):
    found, outputs, _ = predictor
    sets = found.predict(outputs)
    some = vc.PredictionSets(np.zeros((3, 5), bool), sets.thresholds[:3], sets.confidences[:3])
    assert repr(some) == "PredictionSets(3 rows of 5 classes, mean size 0, 3 empty)"
    assert "3 sets are empty: no label scores" in check_html(some)
    assert "With score=NeverEmpty(...) no set is ever empty" in check_html(some)
    found = vc.evaluate(some, [0, 1, 2])
    assert "why empty          3 sets are empty" in str(found)
    assert "100.00% empty" in repr(found)


def test_data_frames(predictor):
    found, outputs, _ = predictor
    sets = found.predict(outputs)
    pytest.importorskip("pandas")
    frame = sets.to_pandas()
    assert list(frame.columns) == ["set", "size", "threshold", "confidence"]
    assert frame["set"].tolist() == sets.labels()
    by_name, targets = regression_rows(200, seed=0)
    rows = by_name["AbsoluteResidual"]
    intervals = vc.calibrate(rows[:100], targets[:100], 0.8, localizer=vc.Uniform(10)).predict(rows[100:])
    assert intervals.to_pandas()["upper"].tolist() == intervals.upper.tolist()


def test_polars(predictor):
    found, outputs, _ = predictor
    sets = found.predict(outputs)
    try:
        import polars  # noqa: F401
    except ModuleNotFoundError:
        with pytest.raises(vc.MissingExtra, match="polars"):
            sets.to_polars()
    else:
        assert sets.to_polars()["size"].to_list() == sets.sizes.tolist()


def empty_sets():
    """Rows of a sure model at a low coverage: LAC gives some of them no label."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 900)
    logits = rng.normal(size=(900, 3))
    logits[np.arange(900), labels] += 4
    return vc.ModelOutputs.from_logits(logits), labels


def test_empty_sets_name_the_score_to_calibrate_with():
    outputs, labels = empty_sets()
    predictor = vc.calibrate(outputs[:400], labels[:400], 0.7, score=vc.LAC(), method=vc.Split())
    sets = predictor.predict(outputs[400:])
    assert "With score=NeverEmpty(LAC()) no set is ever empty." in sets.explain_empty()
    assert sets[:3].advice == sets.advice
    assert sets.explain_empty().split()[0] == str(np.sum(sets.sizes == 0))
    again = vc.calibrate(outputs[:400], labels[:400], 0.7, score=vc.NeverEmpty(vc.LAC()), method=vc.Split())
    assert again.predict(outputs[400:]).explain_empty() == ""


def test_empty_intervals_say_why():
    rng = np.random.default_rng(0)
    y = rng.normal(size=400)
    lower = np.where(np.arange(400) % 50 == 0, 3.0, -3.0)
    outputs = vc.ModelOutputs.from_quantiles(lower, np.full(400, 3.0))
    predictor = vc.calibrate(outputs[:200], y[:200], 0.5, method=vc.Split())
    found = predictor.predict(outputs[200:])
    assert repr(found).endswith("4 empty)")
    shown = check_html(found)
    assert "inf" not in shown
    assert "4 intervals are empty: no value scores at or below the threshold" in shown
    assert "why empty          4 intervals are empty" in str(vc.evaluate(found, y[200:]))


def test_reprs_are_one_line(predictor):
    found, outputs, labels = predictor
    sets = found.predict(outputs)
    for one in (vc.evaluate(sets, labels, groups=labels), found.guarantee, found.explain(outputs, row=0)):
        assert "\n" not in repr(one)
        assert len(repr(one)) < 120
        assert repr(one).startswith(type(one).__name__ + "(")
    assert "asked for 0.8" in repr(vc.evaluate(sets, labels))
    assert "probability 0.80" in repr(found.guarantee)
    assert "20 neighbors" in repr(found.explain(outputs, row=0))


def test_a_predictor_names_all_that_acts_locally():
    outputs, labels = classification_rows(400, seed=0)
    votes = vc.NeighborVotes.fit(outputs[:150], labels[:150])
    sets = vc.calibrate(outputs[150:], labels[150:], 0.8, probability_model=votes, localizer=vc.Uniform(None))
    assert "probability_model=NeighborVotes" in repr(sets)
    rows, targets = regression_rows(400, seed=0)
    rows = rows["AbsoluteResidual"]
    score = vc.ScaledResidual(vc.NeighborScales.fit(rows[:150], targets[:150]))
    low = float(targets.min())
    intervals = vc.calibrate(
        rows[150:], targets[150:], 0.8, score=score, localizer=vc.Uniform(None), target_range=(low, None)
    )
    assert "scale=NeighborScales" in repr(intervals)
    assert f"target_range={low:g} to inf" in repr(intervals)
    assert f"{low:g} to inf" in check_html(intervals)


def test_candidates_of_tuning_are_a_table(predictor):
    _, outputs, labels = predictor
    report = vc.tune(outputs, labels, 0.8, progress=False)
    shown = report._repr_html_()
    assert shown.count("<table>") == 1
    rows = str(report).splitlines()
    assert shown.count("<tr>") == rows.index(report.sentence) - 2  # without the heading and the legend
    assert "<td" in shown.split(report.winner.name.split(",")[0])[0]


def test_groups_of_long_intervals_stay_apart():
    intervals = vc.PredictionIntervals(np.zeros(200), np.full(200, 123456.0), np.ones(200), 0.9)
    found = vc.evaluate(intervals, np.ones(200), groups=["a", "a group with a name of more than thirty letters"] * 100)
    assert str(found).splitlines()[-2].split()[:3] == ["a", "100", "1.235e+05"]
    assert "  100  1.235e+05  1.000 (" in str(found).splitlines()[-1].replace("     100", "  100")


def test_evaluate_says_what_it_takes(predictor):
    found, outputs, labels = predictor
    for call in (
        lambda: vc.evaluate(found, outputs, labels),
        lambda: vc.evaluate(found.predict(outputs), labels, outputs),
        lambda: vc.evaluate(found, labels),
    ):
        with pytest.raises(vc.Incompatible, match=r"evaluate\(predictor\.predict\(outputs\), targets, groups=\.\.\.\)"):
            call()


@pytest.mark.parametrize(("groups", "words"), [("hospital", "'hospital'"), ({"a": "b"}, "a must have one.*'b'")])
def test_groups_need_a_value_for_each_row(predictor, groups, words):
    found, outputs, labels = predictor
    with pytest.raises(vc.InvalidValue, match=words):
        vc.evaluate(found.predict(outputs), labels, groups=groups)


def test_numbers_of_numpy_are_shown_as_numbers():
    with pytest.raises(vc.InvalidArgument, match=r"got 0\.0\.$"):
        vc.Exponential(5, np.float64(0.0))
    rows = vc.ModelOutputs.from_predictions(np.arange(40.0), row_ids=np.arange(40) // 2)
    with pytest.raises(vc.InvalidValue, match="; 0 occurs twice"):
        vc.calibrate(rows, np.arange(40.0), 0.8, method=vc.Split())
