"""Optional dependencies: imported where they are used; an error names the extra to install."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from vicinal.errors import MissingExtra


@contextmanager
def needs(package: str, extra: str) -> Iterator[None]:
    """Turn a failed import of `package` into `MissingExtra`.

    Examples
    --------
    >>> with needs("json", "cli"):
    ...     import json
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] != package:
            raise
        raise MissingExtra(package, extra) from error
