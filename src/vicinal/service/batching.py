"""Requests that wait at the same time are answered together.

Rows do not depend on their company, and one block of distances costs the same for one row as for several. Nothing
waits for company: whoever is there when the worker is free goes along. Where a row takes less time than handing it to a
thread, it is answered at once. Large requests have workers of their own, so that single rows need not wait for them.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, fields
from functools import partial
from typing import ParamSpec, TypeAlias, TypeVar

import numpy as np

from vicinal.outputs import ModelOutputs, stack_outputs
from vicinal.predictor.predictors import IntervalPredictor, SetPredictor
from vicinal.regions import PredictionIntervals, PredictionSets
from vicinal.service.errors import Refused

AnyPredictor: TypeAlias = SetPredictor | IntervalPredictor
Regions: TypeAlias = PredictionSets | PredictionIntervals

P = ParamSpec("P")
Result = TypeVar("Result")

TOGETHER = 16
"""Rows that are answered together; a request with more goes alone."""

AT_ONCE = 2**22
"""Entries of the calibration rows up to which a few rows take a millisecond or two, and need no thread."""


@dataclass(frozen=True, eq=False)
class Job:
    """One request that waits."""

    predictor: AnyPredictor  # at the coverage that is asked for
    outputs: ModelOutputs
    done: asyncio.Future[Regions]

    @property
    def kind(self) -> Hashable:
        """What requests must share to be answered together: the coverage, and the types of all columns."""
        columns = (getattr(self.outputs, field.name) for field in fields(self.outputs))
        shapes = tuple(
            (column.dtype.kind, column.dtype.itemsize if column.dtype.kind == "f" else 0, column.shape[1:])
            if isinstance(column, np.ndarray)
            else column
            for column in columns
        )
        return id(self.predictor), type(self.outputs), shapes


class Batcher:
    """Answers requests on threads: one for single rows, several at a time, and two for large requests."""

    def __init__(self, predictor: AnyPredictor) -> None:
        rows, width = predictor.calibration.n_ranked, predictor.calibration.width or 1
        self._at_once = rows * width <= AT_ONCE and not predictor.scores_read_representations
        self._waiting: deque[Job] = deque()
        self._busy = False
        self._few = ThreadPoolExecutor(1, "few")
        self._many = ThreadPoolExecutor(2, "many")

    async def predict(self, predictor: AnyPredictor, outputs: ModelOutputs, seconds: float) -> Regions:
        """Return the answers for some rows; refuse where they would come too late."""
        loop = asyncio.get_running_loop()
        if len(outputs) > TOGETHER:
            return await self.run(seconds, _predict, predictor, outputs)
        job = Job(predictor, outputs, loop.create_future())
        self._waiting.append(job)
        loop.call_soon(self._next, loop)  # not at once: those that arrive in the same moment go along
        async with _in_time(seconds):
            return await job.done

    async def run(self, seconds: float, work: Callable[P, Result], *arguments: P.args, **named: P.kwargs) -> Result:
        """Do one piece of work beside the single rows; refuse where it would come too late."""
        async with _in_time(seconds):
            return await asyncio.get_running_loop().run_in_executor(self._many, partial(work, *arguments, **named))

    def close(self) -> None:
        """Finish what has begun."""
        self._few.shutdown()
        self._many.shutdown()

    def _next(self, loop: asyncio.AbstractEventLoop) -> None:
        """Hand those that wait to the worker, where it is free."""
        if self._busy or not self._waiting:
            return
        first = self._waiting.popleft()
        jobs, rows = [first], len(first.outputs)
        while self._waiting and self._waiting[0].kind == first.kind:
            if rows + len(self._waiting[0].outputs) > TOGETHER:
                break
            jobs.append(self._waiting.popleft())
            rows += len(jobs[-1].outputs)
        if self._at_once:
            self._finish(loop, jobs, _answer_jobs(jobs))
            return
        self._busy = True
        work = loop.run_in_executor(self._few, _answer_jobs, jobs)
        work.add_done_callback(lambda finished: self._finish(loop, jobs, finished.result()))

    def _finish(self, loop: asyncio.AbstractEventLoop, jobs: list[Job], answers: list[Regions | Exception]) -> None:
        self._busy = False
        for job, found in zip(jobs, answers, strict=True):
            if job.done.done():  # whoever asked has gone
                continue
            if isinstance(found, Exception):
                job.done.set_exception(found)
            else:
                job.done.set_result(found)
        loop.call_soon(self._next, loop)


@asynccontextmanager
async def _in_time(seconds: float) -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError:
        raise Refused(503, "the service is too busy to answer in time; ask again.", Retry_After="1") from None


def _answer_jobs(jobs: list[Job]) -> list[Regions | Exception]:
    """Answer several requests as one; where that fails, each alone, so that one cannot spoil the others."""
    if len(jobs) > 1:
        with suppress(Exception):
            together = _predict(jobs[0].predictor, stack_outputs([job.outputs for job in jobs]))
            ends = np.cumsum([len(job.outputs) for job in jobs]).tolist()
            return [together[end - len(job.outputs) : end] for job, end in zip(jobs, ends, strict=True)]
    return [_alone(job) for job in jobs]


def _alone(job: Job) -> Regions | Exception:
    try:
        return _predict(job.predictor, job.outputs)
    except Exception as error:  # it belongs to the one who asked
        return error


def _predict(predictor: AnyPredictor, outputs: ModelOutputs) -> Regions:
    return predictor.predict(outputs)  # type: ignore[arg-type]  # it refuses outputs of the other task
