"""The pictures of the three cases."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from vicinal._util.arrays import Floats
from vicinal._util.extras import needs
from vicinal.regions import PredictionIntervals
from vicinal.reporting.charts import COLORS
from vicinal.reporting.plots import finish, new_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PLAIN, CHOSEN = COLORS[1], COLORS[0]

NAME_HEIGHTS = (5, -11, 14, -20, 23, -29, 32, -38, 41)
"""Offsets in points above its point at which a name is tried, on each side; from 14 on a line leads to the point."""

NAME_SIDES = {"left": 6, "right": -6, "center": 0}
"""Where the point stands at the name, and the offset in points of the name from it."""


def small_axes() -> Axes:
    """Return the Axes of a figure that stays readable in a column of a page."""
    with needs("matplotlib", "plots"):
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    figure = Figure(figsize=(5.4, 4.0), layout="constrained")
    FigureCanvasAgg(figure)
    return new_axes(figure.add_subplot())


def draw_bars(values: Mapping[str, float], label: str, strong: str) -> Axes:
    """Draw a bar for each value, the first on top, with its number beside it."""
    axes, places = small_axes(), list(range(len(values)))
    colors = [CHOSEN if name == strong else PLAIN for name in values]
    axes.barh(places, list(values.values()), color=colors, height=0.6)
    for place, value in zip(places, values.values(), strict=True):
        axes.text(value, place, f"  {value:.3g}", va="center", fontsize=13)
    axes.set_yticks(places, [name.replace(", ", ",\n", 1) for name in values])
    axes.invert_yaxis()
    axes.set_xlim(0, 1.15 * max(values.values()))
    axes.set_xlabel(label)
    axes.spines[["top", "right"]].set_visible(False)
    return axes


def compare_intervals(intervals: Mapping[str, PredictionIntervals], targets: Floats, label: str) -> Axes:
    """Draw two answers for the same rows side by side, with the truth."""
    axes, places = small_axes(), np.arange(len(targets), dtype=np.float64)
    for (name, some), color, shift in zip(intervals.items(), (PLAIN, CHOSEN), (-0.2, 0.2), strict=True):
        axes.vlines(places + shift, some.lower, some.upper, color=color, linewidth=2.2, alpha=0.85, label=name)
    ends = np.concatenate([end for some in intervals.values() for end in (some.lower, some.upper)])
    low, high = float(ends.min()) - 2, 1.5 * float(np.quantile(ends, 0.97))  # one row must not flatten the others
    beyond = targets > high
    axes.scatter(places[~beyond], targets[~beyond], s=14, color="0.15", zorder=3, label="comments that came")
    if beyond.any():
        tops = np.full(int(beyond.sum()), high * 0.97)
        axes.scatter(places[beyond], tops, s=26, marker="^", color="0.15", zorder=3, label="more than shown")
    axes.axhline(0.0, color="0.5", linewidth=1)
    axes.set_ylim(low, high)
    axes.set_xticks([])
    axes.set_xlabel(label)
    axes.set_ylabel("comments")
    finish(axes).legend(loc="upper left", frameon=False)
    return axes


def size_against_evenness(points: Mapping[str, tuple[float, float]], strong: Collection[str]) -> Axes:
    """Draw each way at its mean size and the coverage of its worst tenth."""
    axes = small_axes()
    for name, (size, worst) in points.items():
        tuned, known = name.startswith("tuned"), name in strong
        color = CHOSEN if tuned else PLAIN if known else "0.6"
        axes.scatter([size], [worst], s=110 if known else 45, color=color, marker="*" if tuned else "o", zorder=3)
    axes.set_xlabel("mean number of labels in a set (left is smaller)")
    axes.set_ylabel("coverage of the worst tenth (up is more even)")
    axes.margins(y=0.12)
    axes.set_xlim(right=1.35 * max(size for size, _ in points.values()))
    finish(axes)
    _place_names(axes, points, strong)
    return axes


def _place_names(axes: Axes, points: Mapping[str, tuple[float, float]], strong: Collection[str]) -> None:
    """Write the name beside each point, at the first place where it hides no other name and no point."""
    from matplotlib.text import Annotation, Text
    from matplotlib.transforms import Bbox

    axes.figure.canvas.draw()  # so that places on the picture are known
    inside = axes.get_window_extent()
    taken = [Bbox.from_extents(x - 5, y - 5, x + 5, y + 5) for x, y in axes.transData.transform(list(points.values()))]
    for name in sorted(points, key=lambda one: one not in strong):
        trials: list[tuple[int, int, Annotation, Bbox]] = []
        for height, (side, shift) in product(NAME_HEIGHTS, NAME_SIDES.items()):
            text = axes.annotate(
                name,
                points[name],
                (shift, height),
                textcoords="offset points",
                horizontalalignment=side,
                fontsize=8,
                weight="bold" if name in strong else "normal",
                arrowprops={"arrowstyle": "-", "color": "0.6", "linewidth": 0.8} if abs(height) > 11 else None,  # noqa: PLR2004
            )
            text.get_window_extent()  # moves the text to its place; the box includes the line
            box = Text.get_window_extent(text)
            hidden = box.count_overlaps(taken) + 10 * (inside.x0 > box.x0 or inside.x1 < box.x1)
            trials.append((hidden, len(trials), text, box))
            if not hidden:
                break
        best = min(trials, key=lambda one: one[:2])
        for trial in trials:
            if trial is not best:
                trial[2].remove()
        taken.append(best[3])
