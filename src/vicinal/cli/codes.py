"""Exit codes."""

from __future__ import annotations

OK, BUG, WRONG, DAMAGED, UNWRITTEN, INTERRUPTED = 0, 1, 2, 3, 4, 130
"""Done; a bug; something given is wrong; a saved file cannot be read, or one written; interrupted."""


class Interrupted(Exception):
    """Ctrl-C, where there is something to say about it."""
