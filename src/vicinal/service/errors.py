"""What a request is refused with: a status, one sentence, and headers that go with it."""

from __future__ import annotations

import re

from vicinal._words import as_options
from vicinal.errors import VicinalError

RENAMING = re.compile(r", or on the command line add --rename \S*\.")
"""Advice that only the command line can follow."""


class Refused(Exception):
    """A request that cannot be answered; the message goes to whoever asked."""

    def __init__(self, status: int, message: str, **headers: str) -> None:
        self.status, self.message = status, message
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}
        super().__init__(message)


def refusal(error: VicinalError) -> Refused:
    """Return what the library refused as a request is refused: understood, but not acceptable."""
    words = RENAMING.sub(".", " ".join(as_options(str(error)).split()))
    return Refused(422, words)
