"""Predict waiting requests together.

The prediction for a row does not depend on the other rows, and a block of distances costs the same for one row as for
several. No request is delayed to fill a batch: all that wait when the worker becomes free form one. If a row takes less
time than handing it to a thread, it is predicted at once. Large requests have their own workers, so that single rows do
not wait for them.
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
"""Most rows of a batch; a larger request is predicted by itself."""

AT_ONCE = 2**22
"""With at most this many numbers in the calibration rows, a few rows take 1 or 2 ms and need no thread."""


@dataclass(frozen=True, eq=False)
class Job:
    """A waiting request."""

    predictor: AnyPredictor  # at the requested coverage
    outputs: ModelOutputs
    done: asyncio.Future[Regions]

    @property
    def kind(self) -> Hashable:
        """What the requests of a batch must share: the coverage and the types of all columns."""
        columns = (getattr(self.outputs, field.name) for field in fields(self.outputs))
        shapes = tuple(
            (column.dtype.kind, column.dtype.itemsize if column.dtype.kind == "f" else 0, column.shape[1:])
            if isinstance(column, np.ndarray)
            else column
            for column in columns
        )
        return id(self.predictor), type(self.outputs), shapes


class Batcher:
    """Predicts requests on threads: one for batches of small requests, and two for large requests."""

    def __init__(self, predictor: AnyPredictor) -> None:
        rows, width = predictor.calibration.n_ranked, predictor.calibration.width or 1
        self._at_once = rows * width <= AT_ONCE and not predictor.scores_read_representations
        self._waiting: deque[Job] = deque()
        self._busy = False
        self._few = ThreadPoolExecutor(1, "few")
        self._many = ThreadPoolExecutor(2, "many")

    async def predict(self, predictor: AnyPredictor, outputs: ModelOutputs, seconds: float) -> Regions:
        """Return the predictions for rows; refuse the request if they take too long."""
        loop = asyncio.get_running_loop()
        if len(outputs) > TOGETHER:
            return await self.run(seconds, _predict, predictor, outputs)
        job = Job(predictor, outputs, loop.create_future())
        self._waiting.append(job)
        loop.call_soon(self._next, loop)  # later, so that requests of the same moment form a batch
        async with _in_time(seconds):
            return await job.done

    async def run(self, seconds: float, work: Callable[P, Result], *arguments: P.args, **named: P.kwargs) -> Result:
        """Run work on the threads for large requests; refuse the request if it takes too long."""
        async with _in_time(seconds):
            return await asyncio.get_running_loop().run_in_executor(self._many, partial(work, *arguments, **named))

    def close(self) -> None:
        """Finish the work in progress."""
        self._few.shutdown()
        self._many.shutdown()

    def _next(self, loop: asyncio.AbstractEventLoop) -> None:
        """Hand a batch of waiting requests to the worker if it is free."""
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
            if job.done.done():  # the request was canceled
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
        raise Refused(503, "the service is too busy to reply in time; try again later.", Retry_After="1") from None


def _answer_jobs(jobs: list[Job]) -> list[Regions | Exception]:
    """Predict several requests as one batch; if that fails, one by one, so that one cannot affect the others."""
    if len(jobs) > 1:
        with suppress(Exception):
            together = _predict(jobs[0].predictor, stack_outputs([job.outputs for job in jobs]))
            ends = np.cumsum([len(job.outputs) for job in jobs]).tolist()
            return [together[end - len(job.outputs) : end] for job, end in zip(jobs, ends, strict=True)]
    return [_alone(job) for job in jobs]


def _alone(job: Job) -> Regions | Exception:
    try:
        return _predict(job.predictor, job.outputs)
    except Exception as error:  # it is sent to the client of this request
        return error


def _predict(predictor: AnyPredictor, outputs: ModelOutputs) -> Regions:
    return predictor.predict(outputs)  # type: ignore[arg-type]  # it refuses outputs of the other task
