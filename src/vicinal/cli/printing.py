"""Print JSON on standard output."""

from __future__ import annotations

import json
import math
import sys
from typing import Any

from vicinal._util.extras import needs
from vicinal.tables.batch.sinks import json_number

with needs("typer", "cli"):
    import typer


def echo_json(value: Any, *, err: bool = False) -> None:
    """Print a value as strict JSON: infinities become the strings "inf" and "-inf", NaN becomes null."""
    typer.echo(json.dumps(_plain(value), indent=2, allow_nan=False), err=err)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(inner) for inner in value]
    return json_number(value) if isinstance(value, float) and not math.isfinite(value) else value


def on_terminal() -> bool:
    """Return whether standard error is a terminal, so that progress bars are shown."""
    return sys.stderr.isatty()
