"""The command line: one file per command, the work in the library."""

from __future__ import annotations

import sys

from vicinal.errors import MissingExtra, VicinalError


def main() -> None:
    """Run `vicinal`; every foreseen error is one line on standard error and exit code 2."""
    try:
        from vicinal.cli.app import app
    except MissingExtra as error:
        sys.exit(f"vicinal: {error}")
    try:
        app()
    except (VicinalError, OSError) as error:
        print(f"vicinal: {error}", file=sys.stderr)  # noqa: T201
        sys.exit(2)
