"""The paper's figures, as PNG and SVG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.means import Mean
from vicinal._util.extras import needs
from vicinal._util.files import replacing
from vicinal.reporting.charts import COLORS
from vicinal.reporting.plots import MARKERS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TEN = ("#332288", "#88CCEE", "#44AA99", "#117733", "#999933", "#DDCC77", "#CC6677", "#882255", "#AA4499", "#000000")
"""Paul Tol's muted colors: ten that are told apart with any color vision."""

CIFAR10 = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
Curves = Mapping[str, Sequence[Mean]]


def against_bandwidth(widths: Sequence[float], coverage: Curves, size: Curves, target: float, title: str) -> Figure:
    """Draw coverage and size against the localization parameter, a line for each method with its spread over runs."""
    figure, (left, right) = _panels(title)
    from matplotlib.ticker import LogLocator, NullLocator

    for axes, curves, what in ((left, coverage, "coverage"), (right, size, "mean set size (log scale)")):
        _lines(axes, widths, curves)
        axes.set_xscale("log")
        axes.set_xlabel("localization parameter (bandwidth)")
        axes.set_ylabel(what)
    # Wide enough that differences of a thousandth look like one.
    low, high = left.get_ylim()
    left.set_ylim(min(low, target - 0.02), max(high, target + 0.02))
    right.set_yscale("log")  # narrow bandwidths make sets many times as large
    right.yaxis.set_major_locator(LogLocator(subs=(1.0, 1.5, 2.0, 3.0, 5.0, 7.0)))
    right.yaxis.set_major_formatter("{x:g}")
    right.yaxis.set_minor_locator(NullLocator())
    left.axhline(target, color="0.4", linestyle="--", linewidth=1, label=f"target {target:g}")
    _legend(figure, left)
    return figure


def against_epochs(epochs: Sequence[int], silhouettes: Sequence[float], sizes: Curves, title: str) -> Figure:
    """Draw the silhouette of the representation, and the sizes of sets, against epochs of training."""
    figure, (left, right) = _panels(title)
    from matplotlib.ticker import LogLocator, NullLocator

    left.plot(epochs, silhouettes, color=COLORS[7], marker="o", label="silhouette of the representation")
    left.axhline(0, color="0.6", linewidth=0.8)
    left.set_ylabel("silhouette of the representation")
    _lines(right, epochs, sizes)
    right.set_yscale("log")
    right.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    right.yaxis.set_major_formatter("{x:g}")
    right.yaxis.set_minor_locator(NullLocator())
    right.set_ylabel("mean set size (log scale)")
    for axes in (left, right):
        axes.set_xlabel("epochs of training")
    _legend(figure, right)
    return figure


def against_rows(rows: Sequence[int], errors: Curves, unevenness: Curves, title: str) -> Figure:
    """Draw how far thresholds are from the true quantiles, and how uneven coverage is, against calibration rows."""
    figure, panels = _panels(title)
    from matplotlib.ticker import LogLocator, NullLocator

    words = ("error of log(threshold)", "mean |conditional coverage - target|")
    for axes, curves, what in zip(panels, (errors, unevenness), words, strict=True):
        _lines(axes, rows, curves)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xticks(rows)
        axes.xaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 3.0, 4.0, 6.0)))
        axes.yaxis.set_major_formatter("{x:g}")
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_minor_locator(NullLocator())
        axes.set_xlabel("calibration rows")
        axes.set_ylabel(what)
    _legend(figure, panels[0], columns=5)
    return figure


def embeddings(found: Mapping[str, Any], title: str) -> Figure:
    """Draw t-SNE points of raw pixels and of representations, by class: color and marker tell them apart."""
    figure, panels = _panels(title)
    labels = found["labels"]
    for axes, name in zip(panels, ("raw pixels", "representation"), strict=True):
        for number in sorted(set(labels)):
            points = [point for point, label in zip(found[name], labels, strict=True) if label == number]
            axes.scatter(
                [x for x, _ in points], [y for _, y in points], s=16, linewidths=0.25, label=CIFAR10[number],
                color=TEN[number], marker=(*MARKERS, "<", ">")[number], edgecolors="white", alpha=0.85,
            )  # fmt: skip
        axes.set_title(name, fontsize=10)
        axes.set_xticks([])
        axes.set_yticks([])
    _legend(figure, panels[0], columns=5, below=0.17)
    return figure


def save_figure(figure: Figure, stem: Path) -> list[Path]:
    """Write a figure as PNG and SVG."""
    paths = [stem.with_name(f"{stem.name}.{kind}") for kind in ("png", "svg")]
    for path in paths:
        # A picture of the same numbers is the same file.
        more: dict[str, Any] = {"metadata": {"Date": None}} if path.suffix == ".svg" else {"dpi": 150}
        with replacing(path) as file:
            figure.savefig(file, format=path.suffix[1:], bbox_inches="tight", **more)
    return paths


def _panels(title: str) -> tuple[Figure, Sequence[Axes]]:
    with needs("matplotlib", "plots"):
        import matplotlib as mpl
        from matplotlib.figure import Figure as NewFigure

    mpl.rcParams["svg.hashsalt"] = "vicinal"
    figure = NewFigure(figsize=(9.5, 4.2))
    panels = figure.subplots(1, 2)
    figure.suptitle(title, fontsize=11)
    figure.subplots_adjust(wspace=0.28)
    return figure, panels


def _lines(axes: Axes, places: Sequence[float], curves: Curves) -> None:
    for number, (name, points) in enumerate(curves.items()):
        means = [point.mean for point in points]
        spreads = [point.deviation or 0 for point in points]
        color, marker = COLORS[number], MARKERS[number]
        axes.plot(
            places, means, color=color, marker=marker, markersize=5, label=name, linestyle=("-", "--")[number % 2]
        )
        low, high = ([m + sign * s for m, s in zip(means, spreads, strict=True)] for sign in (-1, 1))
        axes.fill_between(places, low, high, color=color, alpha=0.1, linewidth=0)
    axes.grid(visible=True, color="0.9")


def _legend(figure: Figure, axes: Axes, columns: int = 4, below: float = 0.07) -> None:
    """Put the legend under the panels, where it covers no data."""
    handles, names = axes.get_legend_handles_labels()
    figure.subplots_adjust(bottom=0.2)
    figure.legend(
        handles, names, loc="upper center", ncols=columns, bbox_to_anchor=(0.5, below), frameon=False, markerscale=1.5
    )
