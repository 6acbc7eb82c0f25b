"""Structured logs: one JSON object per line on standard error."""

from __future__ import annotations

import json
import logging
import sys
import time
import warnings
from functools import lru_cache

LOGGER = logging.getLogger("vicinal.service")

SECONDS = 10
"""How often the same is told again."""


class JsonLogFormat(logging.Formatter):
    """Formats a record as one JSON object, with the entries of `extra={"fields": {...}}`."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        found = {"time": _stamp(record.created), "level": record.levelname.lower(), "event": record.getMessage()}
        found |= getattr(record, "fields", {})
        if record.exc_info:
            found["traceback"] = self.formatException(record.exc_info)
        return json.dumps(found, default=str)


def _stamp(moment: float) -> str:
    """Return a time in ISO 8601, in UTC."""
    return f"{_second(int(moment))}.{int(moment % 1 * 1000):03d}Z"


@lru_cache(2)
def _second(moment: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(moment))


class OncePer(logging.Filter):
    """Drops a message that was logged within the last `seconds`, so that a repeated error does not fill the disk."""

    def __init__(self, seconds: float = SECONDS) -> None:
        super().__init__()
        self.seconds = seconds
        self._last: dict[object, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether the record is logged."""
        text = record.getMessage().partition("\n")[0]
        if record.created - self._last.get(text, -self.seconds) < self.seconds:
            return False
        self._last = {one: moment for one, moment in self._last.items() if record.created - moment < self.seconds}
        self._last[text] = record.created
        return True


def configure(level: int = logging.INFO) -> None:
    """Send the logs of the service and of uvicorn to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLogFormat())
    warned = max(level, logging.WARNING)
    for name, least in (("vicinal.service", level), ("uvicorn.error", warned), ("asyncio", warned)):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(least)
    logging.getLogger("asyncio").filters = [OncePer()]
    warnings.showwarning = lambda message, *_: log("warning", level=logging.WARNING, words=str(message))


def log(event: str, *, level: int = logging.INFO, **values: object) -> None:
    """Log one event with its values."""
    if LOGGER.isEnabledFor(level):
        # Made directly: finding the caller, as `LOGGER.log` does, would take most of the time.
        record = LOGGER.makeRecord(LOGGER.name, level, "", 0, event, (), None, extra={"fields": values})
        LOGGER.handle(record)
