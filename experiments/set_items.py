"""The tables of sets: all ways of making them, network by network, beside the paper's numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from experiments import paper
from experiments.classification import DIFFICULTY
from experiments.means import Mean, Results
from experiments.specs import PARTS, Network, Plan
from experiments.tables import TextTable

NOT_RUN = "not run here"
TUNED = "tuned, Exact"
TARGETS = "Targets: .9, CIFAR-10 .96; ten runs, Tiny-ImageNet five."
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
    "forced in after, difficulty, Exact": "{}, top label forced in, Exact, difficulty",
    "as returned, difficulty, Exact": "{}, Exact, difficulty",
    "NeverEmpty, difficulty, Exact": "NeverEmpty({}), Exact, difficulty",
    "forced in after, PaperLiteral": "{}, top label forced in, PaperLiteral",
    "as returned, PaperLiteral": "{}, PaperLiteral",
    "NeverEmpty, PaperLiteral": "NeverEmpty({}), PaperLiteral",
    "released code": "Released code, {}",
}
"""What stands above a column, and the way that fills it."""

OTHERS = {
    "naive": "Naive", "LAC, Split": "LAC, Split", "LAC, difficulty, Exact": f"LAC, Exact{DIFFICULTY}",
    "tuned, Exact": TUNED,
}  # fmt: skip


def matrix(plan: Plan, results: Results, what: str) -> list[TextTable]:
    """Return tables of a number, a column per network that was run and a line per way; then the networks not run."""
    networks = [one for one in plan.networks if results.runs("sets", one.key)]
    others = [one for one in plan.networks if not results.runs("sets", one.key)]
    heads = ["", *map(title, networks)]
    found = []
    for score in ("APS", "RAPS"):
        rows = [[f"paper: {score}", *(_print(one, score, what) for one in networks)]]
        rows += [
            [name, *(_cell(results, one, way.format(score), what) for one in networks)] for name, way in COLUMNS.items()
        ]
        rows.append([f"paper: NCP({score})", *(_print(one, f"NCP({score})", what) for one in networks)])
        found.append(TextTable(f"{WORDS[what]}, {score}. {TARGETS}", heads, rows))
    rows = [["paper: Naive", *(_print(one, "Naive", what) for one in networks)]]
    rows += [[name, *(_cell(results, one, way, what) for one in networks)] for name, way in OTHERS.items()]
    found.append(TextTable(f"{WORDS[what]}, other sets; tuned over {_tuned_runs(plan)} runs. {TARGETS}", heads, rows))
    if others:
        rows = [[title(one), *(_print(one, name, what) for name in paper.SETS), NOT_RUN] for one in others]
        heads = ["", *(f"paper: {name}" for name in paper.SETS), "ours"]
        found.append(TextTable(f"{WORDS[what]}, networks whose outputs could not be had.", heads, rows))
    return found if networks else found[-1:]


def run_first(networks: Sequence[Network], results: Results, study: str) -> list[Network]:
    """Return the networks in their order, those that were run before the others."""
    return sorted(networks, key=lambda one: not results.runs(study, one.key))


def details(plan: Plan, results: Results) -> list[TextTable]:
    """Return a table for each network that was run: coverage, size and worst decile of every way, and the paper's."""
    found = []
    for network in plan.networks:
        runs = results.runs("sets", network.key)
        if not runs:
            continue
        ways = [*runs[0], *(way for run in results.runs("difficulty", network.key)[:1] for way in run), TUNED]
        rows = []
        for way in ways:
            cells = [_cell(results, network, way, what) for what in ("coverage", "size", "worst_decile")]
            empty = mean_of(results, network, way, "empty")
            rows.append([way, *cells, "" if empty is None else f"{empty.mean:.3f}", _papers(network, way)])
        heads = ["", "coverage", "size", "worst decile", "empty", "paper: coverage / size"]
        note = f" {network.note[0].upper()}{network.note[1:]}" if network.note else ""
        caption = (
            f"{network.dataset}, {network.name}: target {network.coverage:g}, {len(runs)} runs, tuned "
            f"{network.tuned_runs}. Worst decile: coverage of the least covered tenth of the test rows, cut by the "
            f"model's confidence. Empty: the share of empty sets.{note}"
        )
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
        for network in run_first(plan.networks, results, "sets"):
            printed = paper.NEIGHBORS_ALL.get((network.dataset, network.name))
            if printed is None:
                continue
            told = [printed[f"{which} {what}"].text for which in ("NCP-All", "NCP")]
            cells = [
                _cell(results, network, f"{way}{end}", what) for way in ways.values() for end in (", all rows", "")
            ]
            rows.append([title(network), *told, *cells])
        found.append(TextTable(f"{WORDS[what]} of APS, Exact: all calibration rows as neighbors, or k.", heads, rows))
    return found


def shares(plan: Plan, results: Results) -> list[TextTable]:
    """Return the number of neighbors of NCP as a share of the calibration rows, in percent."""
    rows = []
    for network in run_first(plan.networks, results, "sets"):
        told = paper.SHARES.get((network.dataset, network.name))
        printed = "-" if told is None else f"{told:.1f}"
        cells = []
        for way in ("APS, Exact", "NeverEmpty(APS), Exact"):
            shares = [100 * run[way]["neighbor_share"] for run in results.runs("sets", network.key)]
            cells.append(Mean.of(shares).text(1) if shares else NOT_RUN)
        rows.append([title(network), printed, *cells])
    heads = ["", "paper: NCP(APS)", "APS", "NeverEmpty(APS)"]
    return [
        TextTable(
            "Percent of the calibration rows used as neighbors, Exact: mean (standard deviation over runs).",
            heads,
            rows,
        )
    ]


def splits(plan: Plan, results: Results) -> list[TextTable]:
    """Return the sizes of the splits: the paper's, and those used here."""
    rows = [[f"paper: {name}", *(f"{count:,}" for count in parts.values())] for name, parts in PARTS.items()]
    rows += [
        [title(network), *(f"{count:,}" if count >= 1 else f"{count:.0%}" for count in network.parts.values())]
        for network in plan.networks
        if results.runs("sets", network.key)
    ]
    return [TextTable("Rows of each part.", ["", "calibration", "scaling", "validation (tuning)", "test"], rows)]


def _papers(network: Network, way: str) -> str:
    names = {"Naive": "Naive"}
    for score in ("APS", "RAPS"):
        names |= {f"{score}, top label forced in, Split": score, f"Released code, {score}": f"NCP({score})"}
    if way not in names:
        return ""
    return f"{_print(network, names[way], 'coverage')} / {_print(network, names[way], 'size')}"


def mean_of(results: Results, network: Network, way: str, what: str) -> Mean | None:
    """Return a number of a way over the runs; None where it was not run."""
    if way == TUNED:
        return results.mean_of_tuned(network.key, what)
    if way.endswith(DIFFICULTY):
        return results.mean("difficulty", network.key, way, what)
    return results.mean("sets", network.key, way, what)


def _cell(results: Results, network: Network, way: str, what: str) -> str:
    mean = mean_of(results, network, way, what)
    return NOT_RUN if mean is None else mean.text(DIGITS[what])


def _print(network: Network, name: str, what: str) -> str:
    """Return what the paper prints of a network; a dash where it has no such row."""
    row = PRINTED[what].get((network.dataset, network.name))
    return "-" if row is None else row[name].text


def title(network: Network) -> str:
    """Return a network's name, with the mark of its note."""
    return f"{network.dataset} {network.name}{network.star}"


def _tuned_runs(plan: Plan) -> int:
    return max(network.tuned_runs for network in plan.networks)


def notes(networks: Sequence[Network], text: str) -> list[str]:
    """Return the explanation of each mark in a text, once."""
    told: dict[tuple[str, str], list[str]] = {}
    for network in networks:
        if network.note and f"| {title(network)} |" in text:
            told.setdefault((network.star, network.note), []).append(f"{network.dataset} {network.name}")
    return [f"{star.replace('*', chr(92) + '*')} {', '.join(names)}: {note}" for (star, note), names in told.items()]
