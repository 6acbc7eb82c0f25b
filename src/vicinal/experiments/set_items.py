"""The tables of sets: every way of making them, network by network, beside the paper's numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from vicinal.experiments import paper
from vicinal.experiments.results import MATCHED, Mean, Results
from vicinal.experiments.specs import PARTS, Network, Plan
from vicinal.experiments.tables import TextTable

NOT_RUN = "not run here"
DIGITS = {"size": 2, "coverage": 3, "worst_decile": 3}
WORDS = {"size": "Mean set size", "coverage": "Marginal coverage", "worst_decile": "Coverage of the worst decile"}
PRINTED: Mapping[str, Mapping[paper.Key, paper.Columns]] = {"size": paper.SIZES, "coverage": paper.COVERAGES}

COLUMNS = {
    "forced in after, Split": "{}, top label forced in, Split",
    "as returned, Split": "{}, Split",
    "NeverEmpty, Split": "NeverEmpty({}), Split",
    "forced in after, Exact": "{}, top label forced in, Exact",
    "as returned, Exact": "{}, Exact",
    "NeverEmpty, Exact": "NeverEmpty({}), Exact",
    "forced in after, PaperLiteral": "{}, top label forced in, PaperLiteral",
    "as returned, PaperLiteral": "{}, PaperLiteral",
    "NeverEmpty, PaperLiteral": "NeverEmpty({}), PaperLiteral",
    "released code": "Released code, {}",
}
"""What stands above a column, and the way that fills it."""


def matrix(plan: Plan, results: Results, what: str) -> list[TextTable]:
    """Return three tables of a number, a line per network: with APS, with RAPS, and the others."""
    found = []
    for score in ("APS", "RAPS"):
        heads = ["", f"paper: {score}", *COLUMNS, f"paper: NCP({score})"]
        rows = []
        for network in plan.networks:
            first, last = (_printed(network, name, what) for name in (score, f"NCP({score})"))
            cells = [_cell(results, network, way.format(score), what) for way in COLUMNS.values()]
            rows.append([_title(network), first, *cells, last])
        found.append(TextTable(f"{WORDS[what]}, {score}.", heads, rows))
    heads = ["", "paper: Naive", "naive", "LAC, Split", "tuned, Exact"]
    rows = []
    for network in plan.networks:
        tuned = results.tuned(network.key, what)
        cells = [_cell(results, network, way, what) for way in ("Naive", "LAC, Split")]
        last = NOT_RUN if tuned is None else tuned.text(DIGITS[what])
        rows.append([_title(network), _printed(network, "Naive", what), *cells, last])
    return [*found, TextTable(f"{WORDS[what]}, other sets; tuned over {_tuned_runs(plan)} runs.", heads, rows)]


def details(plan: Plan, results: Results) -> list[TextTable]:
    """Return for each network that was run a table of every way: coverage, size, worst decile, and the paper's size."""
    found = []
    for network in plan.networks:
        runs = results.runs("sets", network.key)
        if not runs:
            continue
        ways = [*runs[0], "tuned, Exact"]
        rows = []
        for way in ways:
            cells = [_cell(results, network, way, what) for what in ("coverage", "size", "worst_decile")]
            empty = _mean(results, network, way, "empty")
            rows.append([way, *cells, "" if empty is None else f"{empty.mean:.3f}", _papers(network, way)])
        heads = ["", "coverage", "size", "worst decile", "empty", "paper: coverage / size"]
        caption = f"{network.dataset}, {network.name}: target {network.coverage:g}, {len(runs)} runs. {network.note}"
        found.append(TextTable(caption.strip(), heads, rows))
    return found


def everyone(plan: Plan, results: Results) -> list[TextTable]:
    """Return NCP-All beside NCP: sizes and coverages."""
    ways = {
        "forced in after": "APS, top label forced in, Exact",
        "as returned": "APS, Exact",
        "NeverEmpty": "NeverEmpty(APS), Exact",
    }
    found = []
    for what in ("size", "coverage"):
        heads = ["", "paper: NCP-All", "paper: NCP"]
        heads += [f"{name}, {which}" for name in ways for which in ("all rows", "k nearest")]
        rows = []
        for network in plan.networks:
            printed = paper.NEIGHBORS_ALL.get((network.dataset, network.name))
            if printed is None:
                continue
            told = [_number(printed[f"{which} {what}"], DIGITS[what]) for which in ("NCP-All", "NCP")]
            cells = [
                _cell(results, network, f"{way}{end}", what) for way in ways.values() for end in (", all rows", "")
            ]
            rows.append([_title(network), *told, *cells])
        found.append(TextTable(f"{WORDS[what]} of APS, Exact: all calibration rows as neighbors, or k.", heads, rows))
    return found


def shares(plan: Plan, results: Results) -> list[TextTable]:
    """Return which share of the calibration rows NCP takes for neighbors, in percent."""
    rows = []
    for network in plan.networks:
        printed = f"{paper.SHARES[network.dataset, network.name]:.1f}"
        cells = []
        for way in ("APS, Exact", "NeverEmpty(APS), Exact"):
            mean = _mean(results, network, way, "neighbor_share")
            cells.append(NOT_RUN if mean is None else Mean.of([100 * mean.mean]).text(1))
        rows.append([_title(network), printed, *cells])
    heads = ["", "paper: NCP(APS)", "APS", "NeverEmpty(APS)"]
    return [TextTable("Percent of the calibration rows used as neighbors, the mean over runs.", heads, rows)]


def splits(plan: Plan, results: Results) -> list[TextTable]:
    """Return the sizes of the parts: the paper's, and those that were used."""
    rows = [[f"paper: {name}", *(f"{count:,}" for count in parts.values())] for name, parts in PARTS.items()]
    rows += [
        [_title(network), *(f"{count:,}" for count in network.parts.values())]
        for network in plan.networks
        if results.runs("sets", network.key)
    ]
    return [TextTable("Rows of each part.", ["", "calibration", "scaling", "validation (tuning)", "test"], rows)]


def words(plan: Plan, results: Results) -> list[str]:
    """Return what the numbers show of the sets, each effect apart; sizes are compared at matched coverage only."""
    pairs = {
        "Forcing the top label in after calibrating APS": ("{}, Split", "{}, top label forced in, Split", "APS"),
        "Calibrating with that rule inside (NeverEmpty) instead": (
            "{}, top label forced in, Split", "NeverEmpty({}), Split", "APS",
        ),
        "The neighborhood on APS (Exact against Split, both as returned)": ("{}, Split", "{}, Exact", "APS"),
        "The neighborhood on NeverEmpty(APS)": ("NeverEmpty({}), Split", "NeverEmpty({}), Exact", "APS"),
        "The neighborhood on RAPS": ("{}, Split", "{}, Exact", "RAPS"),
        "The neighborhood on NeverEmpty(RAPS)": ("NeverEmpty({}), Split", "NeverEmpty({}), Exact", "RAPS"),
        "The released code on APS, against NeverEmpty(APS) with no neighborhood": (
            "NeverEmpty({}), Split", "Released code, {}", "APS",
        ),
        "All rows as neighbors instead of k, NeverEmpty(APS)": (
            "NeverEmpty({}), Exact", "NeverEmpty({}), Exact, all rows", "APS",
        ),
    }  # fmt: skip
    return [line for effect, pair in pairs.items() for line in _effect(plan, results, effect, *pair)]


def _effect(plan: Plan, results: Results, effect: str, before: str, after: str, score: str) -> list[str]:
    told = []
    for network in plan.networks:
        numbers = [
            _mean(results, network, way.format(score), what) for way in (before, after) for what in ("coverage", "size")
        ]
        if any(number is None for number in numbers):
            continue
        coverage, size, other, changed = (number.mean for number in numbers if number is not None)
        matched = abs(other - coverage) <= MATCHED
        percent = 100 * (changed / size - 1)
        said = f"size {percent:+.0f} %" if matched else f"size {size:.2f} to {changed:.2f}, not at one coverage"
        told.append(f"{network.dataset} {network.name} coverage {coverage:.3f} to {other:.3f}, {said}")
    return [f"- {effect}: " + "; ".join(told) + "."] if told else []


def _papers(network: Network, way: str) -> str:
    names = {"Naive": "Naive"}
    for score in ("APS", "RAPS"):
        names |= {f"{score}, top label forced in, Split": score, f"Released code, {score}": f"NCP({score})"}
    if way not in names:
        return ""
    return f"{_printed(network, names[way], 'coverage')} / {_printed(network, names[way], 'size')}"


def _mean(results: Results, network: Network, way: str, what: str) -> Mean | None:
    if way == "tuned, Exact":
        return results.tuned(network.key, what)
    return results.mean("sets", network.key, way, what)


def _cell(results: Results, network: Network, way: str, what: str) -> str:
    mean = _mean(results, network, way, what)
    return NOT_RUN if mean is None else mean.text(DIGITS[what])


def _printed(network: Network, name: str, what: str) -> str:
    return _number(PRINTED[what][network.dataset, network.name][name], DIGITS[what])


def _number(pair: paper.Number, digits: int) -> str:
    return Mean(pair[0], pair[1], 0).text(digits)


def _title(network: Network) -> str:
    return f"{network.dataset} {network.name}{'*' if network.note else ''}"


def _tuned_runs(plan: Plan) -> int:
    return max(network.tuned_runs for network in plan.networks)


def notes(networks: Sequence[Network]) -> list[str]:
    """Return what the stars mean, each note once."""
    told: dict[str, list[str]] = {}
    for network in networks:
        if network.note:
            told.setdefault(network.note, []).append(f"{network.dataset} {network.name}")
    return [f"\\* {', '.join(names)}: {note}" for note, names in told.items()]
