"""What commands share: the rows they read, the class names, and how they are told on the command line."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from vicinal._util.extras import needs
from vicinal._util.files import same_file, writable
from vicinal._util.text import strict_json
from vicinal.errors import CannotWrite, InvalidArgument, InvalidFile, MissingFile
from vicinal.outputs import ClassificationOutputs, ModelOutputs, looks_like_probabilities
from vicinal.tables.opening import open_table
from vicinal.tables.rows import Rows, recognize_columns

with needs("typer", "cli"):
    import typer

Sources = Annotated[
    list[str],
    typer.Argument(
        metavar="ROWS...",
        help="One .npz, .parquet, .arrow, .csv or .jsonl file, a folder of .parquet files, - for JSON lines on "
        "standard input, or for each array NAME.npy or NAME=FILE.npy. "
        "Columns: logits | probabilities | predictions | lower, upper; representations; labels | targets; row_ids.",
        show_default=False,
    ),
]
Renamed = Annotated[
    list[str] | None,
    typer.Option("--rename", metavar="NAME=COLUMN", help="What a column is called, where not by its own name."),
]
Names = Annotated[
    Path | None, typer.Option(help="Class names: a text file with one name a line, or a JSON list.", show_default=False)
]
Memory = Annotated[
    str | None,
    typer.Option(
        help='What may be used beside rows and answers, in megabytes or as "2 GB"; 512 MB if not said.',
        show_default=False,
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for machines.")]


PossibleTargets = Annotated[
    str | None,
    typer.Option(
        "--target-range",
        metavar="LOW,HIGH",
        help='What the target of a regression can be, such as "0," for counts: intervals are cut to it.',
        show_default=False,
    ),
]


def parse_range(text: str | None) -> tuple[float | None, float | None] | None:
    """Return the pair that --target-range says; an end that is left out is None."""
    if text is None:
        return None
    low, comma, high = text.partition(",")
    try:
        if comma:
            return float(low) if low.strip() else None, float(high) if high.strip() else None
    except ValueError:
        pass
    raise InvalidArgument("--target-range", text, 'two numbers, of which one may be left out, such as "0," or "0,9"')


def open_rows(
    sources: Sequence[str],
    renamed: Sequence[str] | None,
    names: Path | None,
    *,
    truth: bool = False,
    keep: str | None = None,
) -> Rows:
    """Open the rows that a command was given."""
    pairs = [pair.partition("=") for pair in renamed or ()]
    wrong = next((name for name, equals, column in pairs if not (name and equals and column)), None)
    if wrong is not None:
        msg = f"--rename takes NAME=COLUMN, such as logits=scores; got {wrong!r}."
        raise InvalidFile(msg)
    called = {name: column for name, _, column in pairs}
    kept = [name.strip() for name in (keep or "").split(",") if name.strip()]
    if keep is not None and not kept:
        msg = f"name at least one column, such as id,hospital; got {keep!r}."
        raise InvalidFile(msg)
    return recognize_columns(
        open_table(sources),
        truth=truth,
        names=called,
        class_names=None if names is None else read_names(names),
        keep=kept,
    )


def check_out(out: str | Path, *inputs: str | Path | None) -> None:
    """Refuse an output that is one of the inputs, and one that cannot be written, before any work is done."""
    for given in inputs:
        path = None if given is None else str(given)
        if path is not None and (same_file(path, out) or same_file(path.partition("=")[2] or path, out)):
            msg = f"cannot write {out}: it is an input itself. Name another file."
            raise CannotWrite(msg)
    writable(out)


def note_probabilities(outputs: ModelOutputs) -> None:
    """Say so where logits look as if a softmax had been taken already."""
    logits = outputs.logits if isinstance(outputs, ClassificationOutputs) else None
    if logits is not None and looks_like_probabilities(logits):
        typer.echo("vicinal: note: the logits look like probabilities; if so, --rename probabilities=logits.", err=True)


def read_names(path: Path) -> list[str]:
    """Return class names from a text file with one a line, or a JSON list."""
    try:
        text = path.expanduser().read_text(encoding="utf-8-sig")
    except FileNotFoundError as error:
        msg = f"cannot read {path}: there is no such file."
        raise MissingFile(msg) from error
    except (OSError, UnicodeDecodeError) as error:
        msg = f"cannot read {path} as text: {error}."
        raise InvalidFile(msg) from error
    if not text.lstrip().startswith("["):
        return [line.removesuffix("\r") for line in text.rstrip("\r\n").split("\n")]
    try:
        found = strict_json(text)
    except (ValueError, RecursionError) as error:
        msg = f"{path} begins as a JSON list and is none: {error}."
        raise InvalidFile(msg) from error
    if not all(isinstance(name, str) for name in found):
        msg = f"{path} must be a list of texts, one for each class."
        raise InvalidFile(msg)
    return list(found)
