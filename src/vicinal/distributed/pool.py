"""A pool of workers that may die: an item whose worker is lost goes to another worker."""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from vicinal._util.extras import needs
from vicinal._util.text import one_line
from vicinal._version import __version__
from vicinal.errors import InvalidFile, VicinalError, WorkersLost

with needs("ray", "ray"):
    import ray
    from ray.exceptions import RayError, RayTaskError

Item = TypeVar("Item")

COLORS = re.compile(r"\x1b\[[0-9;]*m")
"""Terminal colors in the messages of Ray."""

RAISED = re.compile(r"^vicinal\.errors\.\w+: (.+)$", re.MULTILINE)
"""An error of this library in a traceback."""

TRIES = 4
"""Number of workers that an item may end before the job fails."""

LOOK = 0.5
"""Seconds between requests for the progress of the workers."""

PATIENCE = 300.0
"""Seconds without a heartbeat after which a worker counts as lost, and without any worker after which the job fails."""


@dataclass(eq=False)
class Busy(Generic[Item]):
    """A worker, its item, and its progress at the last heartbeat."""

    worker: Any
    item: Item
    heard: float
    asked: Any = None  # reference to the reply about its progress
    done: int = 0


@dataclass(eq=False)
class Pool(Generic[Item]):
    """Workers of one kind: `make()` starts one; it has `ready(version)`, `work(item, attempt)`, `progress()`."""

    make: Callable[[], Any]
    size: int
    patience: float = PATIENCE
    tell: Callable[[int], object] = lambda _: None  # called with the rows done by the busy workers
    _starting: dict[Any, Any] = field(default_factory=dict)  # reference to readiness -> worker
    _idle: list[Any] = field(default_factory=list)
    _busy: dict[Any, Busy[Item]] = field(default_factory=dict)  # reference to the outcome -> worker
    _alive: float = 0.0  # when there was last a worker
    _failed: int = 0  # workers that failed to start, in a row

    def over(self, items: Sequence[Item]) -> Iterator[tuple[Item, Any]]:
        """Yield each item with its outcome when it is finished; raise `WorkersLost` if that fails."""
        waiting, tries = deque(items), dict.fromkeys(range(len(items)), 0)
        numbers = {id(item): number for number, item in enumerate(items)}
        self._alive = time.monotonic()
        try:
            for _ in range(min(self.size, len(items))):
                self._start()
            while waiting or self._busy:
                while self._idle and waiting:
                    item = waiting.popleft()
                    self._give(item, tries[numbers[id(item)]])
                for busy, outcome in self._finish():
                    if not isinstance(outcome, Lost):
                        yield busy.item, outcome
                        continue
                    number = numbers[id(busy.item)]
                    tries[number] += 1
                    if tries[number] == TRIES:
                        raise _hopeless(busy.item, outcome)
                    waiting.appendleft(busy.item)
        finally:
            self._stop()

    def _start(self) -> None:
        worker = self.make()
        self._starting[worker.ready.remote(__version__)] = worker

    def _give(self, item: Item, attempt: int) -> None:
        worker = self._idle.pop()
        self._busy[worker.work.remote(item, attempt)] = Busy(worker, item, time.monotonic())

    def _finish(self) -> list[tuple[Busy[Item], Any]]:
        """Wait briefly; return the workers that finished or were lost, and mark those that have started as idle."""
        done, _ = ray.wait([*self._starting, *self._busy], num_returns=1, timeout=LOOK)
        found: list[tuple[Busy[Item], Any]] = []
        for reference in done:
            outcome = _outcome(reference)
            if reference in self._starting:
                worker = self._starting.pop(reference)
                self._failed = self._failed + 1 if isinstance(outcome, Lost) else 0
                if self._failed == TRIES:
                    msg = f"{TRIES} workers in a row failed to start: {outcome.why}."
                    raise WorkersLost(msg)
                if isinstance(outcome, Lost):
                    self._start()
                else:
                    self._idle.append(worker)
                continue
            busy = self._busy.pop(reference)
            if isinstance(outcome, Lost):
                self._start()
            else:
                self._idle.append(busy.worker)
            found.append((busy, outcome))
        found += self._silent()
        self._check_alive()
        return found

    def _silent(self) -> list[tuple[Busy[Item], Any]]:
        """Request the progress of the busy workers; return those without a heartbeat for too long."""
        now = time.monotonic()
        for busy in self._busy.values():
            if busy.asked is None:
                busy.asked = busy.worker.progress.remote()
        asked = {busy.asked: busy for busy in self._busy.values()}
        said, _ = ray.wait(list(asked), num_returns=len(asked), timeout=0) if asked else ([], [])
        for reference in said:
            busy, outcome = asked[reference], _outcome(reference)
            busy.asked = None
            if not isinstance(outcome, Lost):
                busy.heard, busy.done = now, outcome
        self.tell(sum(busy.done for busy in self._busy.values()))
        silent = [reference for reference, busy in self._busy.items() if now - busy.heard > self.patience]
        found: list[tuple[Busy[Item], Any]] = []
        for reference in silent:
            busy = self._busy.pop(reference)
            ray.kill(busy.worker)
            self._start()
            found.append((busy, Lost(f"it sent no heartbeat for {self.patience:g} s")))
        return found

    def _check_alive(self) -> None:
        """Raise an error if there has been no worker for too long."""
        now = time.monotonic()
        if self._busy or self._idle:
            self._alive = now
        elif now - self._alive > self.patience:
            msg = (
                f"no worker started within {self.patience:g} s: the cluster has no free CPU. "
                "See `ray status`; add a node, or stop other jobs."
            )
            raise WorkersLost(msg)

    def _stop(self) -> None:
        """End all workers."""
        for worker in [*self._starting.values(), *self._idle, *(busy.worker for busy in self._busy.values())]:
            ray.kill(worker)
        self._starting, self._idle, self._busy = {}, [], {}


@dataclass(frozen=True)
class Lost:
    """A worker that died, and why as far as known."""

    why: str


def _outcome(reference: Any) -> Any:
    """Return the result of a worker, or `Lost`; an error that it raised is raised here."""
    try:
        return ray.get(reference)
    except RayTaskError as error:
        raise told_error(error) from error
    except RayError as error:
        return Lost(what_happened(error))


def what_happened(error: Exception) -> str:
    """Return the message of a Ray error in one line: the last line of a traceback, else the first line."""
    lines = [line for line in COLORS.sub("", str(error)).splitlines() if line.strip()] or [type(error).__name__]
    return one_line(lines[-1] if "Traceback" in str(error) else lines[0]).rstrip(".")


def told_error(error: RayTaskError) -> Exception:
    """Return the error that a task raised on another node, without the traceback of Ray."""
    cause: Any = error.cause
    while isinstance(cause, RayTaskError):
        cause = cause.cause
    if isinstance(cause, VicinalError):
        return cause
    # A dataset keeps only the traceback of the error.
    if said := RAISED.search(COLORS.sub("", str(error))):
        return InvalidFile(said[1])
    return WorkersLost(f"a worker failed: {one_line(cause)}")


def _hopeless(item: object, lost: Lost) -> WorkersLost:
    return WorkersLost(
        f"{item} ended {TRIES} workers in a row: {lost.why}. Give the workers more memory, or make partitions smaller."
    )
