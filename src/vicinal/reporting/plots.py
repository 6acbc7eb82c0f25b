"""Pictures of numbers computed elsewhere; matplotlib is imported here, and for the paper's figures."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vicinal._util.extras import needs
from vicinal.evaluation.metrics import Evaluation

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7F7F7F", "#000000")
"""Okabe and Ito: told apart with any color vision, and by their markers without color."""

MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")

LINES = (":", "--", "-", "-.")

BOTH = (("split", COLORS[1], "//"), ("neighborhood", COLORS[0], None))
"""What is compared, with color and hatching."""


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

    return _save(draw, path)


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

    return _save(draw, path)


def static(data: Mapping[str, Any], folder: str | Path) -> list[Path]:
    """Draw what a report shows (see `vicinal.reporting.gathered`), one file for each of its plots."""
    folder = Path(folder)
    drawn = [
        size_histogram(data, folder / "sizes.png"),
        against_target(data, "coverage", folder / "coverage_against_target.png"),
        against_target(data, "size", folder / "size_against_target.png"),
        coverage_by_group(data["tenths"], data, folder / "coverage_by_tenth.png"),
    ]
    if data["classes"] is not None:
        drawn.append(coverage_by_group(data["classes"], data, folder / "coverage_by_class.png"))
    if data["frontier"] is not None:
        drawn.append(tuning_frontier(data["frontier"], folder / "tuning_frontier.png"))
    if data["map"] is not None:
        drawn.append(landscape(data["map"], folder / "map.png"))
    return drawn


def size_histogram(data: Mapping[str, Any], path: Path) -> Path:
    """Draw how many rows have each size, Split beside neighborhood."""
    sizes = data["sizes"]

    def draw(axes: Axes) -> None:
        places = range(len(sizes["values"]))
        for shift, (name, color, hatch) in zip((-0.2, 0.2), BOTH, strict=True):
            axes.bar([x + shift for x in places], sizes[name], 0.4, label=name, color=color, hatch=hatch)
        axes.set_xticks(list(places), sizes["values"], rotation=0 if len(sizes["values"]) <= 16 else 90)  # noqa: PLR2004
        axes.set_xlabel(f"size ({data['headline']['size_word']})")
        axes.set_ylabel("test rows")
        axes.set_title("How large the answers are")

    return _save(draw, path)


def against_target(data: Mapping[str, Any], what: str, path: Path) -> Path:
    """Draw coverage or mean size against the target, Split beside neighborhood."""
    curve, headline = data["curve"], data["headline"]

    def draw(axes: Axes) -> None:
        for (name, color, _), line, marker in zip(BOTH, ("--", "-"), MARKERS, strict=False):
            axes.plot(curve["targets"], curve[name][what], line, color=color, marker=marker, label=name)
        if what == "coverage":
            axes.plot(curve["targets"], curve["targets"], ":", color="0.5", label="what was asked for")
        axes.axvline(headline["target"], color="0.6", linewidth=1)
        axes.set_xlabel("target coverage")
        axes.set_ylabel("coverage" if what == "coverage" else f"mean size ({headline['size_word']})")
        axes.set_title("Coverage against target" if what == "coverage" else "Mean size against target")

    return _save(draw, path)


def coverage_by_group(groups: Mapping[str, Any], data: Mapping[str, Any], path: Path) -> Path:
    """Draw the coverage of each group of rows, in ascending order of the neighborhood's where groups are many."""
    many = len(groups["names"]) > 10  # noqa: PLR2004
    order = sorted(range(len(groups["names"])), key=lambda at: groups["neighborhood"][at] if many else at)

    def draw(axes: Axes) -> None:
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

    return _save(draw, path)


def tuning_frontier(frontier: Mapping[str, Any], path: Path) -> Path:
    """Draw every candidate's size and worst tenth, those nobody beats, and the winner."""
    candidates, best = frontier["candidates"], frontier["candidates"][frontier["winner"]]
    kinds = {
        "candidate": ([one for one in candidates if not one["everyone"]], ".", "0.7"),
        "without neighborhood": ([one for one in candidates if one["everyone"]], "s", COLORS[1]),
    }

    def draw(axes: Axes) -> None:
        for name, (some, marker, color) in kinds.items():
            hollow: dict[str, Any] = {"facecolors": "none", "edgecolors": color} if marker == "s" else {"color": color}
            axes.scatter(*_places(some), marker=marker, label=name, **hollow)
        axes.plot(*_places([candidates[at] for at in frontier["frontier"]]), "D-", color=COLORS[2], label="frontier")
        axes.scatter(*_places([best]), marker="*", s=220, color=COLORS[4], edgecolor="k", zorder=3, label="chosen")
        axes.set_xlabel("mean size on the tuning rows")
        axes.set_ylabel("coverage of the worst tenth")
        axes.set_title("Left is smaller, up is more even")

    return _save(draw, path)


def landscape(data: Mapping[str, Any], path: Path) -> Path:
    """Draw calibration rows in two dimensions, colored by their local threshold."""

    def draw(axes: Axes) -> None:
        found = axes.scatter(data["x"], data["y"], c=data["threshold"], s=8, cmap="viridis", label="calibration row")
        axes.figure.colorbar(found, ax=axes, label="local threshold")
        axes.set_aspect("equal")
        axes.set_title(f"Where thresholds are high and low ({data['method']})")

    return _save(draw, path)


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


def _save(draw: Callable[[Axes], None], path: Path) -> Path:
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
