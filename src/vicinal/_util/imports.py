"""Imports of modules that the user names, so that they register parts; names in a saved file are never imported."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from vicinal.errors import MissingFile


def import_modules(names: Sequence[str], folder: str | Path = "") -> None:
    """Import modules by name, also from a folder: by default the working directory.

    Examples
    --------
    >>> import_modules(["json"])
    """
    if names and str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    for name in names:
        try:
            import_module(name)
        except ModuleNotFoundError as error:
            if error.name is not None and name != error.name and not name.startswith(f"{error.name}."):
                raise
            msg = f"cannot import {name}: no such module is installed, and none is in the working folder."
            raise MissingFile(msg) from error
