"""`vicinal reproduce`: the paper's tables and figures on real data, beside its own numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from vicinal._util.extras import needs
from vicinal.cli.printing import echo_json
from vicinal.cli.progress import steps_bar
from vicinal.experiments.items import ITEMS
from vicinal.experiments.running import chosen_items
from vicinal.experiments.running import reproduce as reproduced
from vicinal.experiments.sources import Folders
from vicinal.experiments.specs import Plan, small_plan

with needs("typer", "cli"):
    import typer


def reproduce(
    names: Annotated[
        list[str],
        typer.Argument(help=f"all, or of: {', '.join(ITEMS)}."),
    ],
    data: Annotated[Path, typer.Option(help="Folder with outputs/, regression/, cifar100/, cifar10/.")] = Path("data"),
    trained: Annotated[Path, typer.Option(help="Folder with the outputs that the training scripts made.")] = Path(
        "experiments/outputs"
    ),
    out: Annotated[Path, typer.Option(help="Folder for results; finished pieces are kept there.")] = Path(
        "reproduction"
    ),
    page: Annotated[
        Path | None, typer.Option(help="Where to write the page; OUT/reproduction.md if not given.")
    ] = None,
    *,
    small: Annotated[
        bool, typer.Option("--small", help="Two runs and few candidates, on whatever rows the files hold.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was written as JSON, for machines.")] = False,
) -> None:
    """Reproduce tables and figures of the NCP paper: JSON, Markdown, LaTeX, PNG and SVG, and a page of all.

    Interrupted, it goes on where it was. Rows whose data is not there say so.

    Example: vicinal reproduce set-size coverage --data data --out reproduction
    """
    chosen_items(names)
    plan = small_plan() if small else Plan()
    with steps_bar() as bar:
        task = bar.add_task("reproduce", total=None)

        def advance(name: str, done: int, total: int) -> None:
            bar.update(task, description=name, completed=done, total=total)

        result = reproduced(names, plan, Folders(data, trained), out, page, advance)
    if as_json:
        files = [str(path) for path in result.files]
        echo_json(
            {
                "page": str(result.page),
                "files": files,
                "not_run": list(result.not_run),
                "seconds": round(result.seconds, 1),
            }
        )
        return
    for sentence in result.not_run:
        typer.echo(f"not run here: {sentence}")
    typer.echo(f"{len(result.files)} files in {out}; the work took {result.seconds:.0f} s in all.")
    typer.echo(f"page: {result.page}")
