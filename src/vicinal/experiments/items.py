"""The items that can be reproduced: each table and figure of the paper, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from vicinal.experiments import figures, other_items, set_items
from vicinal.experiments.results import Mean, Results
from vicinal.experiments.specs import Plan
from vicinal.experiments.studies import BANDWIDTH_SHARE, DRAWN, LOCALIZED
from vicinal.experiments.tables import TextTable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Tables = Callable[[Plan, Results], list[TextTable]]
Words = Callable[[Plan, Results], list[str]]
Draw = Callable[[Plan, Results], "Figure | None"]


@dataclass(frozen=True)
class Item:
    """A table or a figure: the studies it is put together from, and how."""

    title: str
    studies: Sequence[str]
    tables: Tables | None = None
    draw: Draw | None = None
    words: Words | None = None
    about: str = ""


def _localization(network: str, plan: Plan, results: Results) -> Figure | None:
    one = next(one for one in plan.networks if (one.dataset, one.name) == (LOCALIZED, network))
    runs = results.runs("bandwidths", one.key)
    if not runs:
        return None
    curves = {
        what: {
            name: [Mean.of([run[name][at][what] for run in runs]) for at in range(len(plan.widths))] for name in runs[0]
        }
        for what in ("coverage", "size")
    }
    title = (
        f"{one.dataset}, {one.name}: {len(runs)} runs, k = {100 * BANDWIDTH_SHARE:.0f} % of the calibration rows, Exact"
    )
    return figures.against_bandwidth(plan.widths, curves["coverage"], curves["size"], one.coverage, title)


def _localization_words(network: str, plan: Plan, results: Results) -> list[str]:
    one = next(one for one in plan.networks if (one.dataset, one.name) == (LOCALIZED, network))
    runs = results.runs("bandwidths", one.key)
    if not runs:
        return []
    sizes = {
        name: [Mean.of([run[name][at]["size"] for run in runs]).mean for at in range(len(plan.widths))]
        for name in runs[0]
    }
    least = min(range(len(plan.widths)), key=lambda at: sizes["NCP(APS)"][at])
    return [
        f"- NCP(APS) is smallest at bandwidth {plan.widths[least]:g}: {sizes['NCP(APS)'][least]:.2f} labels against "
        f"{sizes['APS'][0]:.2f} of APS. With all rows, {sizes['NCP(APS)-All'][-1]:.2f} at bandwidth "
        f"{plan.widths[-1]:g}: APS again. With k neighbors a wide bandwidth is no APS ({sizes['NCP(APS)'][-1]:.2f}): "
        "equal weights of the k nearest remain a neighborhood."
    ]


def _epochs(plan: Plan, results: Results) -> Figure | None:
    del plan
    found = _epoch_statistics(results)
    if found is None:
        return None
    epochs = sorted(map(int, found))
    told = [found[str(epoch)] for epoch in epochs]
    sizes = {
        name.replace(", Split", "").replace(", Exact", " with neighbors"): [
            Mean.of([run["size"] for run in one["sets"][name]]) for one in told
        ]
        for name in told[0]["sets"]
    }
    title = "ResNet-50 on CIFAR-100 while it is trained (test images)"
    return figures.against_epochs(epochs, [one["silhouette"] for one in told], sizes, title)


def _epoch_statistics(results: Results) -> dict[str, Any] | None:
    runs = [piece.result for pieces in results.done.get("epochs", {}).values() for piece in pieces]
    return runs[0]["statistics"] if runs else None


def _epoch_words(plan: Plan, results: Results) -> list[str]:
    del plan
    found = _epoch_statistics(results)
    if found is None:
        return []
    lines = []
    for epoch in (min(found, key=int), max(found, key=int)):
        one = found[epoch]
        mean, covered = (
            {name: Mean.of([run[what] for run in runs]).mean for name, runs in one["sets"].items()}
            for what in ("size", "coverage")
        )
        lines.append(
            f"- After {epoch} epochs: silhouette {one['silhouette']:.3f}, accuracy {one['accuracy']:.3f}; "
            + "; ".join(f"{name} {mean[name]:.2f} at coverage {covered[name]:.3f}" for name in mean)
            + "."
        )
    return lines


def _drawing(plan: Plan, results: Results) -> Figure | None:
    for pieces in results.done.get("drawings", {}).values():
        title = f"t-SNE of {plan.drawn:,} {DRAWN[0]} test images: {DRAWN[1]}, by true class"
        return figures.embeddings(pieces[0].result, title)
    return None


SETS = ("sets", "tuned")
SCHEME = (
    "Temperature fitted on the scaling rows; penalty, k and bandwidth chosen on the tuning rows from the paper's "
    "lists; mean (standard deviation over runs)."
)
ITEMS: Mapping[str, Item] = {
    "splits": Item("The splits", ("sets",), set_items.splits),
    "set-size": Item(
        "Mean set size", SETS, partial(set_items.matrix, what="size"), words=set_items.words, about=SCHEME
    ),
    "coverage": Item("Marginal coverage", SETS, partial(set_items.matrix, what="coverage"), about=SCHEME),
    "every-way": Item("Every way, network by network", SETS, set_items.details, about=SCHEME),
    "ncp-all": Item("NCP-All against NCP", ("sets",), set_items.everyone, about=SCHEME),
    "neighbor-share": Item("Share of calibration rows used as neighbors", ("sets",), set_items.shares),
    "interval-length": Item(
        "Interval length", ("intervals",), partial(other_items.intervals, what="size"),
        words=other_items.interval_words,
    ),
    "interval-coverage": Item("Interval coverage", ("intervals",), partial(other_items.intervals, what="coverage")),
    "silhouette": Item("Silhouettes", ("silhouettes",), other_items.silhouettes),
    **{
        f"localization-{name.lower()}": Item(
            f"Size and coverage against the localization parameter, {name}", ("bandwidths",),
            draw=partial(_localization, name), words=partial(_localization_words, name),
        )
        for name in ("ResNet-18", "ResNet-50", "ResNet-101")
    },
    "epochs": Item("Clustering and set size against epochs", ("epochs",), draw=_epochs, words=_epoch_words),
    "t-sne": Item("t-SNE of raw pixels and representations", ("drawings",), draw=_drawing),
    "runtime": Item("Runtime", ("times", "inference"), other_items.times, words=other_items.time_words),
}  # fmt: skip
