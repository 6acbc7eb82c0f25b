"""The command line: one file per command; the library does the work."""

from __future__ import annotations

import errno
import io
import os
import sys
import traceback
import warnings
from typing import Any

from vicinal.cli.codes import BUG, DAMAGED, INTERRUPTED, OK, UNWRITTEN, WRONG, Interrupted
from vicinal.cli.wording import render
from vicinal.errors import CannotWrite, CorruptArtifact, MissingExtra, UnsupportedArtifact, VicinalError

FULL = frozenset({errno.ENOSPC, errno.EFBIG, errno.EDQUOT})
"""Error numbers of a full disk or quota."""

DEBUG = "VICINAL_DEBUG"
"""The environment variable that makes an internal error print its traceback."""


def main() -> None:
    """Run `vicinal`; every error becomes one line on standard error and an exit code."""
    _open_streams()
    warnings.showwarning = _show_warning  # type: ignore[assignment]  # it needs the message alone
    try:
        from vicinal.cli.app import run

        code = run()
        sys.stdout.flush()
    except BrokenPipeError:  # the reader has closed the pipe, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = OK
    except (KeyboardInterrupt, Interrupted) as error:
        code = _say(str(error) or "interrupted.", INTERRUPTED)
    except MissingExtra as error:
        code = _say(error, BUG)
    except (UnsupportedArtifact, CorruptArtifact) as error:
        code = _say(error, DAMAGED)
    except VicinalError as error:
        code = _say(error, UNWRITTEN if isinstance(error, CannotWrite) else WRONG)
    except OSError as error:
        what = error.filename or "standard output"
        code = _say(f"{what}: {(error.strerror or str(error)).lower()}.", UNWRITTEN if error.errno in FULL else WRONG)
    except MemoryError:
        code = _say(
            "there is not enough memory for this command: give it fewer rows, or use a machine with more.", WRONG
        )
    except Exception as error:
        if os.environ.get(DEBUG):
            traceback.print_exc()
        code = _say(f"this is a bug in vicinal: {error!r}. Set {DEBUG}=1 to see the traceback.", BUG)
    sys.exit(code)


def _open_streams() -> None:
    """Open the null device where the shell has closed standard output or standard error."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: PTH123, SIM115  for as long as the process lives
    if isinstance(sys.stdout, io.TextIOWrapper):  # names of classes may have letters that a Windows terminal lacks
        sys.stdout.reconfigure(errors="backslashreplace")


def _show_warning(message: Warning | str, *_: Any) -> None:
    print("vicinal: warning:", message, file=sys.stderr)  # noqa: T201


def _say(words: object, code: int) -> int:
    text = render(words) if isinstance(words, VicinalError) else " ".join(str(words).split())
    print("vicinal:", text, file=sys.stderr)  # noqa: T201
    return code
