"""What the numbers show of the sets, each effect apart; sizes are compared at matched coverage only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from vicinal.experiments import paper
from vicinal.experiments.results import MATCHED, Mean, Results
from vicinal.experiments.set_items import mean_of, title
from vicinal.experiments.specs import Network, Plan
from vicinal.experiments.tables import TextTable

FORCED, NEVER, NEAR = "APS, top label forced in, Split", "NeverEmpty(APS), Split", "NeverEmpty(APS), Exact"
EFFECTS: Mapping[str, tuple[str, str]] = {
    "the top label forced in after calibrating APS": ("APS, Split", FORCED),
    "instead, that rule calibrated: NeverEmpty(APS)": (FORCED, NEVER),
    "released code on APS, from forced in after": (FORCED, "Released code, APS"),
    "released code on APS, from NeverEmpty(APS)": (NEVER, "Released code, APS"),
    "neighborhood on APS": ("APS, Split", "APS, Exact"),
    "neighborhood on NeverEmpty(APS)": (NEVER, NEAR),
    "neighborhood on RAPS": ("RAPS, Split", "RAPS, Exact"),
    "neighborhood on NeverEmpty(RAPS)": ("NeverEmpty(RAPS), Split", "NeverEmpty(RAPS), Exact"),
    "all rows as neighbors instead of k, NeverEmpty(APS)": (NEAR, f"{NEAR}, all rows"),
}
"""What is changed, and the ways before and after."""


def effects(plan: Plan, results: Results) -> list[TextTable]:
    """Return how each effect changes the size, a column per network."""
    networks = [one for one in plan.networks if results.runs("sets", one.key)]
    rows = []
    for effect, (before, after) in EFFECTS.items():
        cells = []
        for network in networks:
            change, matched = _change(results, network, before, after)
            percent = round(100 * change)
            cells.append(f"{percent:+d} %".replace("+0", "0") + ("" if matched else "†"))
        rows.append([effect, *cells])
    caption = "Change of the mean size by each effect. †: the coverages are not matched, so the sizes do not compare."
    return [TextTable(caption, ["", *map(title, networks)], rows)] if networks else []


def _change(results: Results, network: Network, before: str, after: str) -> tuple[float, bool]:
    """Return the change of the size as a share, and whether the coverages are matched."""
    size, changed, coverage, other = (
        mean_of(results, network, way, what) for what in ("size", "coverage") for way in (before, after)
    )
    assert size is not None and changed is not None and coverage is not None and other is not None  # noqa: S101, PT018
    return changed.mean / size.mean - 1, abs(other.mean - coverage.mean) <= MATCHED


def size_words(plan: Plan, results: Results) -> list[str]:
    """Return where the paper's gain comes from, as far as the numbers show it."""
    both = _both(plan, results)
    if not both:
        return []
    printed = [paper.SIZES[one.dataset, one.name] for one in both]
    covered = [paper.COVERAGES[one.dataset, one.name] for one in both]
    gain = _mean([row["NCP(APS)"].mean / row["APS"].mean - 1 for row in printed])
    fall = _mean([row["NCP(APS)"].mean - row["APS"].mean for row in covered])
    ours = {
        way: _mean([_change(results, one, FORCED, way)[0] for one in both])
        for way in (NEVER, "Released code, APS", NEAR)
    }
    falls = {way: _mean([_covers(results, one, way) - _covers(results, one, FORCED) for one in both]) for way in ours}
    told = [
        f"- From APS to NCP(APS) the paper's sets shrink by {-100 * gain:.0f} % on average over the {len(both)} "
        "networks "
        f"that are run here too, while its coverage falls by {-fall:.3f}. From the baseline as the paper ran it (top "
        "label "
        f"forced in after), ours shrink by {-100 * ours[NEVER]:.0f} % with NeverEmpty(APS) and no neighborhood "
        "(coverage "
        f"falls by {-falls[NEVER]:.3f}), by {-100 * ours['Released code, APS']:.0f} % with the released code "
        f"({-falls['Released code, APS']:.3f}), and by {-100 * ours[NEAR]:.0f} % with NeverEmpty(APS) and a "
        "neighborhood "
        f"({-falls[NEAR]:.3f}): calibrating the sets that are returned gives {100 * ours[NEVER] / ours[NEAR]:.0f} % "
        "of that."
    ]
    for score in ("APS", "NeverEmpty(APS)", "RAPS", "NeverEmpty(RAPS)"):
        changes = [_change(results, one, f"{score}, Split", f"{score}, Exact") for one in _run(plan, results)]
        matched = [100 * change for change, fair in changes if fair]
        if matched:
            told.append(
                f"- The neighborhood itself, Exact against Split on {score}: {_mean(matched):+.1f} % on average "
                f"({min(matched):+.1f} to {max(matched):+.1f}), over the {len(matched)} of {len(changes)} networks "
                "whose "
                "coverages match."
            )
    return told


def coverage_words(plan: Plan, results: Results) -> list[str]:
    """Return how far coverages are from their targets."""
    networks = _run(plan, results)
    told = []
    for title_, ways in {
        "the top label forced in after": ("{}, top label forced in, Split",),
        "calibrated as returned or with NeverEmpty, Split or Exact": (
            "{}, Split", "NeverEmpty({}), Split", "{}, Exact", "NeverEmpty({}), Exact",
        ),
        "the released code": ("Released code, {}",),
    }.items():  # fmt: skip
        gaps = [
            _covers(results, one, way.format(score)) - one.coverage
            for one in networks for way in ways for score in ("APS", "RAPS")
        ]  # fmt: skip
        if gaps:
            told.append(f"- With {title_}, mean coverages lie {min(gaps):+.3f} to {max(gaps):+.3f} from the target.")
    return told


def way_words(plan: Plan, results: Results) -> list[str]:
    """Return what the neighborhood does to the least covered tenth."""
    told = []
    for score in ("APS", "NeverEmpty(APS)", "NeverEmpty(RAPS)"):
        pairs = [
            [mean_of(results, one, f"{score}, {way}", "worst_decile") for way in ("Split", "Exact")]
            for one in _run(plan, results)
        ]
        moves = [after.mean - before.mean for before, after in pairs if before is not None and after is not None]
        if moves:
            told.append(
                f"- The least covered tenth (by the model's confidence) under {score}: the neighborhood moves its "
                "coverage "
                f"by {_mean(moves):+.3f} on average ({min(moves):+.3f} to {max(moves):+.3f})."
            )
    return told


def everyone_words(plan: Plan, results: Results) -> list[str]:
    """Return what k neighbors gain over all rows, at matched coverage."""
    told = []
    for score in ("APS", "NeverEmpty(APS)"):
        changes = [_change(results, one, f"{score}, Exact, all rows", f"{score}, Exact") for one in _run(plan, results)]
        matched = [100 * change for change, fair in changes if fair]
        if matched:
            told.append(
                f"- k neighbors instead of all rows, {score}, Exact: {_mean(matched):+.1f} % on average "
                f"({min(matched):+.1f} to {max(matched):+.1f}), where coverages match ({len(matched)} of "
                f"{len(changes)} "
                "networks)."
            )
    return told


def share_words(plan: Plan, results: Results) -> list[str]:
    """Return the range of the chosen shares."""
    found = [
        100 * run["APS, Exact"]["neighbor_share"]
        for one in _both(plan, results)
        for run in results.runs("sets", one.key)
    ]
    if not found:
        return []
    printed = [paper.SHARES[one.dataset, one.name] for one in _both(plan, results)]
    return [
        f"- The paper's shares for these networks are {min(printed):g} to {max(printed):g} %; chosen here, run by "
        "run, from "
        f"{', '.join(f'{100 * share:g}' for share in plan.lists.shares)} %: {min(found):g} to {max(found):g} %."
    ]


def _run(plan: Plan, results: Results) -> list[Network]:
    return [one for one in plan.networks if results.runs("sets", one.key)]


def _both(plan: Plan, results: Results) -> list[Network]:
    """Return the networks that the paper has and that were run."""
    return [one for one in _run(plan, results) if (one.dataset, one.name) in paper.SIZES]


def _covers(results: Results, network: Network, way: str) -> float:
    found = mean_of(results, network, way, "coverage")
    assert found is not None  # noqa: S101  every way was run, or none
    return found.mean


def _mean(values: Sequence[float]) -> float:
    return Mean.of(values).mean
