"""The tables of intervals beside the paper's numbers, with comments on them."""

from __future__ import annotations

from experiments import paper
from experiments.means import MATCHED, Mean, Results
from experiments.regression import DIFFICULTY
from experiments.set_items import NOT_RUN
from experiments.specs import Plan
from experiments.tables import TextTable

INTERVALS = (
    "CP", "CP at the paper's coverage", "NCP, Exact", DIFFICULTY, "NCP, PaperLiteral", "NCP-All, Exact", "Tuned",
)  # fmt: skip


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
    runs = [run[way] for run in results.runs("difficulty-intervals" if way == DIFFICULTY else "intervals", key)]
    if not runs:
        return NOT_RUN
    if any(run[what] is None for run in runs):
        share = Mean.of([run["infinite"] for run in runs]).mean
        return f"infinite ({100 * share:.2g} % of the intervals)"
    return Mean.of([run[what] for run in runs]).text(digits)


def interval_words(plan: Plan, results: Results) -> list[str]:
    """Return comments on the lengths of the intervals."""
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
    """Return comments on the coverage of the plain intervals, the paper's and ours."""
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
