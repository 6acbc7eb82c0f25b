"""`vicinal inspect`: print what a saved file holds."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from vicinal._util.extras import needs
from vicinal.cli.inputs import AsJson
from vicinal.cli.printing import echo_json
from vicinal.persistence.load import inspect as inspect_file

with needs("typer", "cli"):
    import typer


def inspect(
    file: Annotated[
        Path, typer.Argument(help="File that `vicinal tune` or `vicinal calibrate` saved.", show_default=False)
    ],
    *,
    as_json: AsJson = False,
) -> None:
    """Verify the checksum of a saved file and print what it holds: parts, guarantee, size, checksums.

    Example: vicinal inspect model.vicinal
    """
    info = inspect_file(file)
    if as_json:
        said = asdict(info)
        length = said.pop("length")
        echo_json({**said, "path": str(info.path), "coverage": info.target, "bytes": length})
    else:
        typer.echo(str(info))
