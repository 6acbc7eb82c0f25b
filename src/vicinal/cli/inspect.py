"""`vicinal inspect`: what a saved file says of itself."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from vicinal._extras import needs
from vicinal.artifacts import inspect as inspected
from vicinal.cli.inputs import AsJson

with needs("typer", "cli"):
    import typer


def inspect(
    file: Annotated[Path, typer.Argument(help="What tune or calibrate saved.", show_default=False)],
    *,
    as_json: AsJson = False,
) -> None:
    """Check every byte of a saved file and print what it holds: parts, promise, size, fingerprints.

    Example: vicinal inspect model.vicinal
    """
    info = inspected(file)
    typer.echo(json.dumps({**asdict(info), "path": str(info.path)}, indent=2) if as_json else str(info))
