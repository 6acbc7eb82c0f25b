"""The other tables: intervals, silhouettes and seconds, beside the paper's numbers."""

from __future__ import annotations

from vicinal.experiments import paper
from vicinal.experiments.results import Mean, Results
from vicinal.experiments.set_items import NOT_RUN
from vicinal.experiments.specs import Plan
from vicinal.experiments.tables import TextTable

INTERVALS = ("CP", "CP at the paper's coverage", "NCP, Exact", "NCP, PaperLiteral", "NCP-All, Exact", "Tuned")


def intervals(plan: Plan, results: Results, what: str) -> list[TextTable]:
    """Return lengths (`size`) or coverages of the intervals, a line per table."""
    digits = 2 if what == "size" else 3
    rows = []
    for table in plan.tables:
        name = table.record.name
        lengths, coverages = paper.INTERVALS[name][:2], paper.INTERVALS[name][2:]
        printed = [Mean(*pair, 0) for pair in lengths] if what == "size" else [Mean(one, None, 0) for one in coverages]
        told = [_interval_cell(results, table.key, way, what, digits) for way in INTERVALS]
        rows.append([name, *(one.text(digits) for one in printed), *told])
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
        told.append(
            f"- {table.record.name}: the neighborhood changes the length by {100 * (shorter / length - 1):+.0f} % "
            f"(coverage {coverage:.3f} and {other:.3f}); asked for the coverage that the paper's CP reached, plain CP "
            f"covers {wide:.3f} with a length of {longer:.1f}, {longer / length:.1f} times that at .9."
        )
    return told


def silhouettes(plan: Plan, results: Results) -> list[TextTable]:
    """Return silhouettes of raw pixels and of representations."""
    rows = []
    for network in plan.networks:
        printed = paper.SILHOUETTES.get((network.dataset, network.name))
        told = ["-", "-"] if printed is None else [f"{one:.3f}" for one in printed]
        runs = results.runs("silhouettes", network.key)
        title = f"{network.dataset} {network.name}{'*' if network.note else ''}"
        if not runs:
            rows.append([title, *told, NOT_RUN, NOT_RUN, ""])
            continue
        found = runs[0]
        raw = NOT_RUN if found["raw"] is None else f"{found['raw']:.3f}"
        counted = f"{found['rows']:,}"
        if found["raw"] is not None and found["raw_rows"] != found["rows"]:
            counted += f" ({found['raw_rows']:,} raw; there {found['representation_of_raw_rows']:.3f})"
        rows.append([title, *told, raw, f"{found['representation']:.3f}", counted])
    heads = ["", "paper: raw", "paper: representation", "raw pixels", "representation", "rows"]
    return [TextTable("Silhouette of classes; the paper's are of ImageNet's validation set.", heads, rows)]


def times(plan: Plan, results: Results) -> list[TextTable]:
    """Return seconds of inference and of prediction, ours and the paper's, which had another machine."""
    timed = results.runs("inference", "inference")
    inference = timed[0]["seconds"] if timed else {}
    rows = []
    for network in plan.networks:
        printed = paper.SECONDS[network.dataset, network.name]
        runs = results.runs("times", network.key)
        own = inference.get(network.dataset, {}).get(network.name)
        told = ["not timed here" if own is None else f"{own:.1f}"]
        told += [f"{runs[0][way]:.3f}" if runs else NOT_RUN for way in paper.TIMES[1:]]
        rows.append([f"{network.dataset} {network.name}", *(f"{printed[way][0]:.3f}" for way in paper.TIMES), *told])
    heads = ["", *(f"paper: {way}" for way in paper.TIMES), *paper.TIMES]
    return [TextTable("Seconds for the test rows. Only the columns of one machine can be compared.", heads, rows)]


def time_words(plan: Plan, results: Results) -> list[str]:
    """Return what the seconds show."""
    timed = results.runs("inference", "inference")
    told, slower = [], True
    for network in plan.networks:
        runs = results.runs("times", network.key)
        own = timed[0]["seconds"].get(network.dataset, {}).get(network.name) if timed else None
        if runs and own is not None:
            near, hashed = runs[0]["NCP(RAPS)"], runs[0]["NCP(RAPS) with LSH"]
            slower &= hashed > near
            told.append(
                f"{network.dataset} {network.name} {100 * near / own:.2g} % of inference exactly, "
                f"{100 * hashed / own:.2g} % with LSH"
            )
    if not told:
        return []
    lines = ["- What a neighborhood adds to the network's own time, on one machine: " + "; ".join(told) + "."]
    if slower:
        lines.append(
            "- LSH saves no time at this number of calibration rows, where comparing with all is one product of "
            "matrices; the guide to many rows says where an index does."
        )
    return lines
