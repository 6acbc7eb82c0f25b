"""The functions of `plots` once more, with plotly: each returns a Figure, `figure.write_html("a.html")` saves it.

They take the same arguments, but for `ax`, and show the same numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from vicinal._util.extras import needs
from vicinal.evaluation.metrics import Evaluation
from vicinal.outputs import ClassificationOutputs, ModelOutputs
from vicinal.predictor.predictors import IntervalPredictor, SetPredictor
from vicinal.regions import PredictionIntervals
from vicinal.reporting.charts import (
    COLORS,
    MANY,
    coverage_chart,
    difficulty_chart,
    group_chart,
    group_order,
    interval_chart,
    reliability_chart,
)

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

BOTH = (("split", COLORS[1]), ("neighborhood", COLORS[0]))
"""What a report compares, with its color."""

GRAY = "#7F7F7F"


def plot_intervals(intervals: PredictionIntervals, feature: ArrayLike, targets: ArrayLike | None = None) -> Figure:
    """Draw intervals against a feature.

    Parameters
    ----------
    intervals : PredictionIntervals
        What `predict` returned.
    feature : array-like of shape (n,)
        Where each row stands on the horizontal axis.
    targets : array-like of shape (n,), optional
        The truth: dots, those outside their interval marked.

    Returns
    -------
    Figure
        With a bar for each interval.

    Examples
    --------
    >>> import vicinal as vc
    >>> intervals = vc.PredictionIntervals(np.zeros(3), np.ones(3), np.ones(3))
    >>> [trace.name for trace in vc.plots.interactive.plot_intervals(intervals, [1, 2, 3], [0.5, 0.5, 2.0]).data]
    ['interval', 'target, inside', 'outside']
    """
    chart = interval_chart(intervals, feature, targets)
    gap = np.full(len(chart.places), np.nan)  # lines end there
    ends = np.stack([chart.lower, chart.upper, gap], axis=1).ravel()
    figure = _figure("feature", "target")
    _line(figure, "interval", np.repeat(chart.places, 3), ends, COLORS[0], opacity=0.45)
    for name, points, color, symbol in (
        ("target, inside", chart.inside, "#333333", "circle"),
        ("outside", chart.outside, COLORS[1], "x"),
    ):
        if points is not None:
            figure.add_scatter(name=name, x=points[0], y=points[1], mode="markers", marker=_marker(color, symbol))
    return figure


def plot_groups(evaluation: Evaluation) -> Figure:
    """Draw the coverage of each group, with intervals that hold for all of them together.

    Parameters
    ----------
    evaluation : Evaluation
        What `evaluate(..., groups=...)` returned.

    Returns
    -------
    Figure
        With a point and an error bar for each group.
    """
    chart = group_chart(evaluation)
    figure = _figure("coverage", "")
    reach = {"type": "data", "symmetric": False, "array": chart.up, "arrayminus": chart.down}
    name = "coverage, 95 % for all groups"
    figure.add_scatter(name=name, x=chart.shares, y=chart.names, mode="markers", error_x=reach, marker=_marker())
    figure.update_yaxes(autorange="reversed", type="category")
    if chart.target is not None:
        figure.add_vline(chart.target, line={"dash": "dash", "color": GRAY}, annotation_text=f"target {chart.target:g}")
    return figure


def plot_coverage(
    predictor: SetPredictor | IntervalPredictor,
    outputs: ModelOutputs,
    targets: ArrayLike,
    coverages: Sequence[float] = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95),
) -> Figure:
    """Draw the measured coverage against the target coverage, and the mean size beside it.

    Parameters
    ----------
    predictor : SetPredictor or IntervalPredictor
        What `calibrate` returned.
    outputs : ModelOutputs
        Rows that it was not calibrated on.
    targets : array-like of shape (n,)
        Their truth.
    coverages : sequence of float
        Target coverages.

    Returns
    -------
    Figure
        With the coverage on the left axis and the size on the right one.
    """
    chart = coverage_chart(predictor, outputs, targets, coverages)
    figure = _figure("target coverage", "measured coverage")
    around = [*chart.asked, *chart.asked[::-1]], [*chart.high, *chart.low[::-1]]
    figure.add_scatter(
        name="95 % interval", x=around[0], y=around[1], fill="toself", mode="none", fillcolor="rgba(0, 114, 178, 0.2)"
    )
    _line(figure, "measured coverage", chart.asked, chart.reached, COLORS[0], mode="lines+markers")
    _line(figure, "target", chart.asked, chart.asked, GRAY, dash="dot")
    style = {"mode": "lines+markers", "dash": "dash", "yaxis": "y2"}
    _line(figure, "mean size (right)", chart.asked, chart.sizes, COLORS[1], **style)
    figure.update_layout(yaxis2={"title": {"text": "mean size"}, "overlaying": "y", "side": "right", "showgrid": False})
    figure.update_layout(legend={"x": 0.01, "y": 0.99})
    return figure


def plot_reliability(
    predictor: SetPredictor, outputs: ClassificationOutputs, targets: ArrayLike, parts: int = 10
) -> Figure:
    """Draw how often the model's top label is right, and how often the set contains the truth, against the confidence.

    Parameters
    ----------
    predictor : SetPredictor
        What `calibrate` returned; the probabilities are those after its probability model.
    outputs : ClassificationOutputs
        Rows that it was not calibrated on.
    targets : array-like of shape (n,)
        Their truth.
    parts : int
        Number of about equally large groups of rows, by confidence.

    Returns
    -------
    Figure
        With the accuracy of the model and the coverage of the sets in each group.
    """
    chart = reliability_chart(predictor, outputs, targets, parts)
    figure = _figure("mean confidence of the model", "share of the rows")
    _line(figure, "coverage of the sets", chart.confidence, chart.coverage, COLORS[0], mode="lines+markers")
    style = {"mode": "lines+markers", "dash": "dash"}
    _line(figure, "accuracy of the top label", chart.confidence, chart.accuracy, COLORS[1], **style)
    _line(figure, "confidence = accuracy", [0, 1], [0, 1], GRAY, dash="dot")
    figure.add_hline(chart.target, line={"dash": "dashdot", "color": GRAY}, annotation_text="target coverage")
    return figure


def size_against_coverage(curves: Mapping[str, Sequence[Evaluation]]) -> Figure:
    """Draw mean size against measured coverage, one line per method, one point per target.

    Parameters
    ----------
    curves : mapping of str to sequence of Evaluation
        The evaluations of each method.

    Returns
    -------
    Figure
        With a logarithmic axis of sizes.
    """
    figure = _figure("coverage reached on test rows", "mean set size (log scale)")
    for number, (name, points) in enumerate(curves.items()):
        places, sizes = [one.coverage for one in points], [one.mean_size for one in points]
        _line(figure, name, places, sizes, COLORS[number % len(COLORS)], mode="lines+markers")
    figure.update_yaxes(type="log")
    return figure


def coverage_by_confidence(methods: Mapping[str, Evaluation]) -> Figure:
    """Draw coverage in each tenth of the rows, from the least to the most confident, one line per method.

    Parameters
    ----------
    methods : mapping of str to Evaluation
        The evaluation of each method.

    Returns
    -------
    Figure
        Even coverage is a flat line at the target.
    """
    figure = _figure("tenth of the rows, by the model's confidence (1: least confident)", "coverage")
    for number, (name, found) in enumerate(methods.items()):
        shares = [group.coverage for group in found.by_confidence]
        places = list(range(1, len(shares) + 1))
        _line(figure, name, places, shares, COLORS[number % len(COLORS)], mode="lines+markers")
    target = next(iter(methods.values())).target
    if target is not None:
        figure.add_hline(target, line={"dash": "dash", "color": GRAY}, annotation_text=f"target {target:g}")
    return figure


def size_histogram(data: Mapping[str, Any]) -> Figure:
    """Draw how many rows have each size, Split beside neighborhood.

    Parameters
    ----------
    data : mapping
        What `gather_report` returned.

    Returns
    -------
    Figure
        With two bars for each size.
    """
    figure, sizes = _figure(f"size ({data['headline']['size_word']})", "test rows"), data["sizes"]
    for name, color in BOTH:
        figure.add_bar(name=name, x=[str(value) for value in sizes["values"]], y=sizes[name], marker={"color": color})
    figure.update_xaxes(type="category")
    return figure


def against_target(data: Mapping[str, Any], what: str) -> Figure:
    """Draw coverage or mean size against the target, Split beside neighborhood.

    Parameters
    ----------
    data : mapping
        What `gather_report` returned.
    what : "coverage" or "size"
        What to draw.

    Returns
    -------
    Figure
        With a line each.
    """
    curve, word = data["curve"], f"mean size ({data['headline']['size_word']})"
    figure = _figure("target coverage", "coverage" if what == "coverage" else word)
    for (name, color), dash in zip(BOTH, ("dash", "solid"), strict=True):
        _line(figure, name, curve["targets"], curve[name][what], color, mode="lines+markers", dash=dash)
    if what == "coverage":
        _line(figure, "target", curve["targets"], curve["targets"], GRAY, dash="dot")
    figure.add_vline(data["headline"]["target"], line={"color": GRAY, "width": 1})
    return figure


def coverage_in_groups(groups: Mapping[str, Any], data: Mapping[str, Any]) -> Figure:
    """Draw the coverage of each group of rows, in ascending order of the neighborhood's where groups are many.

    Parameters
    ----------
    groups : mapping
        `data["tenths"]` or `data["classes"]`.
    data : mapping
        What `gather_report` returned.

    Returns
    -------
    Figure
        Even coverage is a flat line at the target. Names of groups show under the pointer.
    """
    order, many = group_order(groups), len(groups["names"]) > MANY
    figure = _figure("rank of the class" if many else groups.get("title", "group"), "coverage")
    names = [str(groups["names"][at]) for at in order]
    for (name, color), symbol in zip(BOTH, ("square-open", "circle"), strict=True):
        shares = [groups[name][at] for at in order]
        figure.add_scatter(
            name=name,
            x=list(range(len(order))) if many else names,
            y=shares,
            text=names,
            mode="markers" if many else "lines+markers",
            marker=_marker(color, symbol),
        )
    figure.add_hline(data["headline"]["target"], line={"dash": "dot", "color": GRAY}, annotation_text="target")
    return figure


def tuning_frontier(frontier: Mapping[str, Any]) -> Figure:
    """Draw every candidate's size and worst tenth, and mark the frontier and the winner.

    Parameters
    ----------
    frontier : mapping
        `data["frontier"]` of what `gather_report` returned.

    Returns
    -------
    Figure
        Left is smaller, up is more even.
    """
    candidates = frontier["candidates"]
    kinds = {
        "candidate": ([one for one in candidates if not one["everyone"]], "circle", "#B3B3B3"),
        "without neighborhood": ([one for one in candidates if one["everyone"]], "square-open", COLORS[1]),
        "frontier": ([candidates[at] for at in frontier["frontier"]], "diamond", COLORS[2]),
        "chosen": ([candidates[frontier["winner"]]], "star", COLORS[4]),
    }
    figure = _figure("mean size on the tuning rows", "coverage of the worst tenth")
    for name, (some, symbol, color) in kinds.items():
        mode = "lines+markers" if name == "frontier" else "markers"
        sizes, worst = [one["size"] for one in some], [one["worst"] for one in some]
        figure.add_scatter(name=name, x=sizes, y=worst, mode=mode, marker=_marker(color, symbol))
    return figure


def landscape(data: Mapping[str, Any]) -> Figure:
    """Draw calibration rows in two dimensions, colored by their local threshold.

    Parameters
    ----------
    data : mapping
        `data["map"]` of what `gather_report` returned.

    Returns
    -------
    Figure
        Both axes have one scale.
    """
    figure = _figure("", "")
    scale = {"color": data["threshold"], "colorscale": "Viridis", "size": 5, "colorbar": {"title": "local threshold"}}
    figure.add_scatter(name="calibration row", x=data["x"], y=data["y"], mode="markers", marker=scale)
    figure.update_yaxes(scaleanchor="x")
    return figure


def thresholds_by_difficulty(data: Mapping[str, Any], coordinate: int = 0) -> Figure:
    """Draw thresholds against the rank of a coordinate of difficulty, for a predictor with a difficulty map.

    Parameters
    ----------
    data : mapping
        `data["difficulty"]` of what `gather_report` returned.
    coordinate : int
        Which coordinate, from 0; the report holds the first two.

    Returns
    -------
    Figure
        With a point for each calibration row and each test row of the explorer, and a line of median thresholds.
    """
    chart = difficulty_chart(data, coordinate)
    figure = _figure(chart.title, "threshold")
    rows = {"x": chart.calibration[0], "y": chart.calibration[1], "mode": "markers"}
    figure.add_scatter(name="calibration row", marker={"color": "#B3B3B3", "size": 4}, **rows)
    _line(figure, "median of calibration rows", *chart.line, COLORS[0])
    tests = {"x": chart.tests[0], "y": chart.tests[1], "mode": "markers"}
    figure.add_scatter(name="test row", marker=_marker(COLORS[1], "diamond-open"), **tests)
    if chart.everyone is not None:
        figure.add_hline(chart.everyone, line={"dash": "dot", "color": GRAY}, annotation_text="without neighborhood")
    for name, level in chart.ends.items():
        figure.add_annotation(text=name, x=1.0, xref="paper", xanchor="left", y=level, showarrow=False)
    return figure


def _figure(x: str, y: str) -> Figure:
    """Return an empty figure with named axes."""
    with needs("plotly", "plots"):
        from plotly.graph_objects import Figure
    return Figure(layout={"template": "plotly_white", "xaxis_title": x, "yaxis_title": y})


def _marker(color: str = COLORS[0], symbol: str = "circle") -> dict[str, Any]:
    return {"color": color, "symbol": symbol, "size": 8}


def _line(
    figure: Figure, name: str, x: Any, y: Any, color: str, *, mode: str = "lines", dash: str = "solid", **more: Any
) -> None:
    """Add a line, or a line with markers."""
    figure.add_scatter(name=name, x=x, y=y, mode=mode, line={"color": color, "dash": dash}, **more)
