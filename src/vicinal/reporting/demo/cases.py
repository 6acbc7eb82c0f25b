"""The three cases: a classifier on shifted data, counts with a known range, and a classifier on familiar data."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from vicinal._util.arrays import Ints
from vicinal.calibration import Exact, Split
from vicinal.datasets import load_cifar100_resnet18, load_facebook_comments, load_tiny_imagenet_resnet50
from vicinal.neighbors.localizers import Exponential, Uniform
from vicinal.regions import PredictionIntervals
from vicinal.reporting.demo import pictures
from vicinal.reporting.demo.compare import Calibrated, Case, CaseResult, CaseRows, Conclusion, KnownClasses, Naive, Way
from vicinal.scores import APS, LAC, RAPS, ClassificationScore, NeverEmpty
from vicinal.tuning import DecileGap, MeanSize

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NEAR = Exponential(n_neighbors=200, bandwidth=2.0)
TENTH = Uniform(0.1)
MATCHED = 0.005
"""Sizes are compared without a remark if mean coverages differ by no more than this."""

SHOWN_INTERVALS = 60
"""Intervals that the picture of the counts shows."""


def load_shifted() -> CaseRows:
    """Return the rows of the shifted data."""
    data = load_tiny_imagenet_resnet50()
    return CaseRows(data.outputs, data.labels)


def occurring_classes() -> Ints:
    """Return the classes that occur in the shifted data."""
    return np.unique(load_tiny_imagenet_resnet50().labels)


def load_counts() -> CaseRows:
    """Return the numbers of comments."""
    data = load_facebook_comments()
    return CaseRows(data.outputs, data.targets)


def load_images() -> CaseRows:
    """Return the rows of CIFAR-100."""
    data = load_cifar100_resnet18()
    return CaseRows(data.outputs, data.labels)


PLAIN = Calibrated(lambda fitted: {"score": LAC(), "method": Split(), "probability_model": fitted.temperature})
"""Plain split conformal prediction of a classifier: one threshold for all rows."""


def split(score: ClassificationScore) -> Way:
    """Return plain split with a score."""
    return Calibrated(
        lambda fitted: {"score": score, "method": Split(), "probability_model": fitted.temperature},
    )


def local(score: ClassificationScore) -> Way:
    """Return the exact neighborhood with a score."""
    return Calibrated(
        lambda fitted: {
            "score": score,
            "localizer": NEAR,
            "method": Exact(),
            "probability_model": fitted.temperature,
        },
    )


def coverages(result: CaseResult) -> str:
    """Return both coverages in words."""
    plain, chosen = result.plain.found.coverage, result.chosen.found.coverage
    words = f"Coverage is {chosen:.3f}; plain split's is {plain:.3f}, and {result.coverage:g} was asked for."
    return words if abs(plain - chosen) <= MATCHED else f"{words} They differ, so sizes are not comparable."


def conclude_shifted(result: CaseResult) -> Conclusion:
    """Say how many labels the votes save."""
    plain, chosen = result.plain.found.mean_size, result.chosen.found.mean_size
    known = result.measured[TOLD].found.mean_size
    change = f"{plain / chosen:.1f} times smaller" if chosen <= plain else f"{chosen / plain:.1f} times larger"
    return Conclusion(
        f"Votes of 1,500 labeled rows make the sets {change}, without any training: {chosen:.3g} labels instead of "
        f"{plain:.3g}.",
        f"{coverages(result)} Much of the gain is learning which classes occur: plain split that knows them "
        f"beforehand needs {known:.3g} labels.",
    )


def conclude_counts(result: CaseResult) -> Conclusion:
    """Say how much shorter the intervals are."""
    plain, chosen, even = result.plain, result.chosen, result.measured[EVEN]
    change = chosen.found.mean_size / plain.found.mean_size - 1
    return Conclusion(
        f"Told that a count is never negative, and tuned, vicinal makes intervals {abs(change):.0%} "
        f"{'shorter' if change <= 0 else 'longer'}: {chosen.found.mean_size:.3g} instead of "
        f"{plain.found.mean_size:.3g} comments.",
        f"{coverages(result)} Plain split misses busy posts: the worst tenth is covered {plain.worst:.0%} of the time. "
        f"Tuned for even coverage it is {even.worst:.0%}, with intervals of {even.found.mean_size:.3g} comments.",
    )


def conclude_images(result: CaseResult) -> Conclusion:
    """Say what even coverage costs, and what the smallest sets are."""
    plain, chosen, small = result.plain, result.chosen, result.measured[SMALL]
    if chosen.worst <= plain.worst or chosen.found.mean_size <= plain.found.mean_size:
        return Conclusion(
            f"Tuned for even coverage, sets have {chosen.found.mean_size:.3g} labels and the worst tenth is covered "
            f"{chosen.worst:.0%} of the time; tuned for size, it is {small.found.mean_size:.3g} labels and "
            f"{small.worst:.0%}; plain split has {plain.found.mean_size:.3g} labels and {plain.worst:.0%}.",
            coverages(result),
        )
    return Conclusion(
        "Size and even coverage are a trade-off: tuned for even coverage the worst tenth is covered "
        f"{chosen.worst:.0%} instead of {plain.worst:.0%} of the time, for {chosen.found.mean_size:.3g} instead of "
        f"{plain.found.mean_size:.3g} labels; tuned for size it takes {small.found.mean_size:.3g} labels, at "
        f"{small.worst:.0%}.",
        coverages(result),
    )


def draw_shifted(result: CaseResult) -> Axes:
    """Draw the mean set size of each way as a bar."""
    names = [name for name in result.measured if name != NAIVE]
    return pictures.draw_bars(
        {name: result.measured[name].found.mean_size for name in names},
        "mean number of labels in a set",
        strong=result.case.chosen,
    )


def draw_counts(result: CaseResult) -> Axes:
    """Draw intervals of some posts, plain and chosen, with the truth."""
    plain, chosen = (result.first[name].regions for name in (result.case.plain, result.case.chosen))
    assert isinstance(plain, PredictionIntervals)  # noqa: S101  a regression has intervals
    assert isinstance(chosen, PredictionIntervals)  # noqa: S101
    order = np.argsort(result.first[result.case.plain].order, kind="stable")
    busy = order[len(order) // 2 : -len(order) // 50]  # half of the posts get next to no comment, a few get hundreds
    some = busy[np.linspace(0, len(busy) - 1, SHOWN_INTERVALS).astype(int)]
    return pictures.compare_intervals(
        {"plain split": plain[some], "range known, tuned": chosen[some]},
        np.asarray(result.test.targets, np.float64)[some],
        "posts, from quiet to busy as the model predicts",
    )


def as_hard(score: ClassificationScore) -> Way:
    """Return the exact neighborhood of rows that are as hard, with a score."""
    return Calibrated(
        lambda fitted: {
            "score": score,
            "localizer": TENTH,
            "representation_map": fitted.difficulty,
            "method": Exact(),
            "probability_model": fitted.temperature,
        },
    )


def draw_images(result: CaseResult) -> Axes:
    """Draw mean size against the coverage of the worst tenth."""
    return pictures.size_against_evenness(
        {name: (one.found.mean_size, one.worst) for name, one in result.measured.items()},
        strong=(result.case.plain, SMALL, EVEN),
    )


NAIVE = "naive, uncalibrated"
TOLD = "Split, LAC, told the 200 classes"
VOTES = "Split, LAC, neighbors' votes"
RANGED = "Split, range known"
SMALL = "tuned, smallest"
EVEN = "tuned, even"

SHIFTED = Case(
    name="shifted",
    title="A classifier on shifted data",
    question="A network that knows 1,000 classes from sharp photographs sees small, blurred pictures of 200 of them. "
    "It is right 37 % of the time. Can its sets still be short?",
    data="ImageNet ResNet-50 on Tiny-ImageNet",
    load=load_shifted,
    parts={"calibration": 1000, "tuning": 1500, "test": 1500},
    ways={
        NAIVE: Naive(),
        "Split, LAC": PLAIN,
        TOLD: KnownClasses(PLAIN, occurring_classes),
        VOTES: Calibrated(lambda fitted: {"score": LAC(), "method": Split(), "probability_model": fitted.votes}),
    },
    plain="Split, LAC",
    chosen=VOTES,
    conclude=conclude_shifted,
    draw=draw_shifted,
)

COUNTS_RANGE = (0.0, None)

COUNTS = Case(
    name="counts",
    title="Counts with a known range",
    question="How many comments will a post get in the next hours? A count is never negative: what is that worth?",
    data="Facebook comments, perceptron",
    load=load_counts,
    parts={"calibration": 3000, "tuning": 1500, "test": 4500},
    ways={
        "Split": Calibrated(lambda _: {"method": Split()}),
        RANGED: Calibrated(lambda _: {"method": Split(), "target_range": COUNTS_RANGE}),
        SMALL: Calibrated(lambda fitted: fitted.tune(SMALL, MeanSize(), COUNTS_RANGE)),
        EVEN: Calibrated(lambda fitted: fitted.tune(EVEN, DecileGap(at_most=0.15), COUNTS_RANGE)),
    },
    plain="Split",
    chosen=SMALL,
    conclude=conclude_counts,
    draw=draw_counts,
)

IMAGES = Case(
    name="images",
    title="An image classifier on familiar data",
    question="A network of 100 classes sees pictures like those it was trained on. How small can its sets be, and how "
    "evenly can the misses be spread?",
    data="CIFAR-100, ResNet-18",
    load=load_images,
    parts={"calibration": 1500, "tuning": 1000, "test": 1500},
    ways={
        NAIVE: Naive(),
        "Split, LAC": PLAIN,
        "Split, APS": split(APS()),
        "Split, RAPS": split(RAPS(rank_penalty=0.01, free_ranks=5)),
        "Split, NeverEmpty(APS)": split(NeverEmpty(APS())),
        "Exact, LAC": local(LAC()),
        "Exact, NeverEmpty(APS)": local(NeverEmpty(APS())),
        "Exact, NeverEmpty(RAPS)": local(NeverEmpty(RAPS(rank_penalty=0.01, free_ranks=5))),
        "as hard, APS": as_hard(APS()),
        "as hard, NeverEmpty(APS)": as_hard(NeverEmpty(APS())),
        SMALL: Calibrated(lambda fitted: fitted.tune(SMALL, MeanSize(), None)),
        EVEN: Calibrated(lambda fitted: fitted.tune(EVEN, DecileGap(at_most=0.08), None)),
    },
    plain="Split, LAC",
    chosen=EVEN,
    conclude=conclude_images,
    draw=draw_images,
)

CASES = (SHIFTED, COUNTS, IMAGES)
