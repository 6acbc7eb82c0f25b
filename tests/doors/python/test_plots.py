"""Plots return Axes, or with plotly figures of the same numbers; what cannot be drawn is said in a sentence."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import vicinal as vc
from tests.doors.page.test_report import classified, hard, regressed
from vicinal.reporting import charts, gather_report, plots

pytest.importorskip("matplotlib", reason="plots need vicinal[plots]")
pytest.importorskip("plotly", reason="plots need vicinal[plots]")
interactive = vc.plots.interactive


def public(module):
    return {
        name
        for name, one in vars(module).items()
        if inspect.isfunction(one) and one.__module__ == module.__name__ and not name.startswith("_")
    }


def test_every_plot_has_a_figure():
    assert public(interactive) == public(plots) - {"static", "new_axes", "finish", "save"}
    for name in public(interactive):
        ours, theirs = (list(inspect.signature(getattr(one, name)).parameters) for one in (interactive, plots))
        assert ours == [parameter for parameter in theirs if parameter != "ax"]


def trace(figure, name):
    return next(one for one in figure.data if one.name == name)


def line(axes, name):
    return next(one for one in axes.get_lines() if one.get_label() == name)


def test_both_show_the_same_numbers():
    predictor, outputs, labels = classified()
    axes, figure = (one.plot_coverage(predictor, outputs, labels) for one in (plots, interactive))
    for name in ("measured coverage", "target"):
        np.testing.assert_array_equal(line(axes, name).get_ydata(), trace(figure, name).y)
    assert axes.get_xlabel() == figure.layout.xaxis.title.text
    axes, figure = (one.plot_reliability(predictor, outputs, labels, 4) for one in (plots, interactive))
    for name in ("coverage of the sets", "accuracy of the top label"):
        np.testing.assert_array_equal(line(axes, name).get_xdata(), trace(figure, name).x)
        np.testing.assert_array_equal(line(axes, name).get_ydata(), trace(figure, name).y)
    found = vc.evaluate(predictor.predict(outputs), labels, groups=np.arange(len(outputs)) % 3)
    figure = interactive.plot_groups(found)
    assert list(figure.data[0].y) == [text.get_text() for text in plots.plot_groups(found).get_yticklabels()]
    assert list(figure.data[0].x) == [group.coverage for group in found.by_group]
    curves = {"Split, LAC": [found, found]}
    assert list(interactive.size_against_coverage(curves).data[0].y) == [found.mean_size] * 2
    shares = [group.coverage for group in found.by_confidence]
    assert list(interactive.coverage_by_confidence({"Split, LAC": found}).data[0].y) == shares


def test_intervals_are_drawn_with_their_misses():
    predictor, outputs, targets = regressed()
    intervals = predictor.predict(outputs)
    feature = np.arange(float(len(outputs)))
    figure = interactive.plot_intervals(intervals, feature, targets)
    covered = intervals.covers(targets)
    np.testing.assert_array_equal(trace(figure, "outside").x, feature[~covered])
    np.testing.assert_array_equal(np.asarray(trace(figure, "interval").y)[0::3], intervals.lower)
    np.testing.assert_array_equal(np.asarray(trace(figure, "interval").y)[1::3], intervals.upper)
    assert [one.name for one in interactive.plot_intervals(intervals, feature).data] == ["interval"]


@pytest.mark.parametrize("make", [classified, regressed])
def test_what_a_report_shows_without_a_folder(make):
    predictor, outputs, targets = make()
    data = gather_report(predictor, outputs, targets, rows=5)
    drawn = plots.static(data)
    assert {"sizes", "size_against_target", "map"} <= set(drawn)
    assert all(axes.get_xlabel() or name == "map" for name, axes in drawn.items())
    bars = interactive.size_histogram(data)
    assert [list(one.y) for one in bars.data] == [list(data["sizes"][name]) for name in ("split", "neighborhood")]
    curve = interactive.against_target(data, "size")
    assert list(curve.data[1].y) == list(data["curve"]["neighborhood"]["size"])
    assert len(interactive.against_target(data, "coverage").data) == 3
    assert len(interactive.coverage_in_groups(data["tenths"], data).data) == 2
    assert len(interactive.landscape(data["map"]).data[0].x) == len(data["map"]["x"])
    if data["classes"] is not None:
        shares = interactive.coverage_in_groups(data["classes"], data).data[1].y
        assert len(shares) <= charts.MANY or list(shares) == sorted(shares)
    if data["frontier"] is not None:
        assert [one.name for one in interactive.tuning_frontier(data["frontier"]).data][-1] == "chosen"


@pytest.mark.parametrize("score", [vc.LAC(), vc.NeverEmpty(vc.LAC())], ids=repr)
def test_thresholds_by_difficulty_show_the_same_numbers(score):
    plan = vc.DifficultyMap(vc.Confidence(), vc.Entropy(), vc.NaiveSetSize())
    data = gather_report(*hard(plan, score=score), rows=30)
    assert {"difficulty", "difficulty_2"} <= set(plots.static(data))
    found = data["difficulty"]
    for number, name in enumerate(("confidence", "entropy")):
        axes, figure = (one.thresholds_by_difficulty(found, number) for one in (plots, interactive))
        middle = "median of calibration rows"
        np.testing.assert_array_equal(line(axes, middle).get_xdata(), trace(figure, middle).x)
        np.testing.assert_array_equal(line(axes, middle).get_ydata(), trace(figure, middle).y)
        assert len(trace(figure, "calibration row").x) == 200
        assert len(trace(figure, "test row").x) == 30
        assert (
            axes.get_xlabel()
            == figure.layout.xaxis.title.text
            == f"rank of the {name} among the tuning rows, in percent"
        )
    for module in (plots, interactive):
        with pytest.raises(vc.InvalidArgument, match="coordinate"):
            module.thresholds_by_difficulty(found, 2)
        with pytest.raises(vc.Incompatible, match="None unless the predictor has a difficulty map"):
            module.thresholds_by_difficulty(None)


@pytest.mark.parametrize("module", [plots, interactive])
def test_what_cannot_be_drawn_is_said(module):
    predictor, outputs, labels = classified()
    regressor, rows, targets = regressed()
    sets = predictor.predict(outputs)
    for call, words in (
        (
            lambda: module.plot_intervals(sets, np.arange(len(sets))),
            "plot_intervals draws the intervals.*got Pred",
        ),
        (lambda: module.plot_reliability(regressor, rows, targets), "needs a SetPredictor.*got IntervalPredictor"),
        (lambda: module.plot_coverage(sets, outputs, labels), "plot_coverage needs a predictor.*got PredictionSets"),
        (lambda: module.plot_groups(sets), r"what evaluate\(\.\.\., groups=\.\.\.\) returns; got PredictionSets"),
        (lambda: module.plot_groups(vc.evaluate(sets, labels)), "no groups to draw"),
    ):
        with pytest.raises(vc.Incompatible, match=words):
            call()
