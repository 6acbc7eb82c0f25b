"""Comments on the sets, one effect at a time; sizes are compared at matched coverage only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from experiments import paper
from experiments.classification import DIFFICULTY
from experiments.means import MATCHED, Mean, Results
from experiments.set_items import mean_of, title
from experiments.specs import Network, Plan
from experiments.tables import TextTable

FORCED, NEVER, NEAR = "APS, top label forced in, Split", "NeverEmpty(APS), Split", "NeverEmpty(APS), Exact"
RELEASED = "Released code, APS"
EFFECTS: Mapping[str, tuple[str, str]] = {
    "NeverEmpty(APS) from APS, both Split": ("APS, Split", NEVER),
    "neighborhood on APS: Split to Exact": ("APS, Split", "APS, Exact"),
    "neighborhood on NeverEmpty(APS): Split to Exact": (NEVER, NEAR),
    "neighborhood on RAPS: Split to Exact": ("RAPS, Split", "RAPS, Exact"),
    "neighborhood on NeverEmpty(RAPS): Split to Exact": ("NeverEmpty(RAPS), Split", "NeverEmpty(RAPS), Exact"),
    "difficulty on APS: Split to Exact": ("APS, Split", "APS, Exact, difficulty"),
    "difficulty on NeverEmpty(APS): Split to Exact": (NEVER, "NeverEmpty(APS), Exact, difficulty"),
    "difficulty on RAPS: Split to Exact": ("RAPS, Split", "RAPS, Exact, difficulty"),
    "difficulty on LAC: Split to Exact": ("LAC, Split", "LAC, Exact, difficulty"),
    "NeverEmpty(APS), Split, to the released code on APS": (NEVER, RELEASED),
    "NeverEmpty(APS), Exact: k neighbors to all rows": (NEAR, f"{NEAR}, all rows"),
    "APS, Split, to the top label forced in after": ("APS, Split", FORCED),
    "the top label forced in after to NeverEmpty(APS), Split": (FORCED, NEVER),
    "the top label forced in after to the released code on APS": (FORCED, RELEASED),
}
"""What is changed, and the ways before and after."""


def effects(plan: Plan, results: Results) -> list[TextTable]:
    """Return the effect of each change on the size, a column for each network."""
    networks = _run(plan, results)
    rows = []
    for effect, pair in EFFECTS.items():
        if pair[1].endswith(DIFFICULTY) and not results.done.get("difficulty"):
            continue
        cells = []
        for network in networks:
            change, matched = _change(results, network, *pair)
            cells.append(f"{round(change):+d} %".replace("+0", "0") + ("" if matched else "†"))
        rows.append([effect, *cells])
    caption = "Change of the mean size by each effect. †: the coverages are not matched, so the sizes do not compare."
    return [TextTable(caption, ["", *map(title, networks)], rows)] if networks else []


def size_words(plan: Plan, results: Results) -> list[str]:
    """Return comments on where the gain in the paper comes from."""
    both = _both(plan, results)
    if not both:
        return []
    gain = _mean([100 * (row["NCP(APS)"].mean / row["APS"].mean - 1) for row in _rows(paper.SIZES, both)])
    fall = _mean([row["NCP(APS)"].mean - row["APS"].mean for row in _rows(paper.COVERAGES, both)])
    told = [
        f"- The paper, from APS to NCP(APS), over the {len(both)} networks that are run here too: size {gain:+.0f} %, "
        f"coverage {fall:+.3f} on average. That is not one coverage, so neither is what stands against it here, from "
        "the top label forced in after: "
        + "; ".join(_against(results, both, way) for way in (NEVER, RELEASED, NEAR))
        + "."
    ]
    pairs = {
        "- At matched coverage, the top-label rule inside the score (APS to NeverEmpty(APS), no neighborhood): ": (
            "APS, Split", NEVER,
        ),
        "- At matched coverage, the released code against NeverEmpty(APS) with no neighborhood: ": (NEVER, RELEASED),
    }  # fmt: skip
    pairs |= {
        f"- At matched coverage, the neighborhood itself (Split to Exact) on {score}: ": (
            f"{score}, Split", f"{score}, Exact",
        )
        for score in ("APS", "NeverEmpty(APS)", "RAPS", "NeverEmpty(RAPS)")
    }  # fmt: skip
    if results.done.get("difficulty"):
        pairs |= {
            f"- At matched coverage, neighbors that are as hard (Split to Exact) on {score}: ": (
                f"{score}, Split", f"{score}, Exact, difficulty",
            )
            for score in ("APS", "NeverEmpty(APS)", "RAPS", "NeverEmpty(RAPS)", "LAC")
        }  # fmt: skip
    return told + [words + _match(results, _run(plan, results), *pair) for words, pair in pairs.items()]


def _against(results: Results, networks: Sequence[Network], way: str) -> str:
    size = _mean([_change(results, one, FORCED, way)[0] for one in networks])
    coverage = _mean([_covers(results, one, way) - _covers(results, one, FORCED) for one in networks])
    return f"{way} {size:+.0f} % ({coverage:+.3f})"


def _match(results: Results, networks: Sequence[Network], before: str, after: str) -> str:
    """Return the change in size where coverages match, and for how many networks they do."""
    changes = [_change(results, one, before, after) for one in networks]
    fair = [change for change, matched in changes if matched]
    if not fair:
        return f"for none of {len(changes)} networks do the coverages match."
    return f"{_spread(fair, '.1f', ' %')}, {len(fair)} of {len(changes)} networks."


def coverage_words(plan: Plan, results: Results) -> list[str]:
    """Return comments on the distance of coverages from their targets."""
    told = []
    for words, ways in {
        "The top label forced in after, Split": ("{}, top label forced in, Split",),
        "Calibrated as returned or with NeverEmpty, Split or Exact": (
            "{}, Split", "NeverEmpty({}), Split", "{}, Exact", "NeverEmpty({}), Exact",
        ),
        "The released code": ("Released code, {}",),
    }.items():  # fmt: skip
        gaps = [
            _covers(results, one, way.format(score)) - one.coverage
            for one in _run(plan, results) for way in ways for score in ("APS", "RAPS")
        ]  # fmt: skip
        if gaps:
            told.append(f"- {words}: mean coverages lie {min(gaps):+.3f} to {max(gaps):+.3f} from the target.")
    return told


def way_words(plan: Plan, results: Results) -> list[str]:
    """Return the effects of NeverEmpty and of the neighborhood on the least covered tenth, where coverages match."""
    told = []
    pairs = {"NeverEmpty(APS) instead of APS, Split": ("APS, Split", NEVER)}
    for score in ("APS", "NeverEmpty(APS)", "RAPS", "NeverEmpty(RAPS)"):
        pairs[f"The neighborhood (Split to Exact) on {score}"] = f"{score}, Split", f"{score}, Exact"
    for score in (
        ("APS", "NeverEmpty(APS)", "RAPS", "NeverEmpty(RAPS)", "LAC") if results.done.get("difficulty") else ()
    ):
        words = f"Neighbors that are as hard (Split to Exact) on {score}"
        pairs[words] = f"{score}, Split", f"{score}, Exact, difficulty"
    for words, (before, after) in pairs.items():
        fair = [one for one in _run(plan, results) if _change(results, one, before, after)[1]]
        numbers = [[mean_of(results, one, way, "worst_decile") for way in (before, after)] for one in fair]
        moves = [new.mean - old.mean for old, new in numbers if old is not None and new is not None]
        if moves:
            told.append(f"- {words} moves the coverage of the worst decile by {_spread(moves, '.3f')}.")
    return told


def everyone_words(plan: Plan, results: Results) -> list[str]:
    """Return what k neighbors gain over all rows at matched coverage, and where the list of bandwidths ends."""
    networks = [one for one in _run(plan, results) if (one.dataset, one.name) in paper.NEIGHBORS_ALL]
    told = [
        f"- k neighbors instead of all rows, {score}, Exact: "
        + _match(results, networks, f"{score}, Exact, all rows", f"{score}, Exact")
        for score in ("APS", "NeverEmpty(APS)")
        if networks
    ]
    least = plan.lists.bandwidths[0]
    chosen = [run["APS, Exact, all rows"]["localizer"] for one in networks for run in results.runs("sets", one.key)]
    ends = sum(f"bandwidth={least:g}" in one for one in chosen)
    if ends:
        told.append(
            f"- With all rows as neighbors, the narrowest bandwidth of the paper's list ({least:g}) is chosen in "
            f"{ends} of {len(chosen)} runs: narrower ones, as the figures of the localization parameter show, are not "
            "tried here."
        )
    return told


def share_words(plan: Plan, results: Results) -> list[str]:
    """Return how the chosen shares compare between data sets."""
    told = []
    for dataset in dict.fromkeys(one.dataset for one in _both(plan, results)):
        networks = [one for one in _both(plan, results) if one.dataset == dataset]
        printed = [paper.SHARES[one.dataset, one.name] for one in networks]
        found = [
            100 * run["APS, Exact"]["neighbor_share"] for one in networks for run in results.runs("sets", one.key)
        ]  # fmt: skip
        told.append(
            f"- {dataset}: the paper's {min(printed):g} to {max(printed):g} %, ours {_mean(found):.1f} % on average, "
            f"from {min(found):g} to {max(found):g} % in single runs."
        )
    return told


def _change(results: Results, network: Network, before: str, after: str) -> tuple[float, bool]:
    """Return the change of the size in percent, and whether the coverages are matched."""
    size, changed, coverage, other = (
        mean_of(results, network, way, what) for what in ("size", "coverage") for way in (before, after)
    )
    assert size is not None and changed is not None and coverage is not None and other is not None  # noqa: PT018
    return 100 * (changed.mean / size.mean - 1), abs(other.mean - coverage.mean) <= MATCHED


def _run(plan: Plan, results: Results) -> list[Network]:
    return [one for one in plan.networks if results.runs("sets", one.key)]


def _both(plan: Plan, results: Results) -> list[Network]:
    """Return the networks that are in the paper and were run."""
    return [one for one in _run(plan, results) if (one.dataset, one.name) in paper.SIZES]


def _rows(table: Mapping[paper.Key, paper.Columns], networks: Sequence[Network]) -> list[paper.Columns]:
    return [table[one.dataset, one.name] for one in networks]


def _covers(results: Results, network: Network, way: str) -> float:
    found = mean_of(results, network, way, "coverage")
    assert found is not None
    return found.mean


def _spread(values: Sequence[float], form: str, unit: str = "") -> str:
    """Return the mean with the smallest and the largest value."""
    return f"{_mean(values):+{form}}{unit} on average ({min(values):+{form}} to {max(values):+{form}})"


def _mean(values: Sequence[float]) -> float:
    return Mean.of(values).mean
