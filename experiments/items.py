"""The items that can be reproduced: each table and figure of the paper, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from experiments import cluster_items, figures, interval_items, set_items, set_words, time_items
from experiments.means import Mean, Results
from experiments.specs import Plan
from experiments.studies import BANDWIDTH_SHARE, DRAWN, LOCALIZED
from experiments.tables import TextTable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Tables = Callable[[Plan, Results], list[TextTable]]
Words = Callable[[Plan, Results], list[str]]
Draw = Callable[[Plan, Results], "Figure | None"]


@dataclass(frozen=True)
class Item:
    """A table or a figure: the studies it is made from, and how."""

    title: str
    studies: Sequence[str]
    tables: Tables | None = None
    draw: Draw | None = None
    words: Words | None = None
    about: str = ""
    row: str = ""  # the one row of its studies that it shows; all where empty


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
        f"{one.dataset}, {one.name}: {len(runs)} runs (bands: standard deviation), k = {100 * BANDWIDTH_SHARE:.0f} % "
        "of the calibration rows, Exact"
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
    covered = {
        name: [Mean.of([run[name][at]["coverage"] for run in runs]).mean for at in range(len(plan.widths))]
        for name in runs[0]
    }
    least = min(range(len(plan.widths)), key=lambda at: sizes["NCP(APS)"][at])
    ends = ", ".join(f"{name} {found[-1]:.2f} ({covered[name][-1]:.3f})" for name, found in sizes.items())
    return [
        f"- NCP(APS) is smallest at bandwidth {plan.widths[least]:g}: {sizes['NCP(APS)'][least]:.2f} labels at "
        f"coverage {covered['NCP(APS)'][least]:.3f}, against {sizes['APS'][0]:.2f} of APS at {covered['APS'][0]:.3f}.",
        f"- At the widest, {plan.widths[-1]:g}: {ends}. With all rows as neighbors a wide bandwidth gives everyone "
        "nearly the same weight, which is APS; with k, the k nearest remain a neighborhood.",
    ]


def _epochs(plan: Plan, results: Results) -> Figure | None:
    del plan
    found = _epoch_statistics(results)
    if found is None:
        return None
    epochs = sorted(map(int, found))
    told = [found[str(epoch)] for epoch in epochs]
    sizes = {name: [Mean.of([run["size"] for run in one["sets"][name]]) for one in told] for name in told[0]["sets"]}
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
            f"- After {epoch} epoch{'s' * (int(epoch) > 1)}: silhouette {one['silhouette']:.3f}, accuracy "
            f"{one['accuracy']:.3f}; "
            + "; ".join(f"{name} {mean[name]:.2f} at coverage {covered[name]:.3f}" for name in mean)
            + "."
        )
        gain = {score: mean[f"{score}, Exact"] / mean[f"{score}, Split"] - 1 for score in ("APS", "NeverEmpty(APS)")}
        told = ", ".join(f"{100 * change:+.0f} % on {score}" for score, change in gain.items())
        lines.append(f"- The neighborhood then changes the size by {told}.")
    return lines


def _drawing(plan: Plan, results: Results) -> Figure | None:
    del plan
    for pieces in results.done.get("drawings", {}).values():
        found = pieces[0].result
        title = f"t-SNE of {len(found['labels']):,} {DRAWN[0]} test images: {DRAWN[1]}, by true class"
        return figures.embeddings(found, title)
    return None


SETS = ("sets", "difficulty", "tuned")
CHOSEN = (
    "Temperature fitted on the scaling rows. Chosen on the tuning rows: the penalty of RAPS and the bandwidth from "
    "the paper's lists, k from shares of the calibration rows (2.5, 5, 10, 15, 30, 50 %), since the paper prints no "
    "list of k. Mean (standard deviation over runs)."
)
SCHEME = (
    f"{CHOSEN} The released code tries 500 neighbors, all, and half-way. *Tuned* is `vicinal.tune` with its defaults "
    "on the tuning rows, which chooses score, probabilities and neighborhood (which may be everyone), then Exact. "
    "*Difficulty*: neighbors are the tenth of the calibration rows whose probabilities have the most similar entropy "
    "(`DifficultyMap(Entropy())`, `Uniform(0.1)`); nothing but the penalty of RAPS is chosen."
)
INTERVALS = ("intervals", "difficulty-intervals")
RECORDS_ABOUT = (
    "The paper's perceptron (15, 20, 30 nodes), trained ten times, each time on other rows; the 9,000 rows that it "
    "has not seen (600 of Concrete) are cut into thirds: calibration, tuning, test. Representation: the last hidden "
    "layer, float16. Gas turbine without CO and year; Facebook_1 with 25 columns recomputed from the raw ones; "
    "BlogFeedback: the publisher's training file. k and bandwidth are chosen on the tuning rows; NCP-All: all rows "
    "as neighbors; *difficulty*: neighbors by rank of the prediction and of the mean log residual of the neighbors "
    "among the tuning rows, `Uniform(0.1)`, nothing chosen; *Tuned* is `vicinal.tune`. Mean (standard deviation over "
    "runs). One infinite interval makes the mean infinite: PaperLiteral answers so where no score of the neighbors "
    "ranks high enough."
)
ITEMS: Mapping[str, Item] = {
    "splits": Item("The splits", ("sets",), set_items.splits),
    "set-size": Item(
        "Mean set size", SETS, lambda plan, results: [
            *set_items.matrix(plan, results, "size"), *set_words.effects(plan, results),
        ],
        words=set_words.size_words, about=SCHEME,
    ),
    "coverage": Item(
        "Marginal coverage", SETS, partial(set_items.matrix, what="coverage"), words=set_words.coverage_words,
        about=SCHEME,
    ),
    "every-way": Item(
        "Every way, network by network", SETS, set_items.details, words=set_words.way_words, about=SCHEME
    ),
    "ncp-all": Item(
        "NCP-All against NCP", ("sets",), set_items.everyone, words=set_words.everyone_words, about=CHOSEN
    ),
    "neighbor-share": Item(
        "Share of calibration rows used as neighbors", ("sets",), set_items.shares, words=set_words.share_words
    ),
    "interval-length": Item(
        "Interval length", INTERVALS, partial(interval_items.intervals, what="size"),
        words=interval_items.interval_words, about=RECORDS_ABOUT,
    ),
    "interval-coverage": Item(
        "Interval coverage", INTERVALS, partial(interval_items.intervals, what="coverage"),
        words=interval_items.interval_coverage_words, about=RECORDS_ABOUT,
    ),
    "silhouette": Item(
        "Silhouettes", ("silhouettes",), cluster_items.silhouettes, words=cluster_items.silhouette_words,
        about="Of the representations as the files hold them.",
    ),
    **{
        f"localization-{name.lower()}": Item(
            f"Size and coverage against the localization parameter, {LOCALIZED}, {name}", ("bandwidths",),
            draw=partial(_localization, name), words=partial(_localization_words, name),
            row=f"{LOCALIZED}-{name}".lower(),
        )
        for name in ("ResNet-18", "ResNet-50", "ResNet-101")
    },
    "epochs": Item(
        "Clustering and set size against epochs", ("epochs",), draw=_epochs, words=_epoch_words,
        about="Measured where the network was trained, on the whole representation (2,048 columns), by "
        "`experiments/train_cifar.py`, 60 epochs (the paper: up to 500): 3,000 calibration, 1,000 scaling, 3,000 "
        "tuning and 3,000 test rows; lines are means over three cuts, bands their standard deviation.",
    ),
    "t-sne": Item("t-SNE of raw pixels and representations", ("drawings",), draw=_drawing),
    "runtime": Item("Runtime", ("times", "inference"), time_items.times, words=time_items.time_words),
}  # fmt: skip
