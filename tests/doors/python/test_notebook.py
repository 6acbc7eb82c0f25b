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
    assert "calibrate again with score=NeverEmpty(...)" in check_html(some)


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
