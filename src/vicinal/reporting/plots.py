"""Plots of evaluations and reports, drawn with matplotlib.

Every function draws into `ax`, or into a new figure, and returns the Axes: `axes.figure.savefig("a.png")` saves it.
`vicinal.plots.interactive` has the same functions with plotly.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from numpy.typing import ArrayLike

from vicinal._util.extras import needs
from vicinal.evaluation.metrics import Evaluation
from vicinal.outputs import ClassificationOutputs, ModelOutputs
from vicinal.predictor.predictors import IntervalPredictor, SetPredictor
from vicinal.regions import PredictionIntervals
from vicinal.reporting import interactive as interactive  # noqa: PLC0414  it is part of this module
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
    from matplotlib.axes import Axes

MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")

LINES = (":", "--", "-", "-.")

BOTH = (("split", COLORS[1], "//"), ("neighborhood", COLORS[0], None))
"""The two compared predictors, with color and hatching."""


def plot_intervals(
    intervals: PredictionIntervals, feature: ArrayLike, targets: ArrayLike | None = None, ax: Axes | None = None
) -> Axes:
    """Plot intervals against a feature.

    Parameters
    ----------
    intervals : PredictionIntervals
        What `predict` returned for n rows.
    feature : array-like of shape (n,)
        Horizontal position of each row.
    targets : array-like of shape (n,), optional
        The truth, drawn as dots; values outside their interval are marked.
    ax : Axes, optional
        Where to draw. Default: a new figure.

    Returns
    -------
    Axes
        With a bar for each interval.

    Raises
    ------
    ShapeMismatch
        If the numbers of rows differ.

    Examples
    --------
    >>> import numpy as np
    >>> import vicinal as vc
    >>> intervals = vc.PredictionIntervals(np.zeros(3), np.ones(3), np.ones(3))
    >>> vc.plots.plot_intervals(intervals, [1, 2, 3], [0.5, 0.5, 2.0]).get_ylabel()
    'target'
    """
    chart, axes = interval_chart(intervals, feature, targets), new_axes(ax)
    axes.vlines(chart.places, chart.lower, chart.upper, color=COLORS[0], alpha=0.45, linewidth=2, label="interval")
    if chart.inside is not None and chart.outside is not None:
        axes.scatter(*chart.inside, s=10, color="0.2", label="target, inside", zorder=3)
        axes.scatter(*chart.outside, s=22, marker="x", color=COLORS[1], label="outside", zorder=4)
    axes.set_xlabel("feature")
    axes.set_ylabel("target")
    return finish(axes)


def plot_groups(evaluation: Evaluation, ax: Axes | None = None) -> Axes:
    """Plot the coverage of each group, with confidence intervals that hold for all groups together.

    Parameters
    ----------
    evaluation : Evaluation
        What `evaluate(..., groups=...)` returned.
    ax : Axes, optional
        Where to draw. Default: a new figure.

    Returns
    -------
    Axes
        With a point and an error bar for each group.

    Raises
    ------
    Incompatible
        If the evaluation has no groups.

    Examples
    --------
    >>> import numpy as np
    >>> import vicinal as vc
    >>> intervals = vc.PredictionIntervals(np.zeros(4), np.ones(4), np.ones(4), coverage=0.5)
    >>> found = vc.evaluate(intervals, [0.5, 2.0, 0.5, 0.5], groups=["a", "a", "b", "b"])
    >>> [text.get_text() for text in vc.plots.plot_groups(found).get_yticklabels()]
    ['a (2)', 'b (2)']
    """
    chart = group_chart(evaluation)
    axes, places = new_axes(ax), list(range(len(chart.names)))
    style: dict[str, Any] = {"fmt": "o", "color": COLORS[0], "capsize": 3, "label": "coverage, 95 % for all groups"}
    axes.errorbar(chart.shares, places, xerr=[chart.down, chart.up], **style)
    if chart.target is not None:
        axes.axvline(chart.target, color="0.5", linestyle="--", label=f"target {chart.target:g}")
    axes.set_yticks(places, chart.names)
    axes.invert_yaxis()
    axes.set_xlabel("coverage")
    return finish(axes)


def plot_coverage(
    predictor: SetPredictor | IntervalPredictor,
    outputs: ModelOutputs,
    targets: ArrayLike,
    coverages: Sequence[float] = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95),
    ax: Axes | None = None,
) -> Axes:
    """Plot measured coverage against target coverage, with the mean size on a second axis.

    Parameters
    ----------
    predictor : SetPredictor or IntervalPredictor
        A calibrated predictor.
    outputs : ModelOutputs
        Outputs of the model for n rows that did not calibrate.
    targets : array-like of shape (n,)
        Labels or values: the truth.
    coverages : sequence of float
        Target coverages.
    ax : Axes, optional
        Where to draw. Default: a new figure.

    Returns
    -------
    Axes
        The axes of coverage.

    Examples
    --------
    >>> import vicinal as vc
    >>> data = vc.datasets.load_cifar100_resnet18()
    >>> predictor = vc.calibrate(data.outputs[:500], data.labels[:500], 0.9, method=vc.Split())
    >>> vc.plots.plot_coverage(predictor, data.outputs[500:900], data.labels[500:900]).get_xlabel()
    'target coverage'
    """
    chart, axes = coverage_chart(predictor, outputs, targets, coverages), new_axes(ax)
    axes.fill_between(chart.asked, chart.low, chart.high, color=COLORS[0], alpha=0.2, label="95 % interval")
    axes.plot(chart.asked, chart.reached, "o-", color=COLORS[0], label="measured coverage")
    axes.plot(chart.asked, chart.asked, ":", color="0.4", label="target")
    axes.set_xlabel("target coverage")
    axes.set_ylabel("measured coverage")
    sizes = axes.twinx()
    axes.plot([], [], "s--", color=COLORS[1], label="mean size (right)")
    sizes.plot(chart.asked, chart.sizes, "s--", color=COLORS[1])
    sizes.set_ylabel("mean size")
    finish(axes).legend(loc="upper left", frameon=False)  # on the right is the axis of sizes
    return axes


def plot_reliability(
    predictor: SetPredictor,
    outputs: ClassificationOutputs,
    targets: ArrayLike,
    parts: int = 10,
    ax: Axes | None = None,
) -> Axes:
    """Plot the accuracy of the model's top label and the coverage of the sets against the model's confidence.

    Parameters
    ----------
    predictor : SetPredictor
        A calibrated predictor; probabilities are those after its probability model.
    outputs : ClassificationOutputs
        Outputs of the model for n rows that did not calibrate.
    targets : array-like of shape (n,)
        Labels: the truth.
    parts : int
        Number of groups of rows of about equal size, by confidence.
    ax : Axes, optional
        Where to draw. Default: a new figure.

    Returns
    -------
    Axes
        With a point for each group.

    Examples
    --------
    >>> import vicinal as vc
    >>> data = vc.datasets.load_cifar100_resnet18()
    >>> predictor = vc.calibrate(data.outputs[:500], data.labels[:500], 0.9, method=vc.Split())
    >>> vc.plots.plot_reliability(predictor, data.outputs[500:900], data.labels[500:900]).get_ylabel()
    'share of the rows'
    """
    chart, axes = reliability_chart(predictor, outputs, targets, parts), new_axes(ax)
    axes.plot(chart.confidence, chart.coverage, "o-", color=COLORS[0], label="coverage of the sets")
    axes.plot(chart.confidence, chart.accuracy, "s--", color=COLORS[1], label="accuracy of the top label")
    axes.plot([0, 1], [0, 1], ":", color="0.4", label="confidence = accuracy")
    axes.axhline(chart.target, color="0.5", linestyle="-.", label="target coverage")
    axes.set_xlabel("mean confidence of the model")
    axes.set_ylabel("share of the rows")
    return finish(axes)


def size_against_coverage(curves: Mapping[str, Sequence[Evaluation]], ax: Axes | None = None) -> Axes:
    """Plot mean size against measured coverage: a line for each method, a point for each target coverage.

    Parameters
    ----------
    curves : mapping of str to sequence of Evaluation
        For each method, its evaluations at several target coverages.
    ax : Axes, optional
        Where to draw. Default: a new figure.

    Returns
    -------
    Axes
        With a logarithmic vertical axis.

    Examples
    --------
    >>> import vicinal as vc
    >>> data = vc.datasets.load_cifar100_resnet18()
    >>> predictor = vc.calibrate(data.outputs[:500], data.labels[:500], 0.9, method=vc.Split())
    >>> tests, labels = data.outputs[500:900], data.labels[500:900]
    >>> found = [vc.evaluate(sets, labels) for sets in predictor.predict_at(tests, [0.8, 0.9])]
    >>> vc.plots.size_against_coverage({"Split, LAC": found}).get_yscale()
    'log'
    """
    with needs("matplotlib", "plots"):
        from matplotlib.ticker import LogLocator, NullLocator
    axes = new_axes(ax)
    styles = _styles(curves)
    for name, points in curves.items():
        axes.plot(
            [point.coverage for point in points],
            [point.mean_size for point in points],
            label=name,
            **styles[name],
        )
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_locator(NullLocator())
    axes.set_xlabel("measured coverage on test rows")
    axes.set_ylabel("mean set size (log scale)")
    axes.set_title("Size against coverage: lower is smaller")
    return finish(axes)


def coverage_by_confidence(methods: Mapping[str, Evaluation], ax: Axes | None = None) -> Axes:
    """Plot coverage by tenth of the rows, from the least to the most confident: a line for each method.

    Parameters
    ----------
    methods : mapping of str to Evaluation
        For each method, its evaluation.
    ax : Axes, optional
        Where to draw. Default: a new figure.

    Returns
    -------
    Axes
        With a point for each tenth.

    Examples
    --------
    >>> import vicinal as vc
    >>> data = vc.datasets.load_cifar100_resnet18()
    >>> predictor = vc.calibrate(data.outputs[:500], data.labels[:500], 0.9, method=vc.Split())
    >>> found = vc.evaluate(predictor.predict(data.outputs[500:900]), data.labels[500:900])
    >>> vc.plots.coverage_by_confidence({"Split, LAC": found}).get_ylabel()
    'coverage'
    """
    axes = new_axes(ax)
    styles = _styles(methods)
    for name, found in methods.items():
        tenths = range(1, len(found.by_confidence) + 1)
        axes.plot(
            list(tenths),
            [group.coverage for group in found.by_confidence],
            label=name,
            **styles[name],
        )
    target = next(iter(methods.values())).target
    if target is not None:
        axes.axhline(target, color="0.5", linestyle="--", linewidth=1, label=f"target {target:g}")
    axes.set_xticks(range(1, 11))
    axes.set_xlabel("tenth of the rows, by the model's confidence (1: least confident)")
    axes.set_ylabel("coverage")
    axes.set_title("Even coverage is a flat line at the target")
    return finish(axes)


@overload
def static(data: Mapping[str, Any], folder: None = ...) -> dict[str, Axes]: ...
@overload
def static(data: Mapping[str, Any], folder: str | Path) -> list[Path]: ...
def static(data: Mapping[str, Any], folder: str | Path | None = None) -> dict[str, Axes] | list[Path]:
    """Draw the plots of a report, or save them as PNG files.

    Parameters
    ----------
    data : mapping
        What `vicinal.reporting.gather_report` returned.
    folder : str or Path, optional
        Where to save; it is created if needed. Default: nothing is saved.

    Returns
    -------
    dict of str to Axes, or list of Path
        The plots by name; with `folder` the files, one for each plot.

    Examples
    --------
    >>> import tempfile
    >>> import vicinal as vc
    >>> from vicinal.reporting import gather_report
    >>> data = vc.datasets.load_cifar100_resnet18()
    >>> predictor = vc.calibrate(data.outputs[:300], data.labels[:300], 0.9, localizer=vc.Uniform(50))
    >>> found = gather_report(predictor, data.outputs[300:600], data.labels[300:600])
    >>> vc.plots.static(found, tempfile.mkdtemp())[0].name
    'sizes.png'
    """
    drawn = {
        "sizes": size_histogram(data),
        "coverage_against_target": against_target(data, "coverage"),
        "size_against_target": against_target(data, "size"),
        "coverage_by_tenth": coverage_in_groups(data["tenths"], data),
    }
    if data["classes"] is not None:
        drawn["coverage_by_class"] = coverage_in_groups(data["classes"], data)
    if data["frontier"] is not None:
        drawn["tuning_frontier"] = tuning_frontier(data["frontier"])
    if data["map"] is not None:
        drawn["map"] = landscape(data["map"])
    for number in range(0 if data["difficulty"] is None else len(data["difficulty"]["coordinates"])):
        drawn[f"difficulty_{number + 1}" if number else "difficulty"] = thresholds_by_difficulty(
            data["difficulty"], number
        )
    return drawn if folder is None else [save(axes, Path(folder) / f"{name}.png") for name, axes in drawn.items()]


def size_histogram(data: Mapping[str, Any], ax: Axes | None = None) -> Axes:
    """Plot the number of rows by size, with and without the neighborhood.

    Parameters
    ----------
    data : mapping
        What `vicinal.reporting.gather_report` returned.
    ax : Axes, optional
        Where to draw. Default: a new figure.

    Returns
    -------
    Axes
        With two bars for each size.

    Examples
    --------
    >>> sizes = {"values": ["1", "2"], "split": [3, 1], "neighborhood": [4, 0]}
    >>> size_histogram({"sizes": sizes, "headline": {"size_word": "labels"}}).get_xlabel()
    'size (labels)'
    """
    sizes = data["sizes"]
    axes = new_axes(ax)
    places = range(len(sizes["values"]))
    for shift, (name, color, hatch) in zip((-0.2, 0.2), BOTH, strict=True):
        axes.bar([x + shift for x in places], sizes[name], 0.4, label=name, color=color, hatch=hatch)
    axes.set_xticks(list(places), sizes["values"], rotation=0 if len(sizes["values"]) <= 16 else 90)  # noqa: PLR2004
    axes.set_xlabel(f"size ({data['headline']['size_word']})")
    axes.set_ylabel("test rows")
    axes.set_title("Sizes of the answers")
    return finish(axes)


def against_target(data: Mapping[str, Any], what: str, ax: Axes | None = None) -> Axes:
    """Plot coverage or mean size against target coverage, with and without the neighborhood.

    Parameters
    ----------
    data : mapping
        What `vicinal.reporting.gather_report` returned.
    what : str
        "coverage" or "size".
    ax : Axes, optional
        Where to draw. Default: a new figure.

    Returns
    -------
    Axes
        With two lines.

    Examples
    --------
    >>> line = {"coverage": [0.8, 0.9], "size": [1.0, 2.0]}
    >>> data = {"curve": {"targets": [0.8, 0.9], "split": line, "neighborhood": line}}
    >>> against_target({**data, "headline": {"target": 0.9, "size_word": "labels"}}, "size").get_ylabel()
    'mean size (labels)'
    """
    curve, headline = data["curve"], data["headline"]
    axes = new_axes(ax)
    for (name, color, _), line, marker in zip(BOTH, ("--", "-"), MARKERS, strict=False):
        axes.plot(curve["targets"], curve[name][what], line, color=color, marker=marker, label=name)
    if what == "coverage":
        axes.plot(curve["targets"], curve["targets"], ":", color="0.5", label="target")
    axes.axvline(headline["target"], color="0.6", linewidth=1)
    axes.set_xlabel("target coverage")
    axes.set_ylabel("coverage" if what == "coverage" else f"mean size ({headline['size_word']})")
    axes.set_title("Coverage against target" if what == "coverage" else "Mean size against target")
    return finish(axes)


def coverage_in_groups(groups: Mapping[str, Any], data: Mapping[str, Any], ax: Axes | None = None) -> Axes:
    """Plot the coverage of each group of rows; more than ten groups are sorted by their coverage with the neighborhood.

    Parameters
    ----------
    groups : mapping
        `names`, and the coverages `split` and `neighborhood` of each group.
    data : mapping
        What `vicinal.reporting.gather_report` returned.
    ax : Axes, optional
        Where to draw. Default: a new figure.

    Returns
    -------
    Axes
        With two points for each group.

    Examples
    --------
    >>> groups = {"names": ["a", "b"], "split": [0.8, 0.9], "neighborhood": [0.9, 0.9]}
    >>> coverage_in_groups(groups, {"headline": {"target": 0.9}}).get_ylabel()
    'coverage'
    """
    order, many = group_order(groups), len(groups["names"]) > MANY
    axes = new_axes(ax)
    for (name, color, _), marker in zip(BOTH, ("s", "o"), strict=True):
        style: dict[str, Any] = {"markerfacecolor": "none"} if name == "split" else {}
        values = [groups[name][at] for at in order]
        axes.plot(values, linestyle="none" if many else "--", color=color, marker=marker, label=name, **style)
    axes.axhline(data["headline"]["target"], color="0.5", linestyle=":", label="target")
    if not many:
        axes.set_xticks(range(len(order)), [groups["names"][at] for at in order])
    axes.set_xlabel("rank of the class" if many else groups.get("title", "group"))
    axes.set_ylabel("coverage")
    axes.set_title("Even coverage is a flat line at the target")
    return finish(axes)


def tuning_frontier(frontier: Mapping[str, Any], ax: Axes | None = None) -> Axes:
    """Plot size and worst tenth of every candidate, and mark the frontier and the winner.

    Parameters
    ----------
    frontier : mapping
        The entry `frontier` of what `vicinal.reporting.gather_report` returned.
    ax : Axes, optional
        Where to draw. Default: a new figure.

    Returns
    -------
    Axes
        With a point for each candidate.

    Examples
    --------
    >>> candidate = {"size": 2.0, "worst": 0.8, "everyone": True}
    >>> tuning_frontier({"candidates": [candidate], "winner": 0, "frontier": [0]}).get_ylabel()
    'coverage of the least covered tenth'
    """
    candidates, best = frontier["candidates"], frontier["candidates"][frontier["winner"]]
    kinds = {
        "candidate": ([one for one in candidates if not one["everyone"]], ".", "0.7"),
        "without neighborhood": ([one for one in candidates if one["everyone"]], "s", COLORS[1]),
    }
    axes = new_axes(ax)
    for name, (some, marker, color) in kinds.items():
        hollow: dict[str, Any] = {"facecolors": "none", "edgecolors": color} if marker == "s" else {"color": color}
        axes.scatter(*_places(some), marker=marker, label=name, **hollow)
    axes.plot(*_places([candidates[at] for at in frontier["frontier"]]), "D-", color=COLORS[2], label="frontier")
    axes.scatter(*_places([best]), marker="*", s=220, color=COLORS[4], edgecolor="k", zorder=3, label="chosen")
    axes.set_xlabel("mean size on the tuning rows")
    axes.set_ylabel("coverage of the least covered tenth")
    axes.set_title("Left is smaller, up is more even")
    return finish(axes)


def landscape(data: Mapping[str, Any], ax: Axes | None = None) -> Axes:
    """Plot calibration rows in two dimensions, colored by their local threshold.

    Parameters
    ----------
    data : mapping
        The entry `map` of what `vicinal.reporting.gather_report` returned.
    ax : Axes, optional
        Where to draw. Default: a new figure.

    Returns
    -------
    Axes
        With a point for each row.

    Examples
    --------
    >>> landscape({"x": [0.0, 1.0], "y": [0.0, 1.0], "threshold": [0.5, 0.6], "method": "PCA"}).get_title()
    'Local thresholds (PCA)'
    """
    axes = new_axes(ax)
    found = axes.scatter(data["x"], data["y"], c=data["threshold"], s=8, cmap="viridis", label="calibration row")
    axes.figure.colorbar(found, ax=axes, label="local threshold")
    axes.set_aspect("equal")
    axes.set_title(f"Local thresholds ({data['method']})")
    return finish(axes)


def thresholds_by_difficulty(data: Mapping[str, Any], coordinate: int = 0, ax: Axes | None = None) -> Axes:
    """Plot thresholds against the rank of a coordinate of difficulty, for a predictor with a difficulty map.

    Parameters
    ----------
    data : mapping
        The entry `difficulty` of what `vicinal.reporting.gather_report` returned.
    coordinate : int
        Which coordinate, from 0; the report holds the first two.
    ax : Axes, optional
        Where to draw. Default: a new figure.

    Returns
    -------
    Axes
        With a point for each calibration row and each test row of the explorer, and a line of median thresholds.

    Examples
    --------
    >>> import vicinal as vc
    >>> from vicinal.reporting import gather_report
    >>> data = vc.datasets.load_cifar100_resnet18()
    >>> difficulty = vc.DifficultyMap(vc.Entropy()).fit(data.outputs[:300])
    >>> near = {"localizer": vc.Uniform(0.2), "representation_map": difficulty}
    >>> predictor = vc.calibrate(data.outputs[300:800], data.labels[300:800], 0.9, score=vc.APS(), **near)
    >>> found = gather_report(predictor, data.outputs[800:900], data.labels[800:900], rows=20)
    >>> thresholds_by_difficulty(found["difficulty"]).get_xlabel()
    'rank of the entropy among the tuning rows, in percent'
    """
    chart, axes = difficulty_chart(data, coordinate), new_axes(ax)
    axes.scatter(*chart.calibration, s=8, color="0.7", label="calibration row")
    axes.plot(*chart.line, color=COLORS[0], linewidth=2, label="median of calibration rows")
    style: dict[str, Any] = {"marker": "D", "facecolors": "none", "edgecolors": COLORS[1], "zorder": 3}
    axes.scatter(*chart.tests, s=16, label="test row", **style)
    if chart.everyone is not None:
        axes.axhline(chart.everyone, color="0.4", linestyle=":", label="without neighborhood")
    for name, level in chart.ends.items():
        axes.annotate(name, (1.0, level), xycoords=("axes fraction", "data"), xytext=(3, 0), textcoords="offset points")
    axes.set_xlabel(chart.title)
    axes.set_ylabel("threshold")
    axes.set_title("Thresholds by difficulty")
    return finish(axes)


def _places(candidates: Sequence[Mapping[str, Any]]) -> tuple[list[float], list[float]]:
    return [one["size"] for one in candidates], [one["worst"] for one in candidates]


def _styles(names: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Give each name "method, score" a line style for its method, and a color and a marker for its score."""
    lines: dict[str, int] = {}
    colors: dict[str, int] = {}
    styles = {}
    for name in names:
        method, _, score = name.partition(", ")
        line = LINES[lines.setdefault(method, len(lines)) % len(LINES)]
        number = colors.setdefault(score, len(colors))
        styles[name] = {
            "linestyle": line,
            "color": COLORS[number % len(COLORS)],
            "marker": MARKERS[number % len(MARKERS)],
            "markersize": 6,
            "linewidth": 1.4,
        }
    return styles


def new_axes(ax: Axes | None) -> Axes:
    """Return the Axes to draw into: those given, or those of a new figure.

    Parameters
    ----------
    ax : Axes or None
        Axes to draw into.

    Returns
    -------
    Axes
        The same Axes, or new ones. A new figure is not shown by itself.

    Examples
    --------
    >>> float(new_axes(None).get_figure().get_figwidth())
    8.0
    """
    if ax is not None:
        return ax
    with needs("matplotlib", "plots"):
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    figure = Figure(figsize=(8.0, 5.0), layout="constrained")
    FigureCanvasAgg(figure)  # no global state, no window, safe in threads
    return figure.add_subplot()


def finish(axes: Axes) -> Axes:
    """Add a grid and, if anything has a label, a legend.

    Parameters
    ----------
    axes : Axes
        Where to draw.

    Returns
    -------
    Axes
        The same Axes.

    Examples
    --------
    >>> finish(new_axes(None)).get_legend() is None
    True
    """
    axes.grid(visible=True, alpha=0.3)
    if axes.get_legend_handles_labels()[1]:
        axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), frameon=False)
    return axes


def save(axes: Axes, path: Path) -> Path:
    """Save the figure of Axes to a file.

    Parameters
    ----------
    axes : Axes
        What one of the functions here returned.
    path : Path
        The file to write.

    Returns
    -------
    Path
        The same path.

    Examples
    --------
    >>> import tempfile
    >>> save(new_axes(None), Path(tempfile.mkdtemp()) / "a.png").name
    'a.png'
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    figure = axes.get_figure(root=True)
    assert figure is not None  # noqa: S101  Axes belong to a figure
    figure.savefig(path, dpi=150)
    return path
