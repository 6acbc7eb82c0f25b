"""Pictures of numbers computed elsewhere; matplotlib is imported here, and for the paper's figures.

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
"""What is compared, with color and hatching."""


def plot_intervals(
    intervals: PredictionIntervals, feature: ArrayLike, targets: ArrayLike | None = None, ax: Axes | None = None
) -> Axes:
    """Draw intervals against a feature.

    Parameters
    ----------
    intervals : PredictionIntervals
        What `predict` returned.
    feature : array-like of shape (n,)
        Where each row stands on the horizontal axis.
    targets : array-like of shape (n,), optional
        The truth: dots, those outside their interval marked.
    ax : Axes, optional
        What to draw into; without, a new figure.

    Returns
    -------
    Axes
        With a bar for each interval.

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
    """Draw the coverage of each group, with intervals that hold for all of them together.

    Parameters
    ----------
    evaluation : Evaluation
        What `evaluate(..., groups=...)` returned.
    ax : Axes, optional
        What to draw into; without, a new figure.

    Returns
    -------
    Axes
        With a point and an error bar for each group.

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
    """Draw the coverage reached against the coverage asked for, and the mean size beside it.

    Parameters
    ----------
    predictor : SetPredictor or IntervalPredictor
        What `calibrate` returned.
    outputs : ModelOutputs
        Rows that it was not calibrated on.
    targets : array-like of shape (n,)
        Their truth.
    coverages : sequence of float
        What is asked for.
    ax : Axes, optional
        What to draw into; without, a new figure.

    Returns
    -------
    Axes
        Those of the coverage; the size is on a second vertical axis.

    Examples
    --------
    >>> import vicinal as vc
    >>> data = vc.datasets.load_cifar100_resnet18()
    >>> predictor = vc.calibrate(data.outputs[:500], data.labels[:500], 0.9, method=vc.Split())
    >>> vc.plots.plot_coverage(predictor, data.outputs[500:900], data.labels[500:900]).get_xlabel()
    'coverage asked for'
    """
    chart, axes = coverage_chart(predictor, outputs, targets, coverages), new_axes(ax)
    axes.fill_between(chart.asked, chart.low, chart.high, color=COLORS[0], alpha=0.2, label="95 % interval")
    axes.plot(chart.asked, chart.reached, "o-", color=COLORS[0], label="coverage reached")
    axes.plot(chart.asked, chart.asked, ":", color="0.4", label="as asked for")
    axes.set_xlabel("coverage asked for")
    axes.set_ylabel("coverage reached")
    sizes = axes.twinx()
    axes.plot([], [], "s--", color=COLORS[1], label="mean size (right)")
    sizes.plot(chart.asked, chart.sizes, "s--", color=COLORS[1])
    sizes.set_ylabel("mean size")
    finish(axes).legend(loc="upper left", frameon=False)  # beside it the sizes have their axis
    return axes


def plot_reliability(
    predictor: SetPredictor,
    outputs: ClassificationOutputs,
    targets: ArrayLike,
    parts: int = 10,
    ax: Axes | None = None,
) -> Axes:
    """Draw how often the model's top label is right, and how often the set holds the truth, against the confidence.

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
    ax : Axes, optional
        What to draw into; without, a new figure.

    Returns
    -------
    Axes
        With the accuracy of the model and the coverage of the sets in each group.

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
    axes.axhline(chart.target, color="0.5", linestyle="-.", label="coverage asked for")
    axes.set_xlabel("mean confidence of the model")
    axes.set_ylabel("share of the rows")
    return finish(axes)


def size_against_coverage(curves: Mapping[str, Sequence[Evaluation]], ax: Axes | None = None) -> Axes:
    """Draw mean size against measured coverage, one line per method, one point per target."""
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
    axes.set_xlabel("coverage reached on test rows")
    axes.set_ylabel("mean set size (log scale)")
    axes.set_title("Size against coverage: lower is smaller")
    return finish(axes)


def coverage_by_confidence(methods: Mapping[str, Evaluation], ax: Axes | None = None) -> Axes:
    """Draw coverage in each tenth of the rows, from the least to the most confident, one line per method."""
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
    """Draw what a report shows (see `vicinal.reporting.gather_report`): Axes by name, or with `folder` a file each."""
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
    return drawn if folder is None else [save(axes, Path(folder) / f"{name}.png") for name, axes in drawn.items()]


def size_histogram(data: Mapping[str, Any], ax: Axes | None = None) -> Axes:
    """Draw how many rows have each size, Split beside neighborhood."""
    sizes = data["sizes"]
    axes = new_axes(ax)
    places = range(len(sizes["values"]))
    for shift, (name, color, hatch) in zip((-0.2, 0.2), BOTH, strict=True):
        axes.bar([x + shift for x in places], sizes[name], 0.4, label=name, color=color, hatch=hatch)
    axes.set_xticks(list(places), sizes["values"], rotation=0 if len(sizes["values"]) <= 16 else 90)  # noqa: PLR2004
    axes.set_xlabel(f"size ({data['headline']['size_word']})")
    axes.set_ylabel("test rows")
    axes.set_title("How large the answers are")
    return finish(axes)


def against_target(data: Mapping[str, Any], what: str, ax: Axes | None = None) -> Axes:
    """Draw coverage or mean size against the target, Split beside neighborhood."""
    curve, headline = data["curve"], data["headline"]
    axes = new_axes(ax)
    for (name, color, _), line, marker in zip(BOTH, ("--", "-"), MARKERS, strict=False):
        axes.plot(curve["targets"], curve[name][what], line, color=color, marker=marker, label=name)
    if what == "coverage":
        axes.plot(curve["targets"], curve["targets"], ":", color="0.5", label="what was asked for")
    axes.axvline(headline["target"], color="0.6", linewidth=1)
    axes.set_xlabel("target coverage")
    axes.set_ylabel("coverage" if what == "coverage" else f"mean size ({headline['size_word']})")
    axes.set_title("Coverage against target" if what == "coverage" else "Mean size against target")
    return finish(axes)


def coverage_in_groups(groups: Mapping[str, Any], data: Mapping[str, Any], ax: Axes | None = None) -> Axes:
    """Draw the coverage of each group of rows, in ascending order of the neighborhood's where groups are many."""
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
    """Draw every candidate's size and worst tenth, those nobody beats, and the winner."""
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
    axes.set_ylabel("coverage of the worst tenth")
    axes.set_title("Left is smaller, up is more even")
    return finish(axes)


def landscape(data: Mapping[str, Any], ax: Axes | None = None) -> Axes:
    """Draw calibration rows in two dimensions, colored by their local threshold."""
    axes = new_axes(ax)
    found = axes.scatter(data["x"], data["y"], c=data["threshold"], s=8, cmap="viridis", label="calibration row")
    axes.figure.colorbar(found, ax=axes, label="local threshold")
    axes.set_aspect("equal")
    axes.set_title(f"Where thresholds are high and low ({data['method']})")
    return finish(axes)


def _places(candidates: Sequence[Mapping[str, Any]]) -> tuple[list[float], list[float]]:
    return [one["size"] for one in candidates], [one["worst"] for one in candidates]


def _styles(names: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Give a name "method, score" the line of its method and the color and marker of its score."""
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
    """Return the Axes to draw into: those given, or those of a new figure, which no window shows by itself."""
    if ax is not None:
        return ax
    with needs("matplotlib", "plots"):
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    figure = Figure(figsize=(8.0, 5.0), layout="constrained")
    FigureCanvasAgg(figure)  # no global state, no window, no thread trouble
    return figure.add_subplot()


def finish(axes: Axes) -> Axes:
    """Add a grid and, where something is named, a legend."""
    axes.grid(visible=True, alpha=0.3)
    if axes.get_legend_handles_labels()[1]:
        axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), frameon=False)
    return axes


def save(axes: Axes, path: Path) -> Path:
    """Save the figure of Axes to a file; return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure = axes.get_figure(root=True)
    assert figure is not None  # noqa: S101  Axes that are drawn into belong to one
    figure.savefig(path, dpi=150)
    return path
