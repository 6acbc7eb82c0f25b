"""Exit codes."""

from __future__ import annotations

OK, BUG, WRONG, DAMAGED, UNWRITTEN, INTERRUPTED = 0, 1, 2, 3, 4, 130
"""Success; internal error; wrong input; unreadable saved file; unwritable file; interrupted."""


class Interrupted(Exception):
    """Ctrl-C, with a message about how to continue."""
