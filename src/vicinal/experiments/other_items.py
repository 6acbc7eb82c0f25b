"""The other tables: intervals, silhouettes and seconds, beside the paper's numbers."""

from __future__ import annotations

from vicinal.experiments import paper
from vicinal.experiments.results import MATCHED, Mean, Results
from vicinal.experiments.set_items import NOT_RUN, run_first, title
from vicinal.experiments.specs import Plan
from vicinal.experiments.tables import TextTable

INTERVALS = ("CP", "CP at the paper's coverage", "NCP, Exact", "NCP, PaperLiteral", "NCP-All, Exact", "Tuned")


def intervals(plan: Plan, results: Results, what: str) -> list[TextTable]:
    """Return lengths (`size`) or coverages of the intervals, a line per table."""
    digits = 2 if what == "size" else 3
    rows = []
    for table in sorted(plan.tables, key=lambda one: not results.runs("intervals", one.key)):
        name = table.record.name
        word = "length" if what == "size" else "coverage"
        printed = [paper.interval(name)[f"{way} {word}"].text for way in ("CP", "NCP")]
        told = [_interval_cell(results, table.key, way, what, digits) for way in INTERVALS]
        rows.append([name, *printed, *told])
    heads = ["", "paper: CP", "paper: NCP", *INTERVALS]
    title = "Mean length of intervals" if what == "size" else "Coverage of intervals"
    return [TextTable(f"{title}, target .9; CP: absolute residuals, Split.", heads, rows)]


def _interval_cell(results: Results, key: str, way: str, what: str, digits: int) -> str:
    runs = [run[way] for run in results.runs("intervals", key)]
    if not runs:
        return NOT_RUN
    if any(run[what] is None for run in runs):
        share = Mean.of([run["infinite"] for run in runs]).mean
        return f"infinite ({100 * share:.2g} % of the intervals)"
    return Mean.of([run[what] for run in runs]).text(digits)


def interval_words(plan: Plan, results: Results) -> list[str]:
    """Return what the numbers show of the intervals."""
    told = []
    for table in plan.tables:
        numbers = [
            results.mean("intervals", table.key, way, what)
            for way in ("CP", "NCP, Exact", "CP at the paper's coverage")
            for what in ("coverage", "size")
        ]
        if any(number is None for number in numbers):
            continue
        coverage, length, other, shorter, wide, longer = (one.mean for one in numbers if one is not None)
        fair = "" if abs(coverage - other) <= MATCHED else ", not matched"
        told.append(
            f"- {table.record.name}: the neighborhood changes the length by {100 * (shorter / length - 1):+.0f} % "
            f"(coverage {coverage:.3f} and {other:.3f}{fair}); asked for the coverage that the paper's CP reached, "
            f"plain CP covers {wide:.3f} with a length of {longer:.1f}, {longer / length:.1f} times that at .9."
        )
    return told


def interval_coverage_words(plan: Plan, results: Results) -> list[str]:
    """Return how far the plain intervals are from the target, the paper's and ours."""
    names = [one.record.name for one in plan.tables if results.runs("intervals", one.key)]
    found = [results.mean("intervals", one.key, "CP", "coverage") for one in plan.tables]
    ours = [one.mean for one in found if one is not None]
    if not ours:
        return []
    told = [paper.interval(name)["CP coverage"].mean for name in names]
    lines = [
        f"- Asked for .9, the paper's CP covers {min(told):.3f} to {max(told):.3f} on the tables run here, ours "
        f"{min(ours):.3f} to {max(ours):.3f}."
    ]
    pairs = [[_size(results, one.key, way) for way in ("CP", "CP at the paper's coverage")] for one in plan.tables]
    ratios = [wide / plain for plain, wide in pairs if plain is not None and wide is not None]
    printed = [paper.interval(name)["CP length"].mean / paper.interval(name)["NCP length"].mean for name in names]
    lines += [
        f"- On these tables the paper's CP is {min(printed):.1f} to {max(printed):.1f} times as long as its NCP; here "
        f"plain CP, asked for the coverage that the paper's reached, is {min(ratios):.1f} to {max(ratios):.1f} times "
        "as long as asked for .9."
    ] * bool(ratios)
    return lines


def _size(results: Results, key: str, way: str) -> float | None:
    found = results.mean("intervals", key, way, "size")
    return None if found is None else found.mean


def silhouette_words(plan: Plan, results: Results) -> list[str]:
    """Return in how many networks the representation is better clustered than the pixels."""
    found = [run for one in plan.networks for run in results.runs("silhouettes", one.key) if run["raw"] is not None]
    better = sum(run["representation"] > run["raw"] for run in found)
    return [f"- The representation clusters better than the raw pixels in {better} of {len(found)} networks."]


def silhouettes(plan: Plan, results: Results) -> list[TextTable]:
    """Return silhouettes of raw pixels and of representations."""
    rows = []
    for network in run_first(plan.networks, results, "silhouettes"):
        printed = paper.SILHOUETTES.get((network.dataset, network.name))
        told = ["-", "-"] if printed is None else [f"{one:.3f}" for one in printed]
        runs = results.runs("silhouettes", network.key)
        if not runs:
            rows.append([title(network), *told, NOT_RUN, NOT_RUN, "", ""])
            continue
        found = runs[0]
        raw = NOT_RUN if found["raw"] is None else f"{found['raw']:.3f}"
        counted = f"{found['rows']:,}"
        if found["raw"] is not None and found["raw_rows"] != found["rows"]:
            counted += f" ({found['raw_rows']:,} raw; there {found['representation_of_raw_rows']:.3f})"
        rows.append([title(network), *told, raw, f"{found['representation']:.3f}", f"{found['accuracy']:.3f}", counted])
    heads = ["", "paper: raw", "paper: representation", "raw pixels", "representation", "accuracy", "rows"]
    return [
        TextTable(
            "Silhouette of classes, and the accuracy of the network; the paper's are of ImageNet's validation set.",
            heads,
            rows,
        )
    ]


OURS = ("RAPS", "NCP(RAPS)", "NCP(RAPS), half for reference", "NCP(RAPS) with LSH")


def times(plan: Plan, results: Results) -> list[TextTable]:
    """Return seconds of inference and of prediction, ours and the paper's, which had another machine."""
    timed = results.runs("inference", "inference")
    inference = timed[0]["seconds"] if timed else {}
    rows = []
    for network in run_first(plan.networks, results, "times"):
        printed = paper.SECONDS.get((network.dataset, network.name))
        runs = results.runs("times", network.key)
        own = inference.get(network.dataset, {}).get(network.name)
        told = ["not timed here" if own is None else f"{own:.1f}"]
        told += [f"{runs[0][way]:.4f}" if runs else NOT_RUN for way in OURS]
        first = ["-"] * 4 if printed is None else [printed[way].text for way in paper.TIMES]
        rows.append([title(network), *first, *told])
    heads = ["", *(f"paper: {way}" for way in paper.TIMES), "inference", *OURS]
    caption = (
        "Seconds for predicting the test rows (3,000), calibrated before, on two cores. RAPS: Split. NCP(RAPS): "
        "Exact, k a tenth of the calibration rows. Half for reference: SplitReference, compared with all reference "
        "rows; with LSH: the same, the neighbors found by an index."
    )
    return [TextTable(caption, heads, rows)]


def time_words(plan: Plan, results: Results) -> list[str]:
    """Return what the seconds show."""
    timed = results.runs("inference", "inference")
    runs = [(one, results.runs("times", one.key)[0]) for one in plan.networks if results.runs("times", one.key)]
    lines = []
    if timed:
        told = []
        for one, run in runs:
            own = timed[0]["seconds"].get(one.dataset, {}).get(one.name)
            if own is not None:
                told.append(f"{one.dataset} {one.name} {100 * (run['NCP(RAPS)'] - run['RAPS']) / own:.2g} %")
        lines.append(
            f"- What the neighborhood adds to the network's own time (inference timed apart on {timed[0]['threads']} "
            f"threads of a CPU, {timed[0].get('date', 'undated')}): " + "; ".join(told) + "."
        )
    slower = [run["NCP(RAPS) with LSH"] / run["NCP(RAPS), half for reference"] for _, run in runs]
    if slower:
        lines.append(
            f"- LSH takes {min(slower):.1f} to {max(slower):.1f} times as long as comparing with all reference rows, "
            "at these numbers of rows."
        )
    return lines
