"""The command line: one file per command, the work in the library."""

from __future__ import annotations

import os
import sys

from vicinal.errors import CannotWrite, CorruptArtifact, MissingExtra, UnsupportedArtifact, VicinalError

OK, WRONG, DAMAGED, UNWRITTEN, INTERRUPTED = 0, 2, 3, 4, 130
"""Exit codes: done; something given is wrong; a saved file cannot be read; a file cannot be written; interrupted."""


def main() -> None:
    """Run `vicinal`; every foreseen error is one line on standard error and an exit code."""
    try:
        from vicinal.cli.app import run
    except MissingExtra as error:
        sys.exit(f"vicinal: {error}")
    try:
        code = run()
        sys.stdout.flush()
    except BrokenPipeError:  # the reader of our output has gone, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = OK
    except KeyboardInterrupt:
        code = _said("interrupted.", INTERRUPTED)
    except (UnsupportedArtifact, CorruptArtifact) as error:
        code = _said(error, DAMAGED)
    except CannotWrite as error:
        code = _said(error, UNWRITTEN)
    except (VicinalError, OSError) as error:
        code = _said(error, WRONG)
    except MemoryError:
        code = _said("there is not enough memory for this.", WRONG)
    sys.exit(code)


def _said(words: object, code: int) -> int:
    print("vicinal:", " ".join(str(words).split()), file=sys.stderr)  # noqa: T201
    return code
