"""Pictures of numbers computed elsewhere; matplotlib is imported here only."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vicinal._extras import needs
from vicinal.metrics import Evaluation

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7F7F7F", "#000000")
"""Okabe and Ito: told apart with any color vision, and by their markers without color."""

MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")

LINES = (":", "--", "-", "-.")


def size_against_coverage(curves: Mapping[str, Sequence[Evaluation]], path: Path) -> Path:
    """Draw mean size against measured coverage, one line per method, one point per target."""
    with needs("matplotlib", "plots"):
        from matplotlib.ticker import LogLocator, NullLocator

    def draw(axes: Axes) -> None:
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

    return _saved(draw, path)


def coverage_by_confidence(methods: Mapping[str, Evaluation], path: Path) -> Path:
    """Draw coverage in each tenth of the rows, from the least to the most confident, one line per method."""

    def draw(axes: Axes) -> None:
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

    return _saved(draw, path)


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


def _saved(draw: Callable[[Axes], None], path: Path) -> Path:
    with needs("matplotlib", "plots"):
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    figure = Figure(figsize=(8.0, 5.0), layout="constrained")
    FigureCanvasAgg(figure)  # no global state, no window, no thread trouble
    axes = figure.add_subplot()
    draw(axes)
    axes.grid(visible=True, alpha=0.3)
    figure.legend(loc="outside right upper", frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
    return path
