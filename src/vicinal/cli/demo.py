"""`vicinal demo`: what the library does, on real outputs that ship with it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from vicinal._util.extras import needs
from vicinal._util.progress import Bar
from vicinal.cli.printing import echo_json
from vicinal.errors import InvalidArgument
from vicinal.reporting.demo import CASES, CaseResult, run_case, write_demo
from vicinal.reporting.demo.page import DemoFiles, serve_command

with needs("typer", "cli"):
    import typer
with needs("rich", "cli"):
    from rich import box
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the reports, the models and the pictures.")] = Path("demo"),
    coverage: Annotated[float, typer.Option(help="Coverage to ask for.")] = 0.9,
    seed: Annotated[int, typer.Option(help="Random seed of the splits.")] = 0,
    splits: Annotated[int, typer.Option(help="Number of random splits; the tables show means over them.")] = 1,
    case: Annotated[
        list[str] | None, typer.Option(help=f"Only this case: {', '.join(one.name for one in CASES)}. May be repeated.")
    ] = None,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print the tables as JSON, for machines.")] = False,
) -> None:
    """Show three real cases: a question, a picture and a sentence each, with a report to open and a model to serve.

    Example: vicinal demo --coverage 0.95 --out my-demo
    """
    chosen = [one for one in CASES if case is None or one.name in case]
    unknown = sorted(set(case or ()) - {one.name for one in CASES})
    if unknown:
        raise InvalidArgument("--case", unknown[0], " or ".join(one.name for one in CASES))
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidArgument("--out", str(out), f"a folder that can be made ({error.strerror})") from error
    with Bar("demo", unit="step", shown=None, leave=False) as bar:

        def advance(name: str, done: int, total: int) -> None:
            bar.begin(name, total)
            bar.reach(done)

        results = [run_case(one, coverage, seed, splits, advance) for one in chosen]
        written = write_demo(results, out, bar.begin)
    if as_json:
        echo_json(_as_json(results, written))
        return
    console = Console()
    for result in results:
        _show(console, result)
    console.print("coverage: with a 95 % interval. worst tenth: coverage of the least covered tenth of the rows,")
    console.print("by the model's confidence or the predicted value. Split: plain split, one threshold for all rows.")
    for name, model in written.models.items():
        typer.echo(f"model:  {model} (ask it: {serve_command(model, written.rows[name])})")
    typer.echo(f"report: {written.page} (open it in a browser)")


def _show(console: Console, result: CaseResult) -> None:
    """Print one case."""
    console.print(f"\n[bold]{escape(result.case.title)}[/bold]")
    console.print(escape(result.case.question))
    console.print(_table(result))
    console.print(f"[bold]{escape(result.conclusion.sentence)}[/bold]")
    console.print(f"{escape(result.conclusion.remark)}\n")


def _table(result: CaseResult) -> Table:
    table = Table(box=box.SIMPLE, padding=(0, 1), caption=escape(result.rows), caption_justify="left")
    table.add_column(f"asked for: {result.coverage:g}", no_wrap=True)
    for heading in ("coverage (95 %)", "size", "worst\ntenth", "sec."):
        table.add_column(heading, justify="right", no_wrap=True)
    for name, one in result.measured.items():
        low, high = one.found.coverage_interval
        table.add_row(
            escape(name),
            f"{one.found.coverage:.3f} ({low:.3f}-{high:.3f})",
            f"{one.found.mean_size:.3g}",
            f"{one.worst:.3f}",
            "" if one.seconds is None else f"{one.seconds:.2f}",
            style="bold" if name in (result.case.plain, result.case.chosen) else None,
        )
    return table


def _as_json(results: list[CaseResult], written: DemoFiles) -> dict[str, object]:
    return {
        "cases": {result.case.name: _case_as_json(result) for result in results},
        "pictures": {name: str(path) for name, path in written.pictures.items()},
        "models": {name: str(path) for name, path in written.models.items()},
        "example_rows": {name: str(path) for name, path in written.rows.items()},
        "reports": {name: str(path) for name, path in written.reports.items()},
        "report": str(written.page),
    }


def _case_as_json(result: CaseResult) -> dict[str, object]:
    return {
        "question": result.case.question,
        "sentence": result.conclusion.sentence,
        "remark": result.conclusion.remark,
        "plain": result.case.plain,
        "chosen": result.case.chosen,
        "data": result.rows,
        "seed": result.seed,
        "splits": result.splits,
        "tuned": {name: report.winner.name for name, report in result.tuning.items()},
        "rows": [
            {
                "method": name,
                "target": result.coverage,
                "coverage": one.found.coverage,
                "coverage_interval": list(one.found.coverage_interval),
                "mean_size": one.found.mean_size,
                "worst_tenth": one.worst,
                "seconds": one.seconds,
            }
            for name, one in result.measured.items()
        ],
    }
