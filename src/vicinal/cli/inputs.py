"""Options that several commands share, and the reading of rows and class names."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from vicinal._util.extras import needs
from vicinal._util.files import same_file, writable
from vicinal._util.text import strict_json
from vicinal.errors import CannotWrite, InvalidArgument, InvalidFile, MissingFile
from vicinal.outputs import ClassificationOutputs, ModelOutputs, looks_like_probabilities
from vicinal.regions import TargetRange
from vicinal.tables.opening import open_table
from vicinal.tables.rows import Rows, recognize_columns

with needs("typer", "cli"):
    import typer

Sources = Annotated[
    list[str],
    typer.Argument(
        metavar="ROWS...",
        help="A .npz, .parquet, .arrow, .csv or .jsonl file; or a folder of .parquet files; or - for JSON lines on "
        "standard input; or one NAME.npy or NAME=FILE.npy for each array. "
        "Columns: logits | probabilities | predictions | lower, upper; representations; labels | targets; row_ids.",
        show_default=False,
    ),
]
Renamed = Annotated[
    list[str] | None,
    typer.Option("--rename", metavar="NAME=COLUMN", help="Read column COLUMN as NAME, such as logits=scores."),
]
Names = Annotated[
    Path | None,
    typer.Option(help="Class names: a text file with one name per line, or a JSON list.", show_default=False),
]
Memory = Annotated[
    str | None,
    typer.Option(
        help='Limit on working memory, not counting inputs and outputs, in megabytes or as "2 GB". Default: 512 MB.',
        show_default=False,
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


PossibleTargets = Annotated[
    str | None,
    typer.Option(
        "--target-range",
        metavar="LOW,HIGH",
        help='Range of possible targets of a regression, such as "0," for counts; intervals are cut to it.',
        show_default=False,
    ),
]


def parse_range(text: str | None) -> tuple[float | None, float | None] | None:
    """Parse --target-range; an end that is left out is None."""
    if text is None:
        return None
    low, comma, high = text.partition(",")
    try:
        if comma:
            found = float(low) if low.strip() else None, float(high) if high.strip() else None
            TargetRange.of(found)
            return found
    except ValueError:  # no number, or a range that holds nothing
        pass
    expected = 'two numbers, the smaller first, of which one may be left out, such as "0," or "0,9"'
    raise InvalidArgument("--target-range", text, expected)


def open_rows(
    sources: Sequence[str],
    renamed: Sequence[str] | None,
    names: Path | None,
    *,
    truth: bool = False,
    keep: str | None = None,
) -> Rows:
    """Open the rows that a command reads."""
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
            msg = f"cannot write {out}: it is also an input. Name another file."
            raise CannotWrite(msg)
    writable(out)


def note_probabilities(outputs: ModelOutputs) -> None:
    """Print a note if the logits look like probabilities."""
    logits = outputs.logits if isinstance(outputs, ClassificationOutputs) else None
    if logits is not None and looks_like_probabilities(logits):
        typer.echo(
            "vicinal: note: the logits look like probabilities; if they are, add --rename probabilities=logits.",
            err=True,
        )


def read_names(path: Path) -> list[str]:
    """Return class names from a text file with one name per line, or a JSON list."""
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
        msg = f"{path} begins like a JSON list, but is not valid JSON: {error}."
        raise InvalidFile(msg) from error
    if not all(isinstance(name, str) for name in found):
        msg = f"{path} must be a JSON list of strings, one for each class."
        raise InvalidFile(msg)
    return list(found)
