"""`vicinal demo`: what the library does, on real outputs that ship with it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from vicinal._util.extras import needs
from vicinal._util.progress import Bar
from vicinal.cli.printing import echo_json
from vicinal.errors import InvalidArgument
from vicinal.reporting import plots, report
from vicinal.reporting.demo import EVEN, DemoResult, run_demo

with needs("typer", "cli"):
    import typer
with needs("rich", "cli"):
    from rich import box
    from rich.console import Console
    from rich.table import Table


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the report, the model and the figures.")] = Path("demo"),
    coverage: Annotated[float, typer.Option(help="Coverage to ask for.")] = 0.9,
    seed: Annotated[int, typer.Option(help="How the rows are cut into parts.")] = 0,
    splits: Annotated[int, typer.Option(help="How often they are cut; the table shows the mean.")] = 1,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print the table as JSON, for machines.")] = False,
) -> None:
    """Tune and compare methods on 4,000 real CIFAR-100 outputs: a table, a report, a model to serve, and figures.

    Example: vicinal demo --coverage 0.95 --out my-demo
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidArgument("--out", str(out), f"a folder that can be made ({error.strerror})") from error
    with Bar("demo", unit="step", shown=None, leave=False) as bar:

        def advance(name: str, done: int, total: int) -> None:
            bar.begin(name, total)
            bar.reach(done)

        result = run_demo(coverage, seed, splits, advance)
        bar.begin("report")
        page, pictures = _write(result, out)
        model = result.tuned[EVEN].predictor.save(out / "model.vicinal").path
    if as_json:
        echo_json({**_as_json(result, page, pictures), "model": str(model)})
        return
    console = Console()
    console.print(_table(result, coverage))
    console.print(
        "Exact: with a neighborhood. size: mean number of labels. worst tenth: coverage of the least covered tenth of "
        "the rows, cut by the model's confidence."
    )
    console.print(f"What Exact promises, here with LAC: {result.words}")
    for name, tuned in result.tuned.items():
        console.print(f"{name}: {tuned.tuning.winner.name} ({tuned.tuning.objective}).")
    for picture in pictures:
        typer.echo(f"figure: {picture}")
    typer.echo(f"model:  {model} (ask it: vicinal serve {model})")
    typer.echo(f"report: {page} (open it in a browser)")


def _write(result: DemoResult, out: Path) -> tuple[Path, list[Path]]:
    """Write the report of the evenly tuned predictor, and the figures."""
    shown = result.tuned[EVEN]
    title = "CIFAR-100, ResNet-18: prediction sets tuned for even coverage"
    page = report(
        shown.predictor, shown.test.outputs, shown.test.labels, out / "report.html", tuning=shown.tuning, title=title
    )
    return page, [
        plots.save(plots.size_against_coverage(result.curves), out / "size_against_coverage.png"),
        plots.save(plots.coverage_by_confidence(result.evaluations), out / "coverage_by_confidence.png"),
    ]


def _table(result: DemoResult, coverage: float) -> Table:
    table = Table(title=_title(result), box=box.SIMPLE, padding=(0, 1))
    table.add_column("method", no_wrap=True)
    for heading in ("target", "coverage (95 %)", "size", "worst\ntenth", "sec."):
        table.add_column(heading, justify="right", no_wrap=True)
    for name, found in result.evaluations.items():
        low, high = found.coverage_interval
        table.add_row(
            name,
            f"{coverage:g}",
            f"{found.coverage:.3f} ({low:.3f}-{high:.3f})",
            f"{found.mean_size:.2f}",
            f"{found.worst_confidence:.3f}",
            f"{result.seconds[name]:.2f}" if name in result.seconds else "",
        )
    return table


def _title(result: DemoResult) -> str:
    cuts = f"seed {result.seed}" if result.splits == 1 else f"mean of {result.splits} splits from seed {result.seed}"
    return f"CIFAR-100, ResNet-18; {result.parts} rows; {cuts}"


def _as_json(result: DemoResult, page: Path, pictures: list[Path]) -> dict[str, object]:
    rows = [
        {
            "method": name,
            "target": found.target,
            "coverage": found.coverage,
            "coverage_interval": list(found.coverage_interval),
            "mean_size": found.mean_size,
            "worst_tenth": found.worst_confidence,
            "seconds": result.seconds.get(name),
        }
        for name, found in result.evaluations.items()
    ]
    return {
        "rows": rows,
        "parts": result.parts,
        "seed": result.seed,
        "splits": result.splits,
        "tuned": {name: tuned.tuning.winner.name for name, tuned in result.tuned.items()},
        "figures": [str(picture) for picture in pictures],
        "report": str(page),
    }
