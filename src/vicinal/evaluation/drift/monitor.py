"""Watching a predictor at work: whether coverage is what was asked for, and the stream like the calibration rows."""

from __future__ import annotations

import base64
import math
from collections import deque
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from vicinal._util.arrays import Bools, Floats, positive, seed_number, whole_number
from vicinal._util.hashing import row_marks
from vicinal._util.repeats import check_repeats
from vicinal.calibration.levels import exact_coverage
from vicinal.errors import Incompatible, InvalidArgument, ShapeMismatch
from vicinal.evaluation.drift.martingale import Martingale
from vicinal.evaluation.drift.ranking import Ranking
from vicinal.evaluation.metrics import binomial_interval
from vicinal.outputs import ModelOutputs
from vicinal.predictor.predictors import IntervalPredictor, SetPredictor
from vicinal.regions import PredictionIntervals, PredictionSets

WINDOW = 1_000
"""Rows whose coverage is shown."""

THRESHOLD = 1_000.0
"""Capital at which the alarm is raised: without a change, in at most 1 of 1,000 streams as long as an epoch."""

EPOCH = 1_000_000
"""Rows that join the ranking before it begins anew from the calibration rows, and the bets with it."""

RECENT = 10_000
"""Rows that are compared with the calibration rows: one that coincides may be chance, several are not."""


@dataclass(frozen=True)
class Drift:
    """What has been seen up to now; `str` says it in words."""

    rows: int  # with known truth, in all
    window: int  # of them, those that coverage is of: the last ones
    coverage: float | None  # share of the window whose set or interval held the truth
    interval: tuple[float, float] | None  # Clopper-Pearson, 95 %, of that share, at this one moment
    target: float | None  # mean of the coverages that were asked for in the window
    log10_capital: float  # of the bet against exchangeability: the evidence for drift
    threshold: float  # capital at which the alarm is raised
    alarm: int | None  # row at which it was, counted from 1; it stays

    def __str__(self) -> str:
        if self.coverage is None or self.interval is None:
            return "No row with known truth yet."
        low, high = self.interval
        said = f"{self.rows} {'row' if self.rows == 1 else 'rows'}. "
        said += f"Coverage of the last {self.window}: {self.coverage:.3f} "
        said += f"(95 % interval {low:.3f} to {high:.3f}; asked for {self.target:.4g}). "
        evidence = f"evidence {_write(self.log10_capital)}, the alarm is raised at {self.threshold:,g}"
        if self.alarm is None:
            return f"{said}No drift seen: {evidence}."
        return f"{said}DRIFT: the alarm was raised at row {self.alarm}; {evidence}. Calibrate anew on recent rows."


def _finite(value: float) -> float | None:
    """Return a number as JSON has it."""
    return value if math.isfinite(value) else None


def _write(log10: float) -> str:
    """Return a number by its logarithm: plainly, or as a power of ten."""
    return f"{10**log10:.2g}" if abs(log10) < 6 else f"10^{log10:.0f}"  # noqa: PLR2004  digits that one can count


class DriftMonitor:
    """Coverage and drift of a predictor on a stream of rows whose truth becomes known.

    Coverage is that of the last `window` rows. The alarm is raised when the capital of a bet against exchangeability
    of stream and calibration rows reaches `threshold`; where they are exchangeable that happens in at most a share
    1 / threshold of all streams of up to a million rows, after which the bets begin anew. `seed` draws the place of a
    score among equal ones. Unlike a predictor, it changes: one monitor is for one stream, and one thread at a time.

    Examples
    --------
    >>> import vicinal as vc
    >>> data = vc.datasets.load_cifar100_resnet18()
    >>> predictor = vc.calibrate(data.outputs[:1000], data.labels[:1000], 0.9, localizer=vc.Uniform(100))
    >>> monitor = vc.DriftMonitor(predictor)
    >>> monitor.observe(data.outputs[1000:1300], data.labels[1000:1300]).alarm is None
    True
    >>> monitor.observe(data.outputs[1300:1600], (data.labels[1300:1600] + 1) % 100).alarm
    329
    """

    def __repr__(self) -> str:
        return f"DriftMonitor({self.drift})"

    def __init__(
        self,
        predictor: SetPredictor | IntervalPredictor,
        *,
        window: int = WINDOW,
        threshold: float = THRESHOLD,
        seed: int = 0,
    ) -> None:
        if not isinstance(predictor, (SetPredictor, IntervalPredictor)):
            msg = f"DriftMonitor needs a predictor, made by calibrate or load; got {type(predictor).__name__}."
            raise Incompatible(msg)
        self.predictor = predictor
        self.threshold = positive("threshold", threshold)
        if self.threshold <= 1:
            raise InvalidArgument(
                "threshold", threshold, "a number above 1: at most 1 in so many streams alarms falsely"
            )
        self.seed = seed_number("seed", seed)
        self._window: deque[tuple[bool, float]] = deque(maxlen=whole_number("window", window, least=1))
        self._seen = None if predictor.seen is None else predictor.seen[np.argsort(predictor.seen[:, 0])]
        self._recent = np.empty((0, 2))
        self._ranking = Ranking(predictor.calibration.ranked_scores)
        self._martingale = Martingale()
        self._rows = 0
        self._alarm: int | None = None

    def observe(
        self, outputs: ModelOutputs, targets: ArrayLike, regions: PredictionSets | PredictionIntervals | None = None
    ) -> Drift:
        """Take rows in with their truth, in the order they came; return what has been seen up to now.

        `regions` are the sets or intervals that were returned for them; without, they are predicted here.
        """
        found = self.predictor.predict(outputs) if regions is None else regions  # type: ignore[arg-type]
        if len(found) != len(outputs):
            msg = f"regions must be those of the {len(outputs)} rows; got {len(found)}."
            raise ShapeMismatch(msg)
        values = self.predictor.check_targets(outputs, targets)
        self.check_new(row_marks(outputs, values))
        scores = self.predictor.target_scores(outputs, targets)
        asked = self.predictor.coverage if found.coverage is None else found.coverage
        return self.record(scores, found.covers(targets), np.full(len(scores), float(exact_coverage(asked))))

    def record(self, scores: Floats, covered: Bools, asked: Floats) -> Drift:
        """Take rows in by the score of their truth, whether the answer held it, and the coverage asked for, (n,) each.

        Scores are those of the predictor: `predictor.target_scores(outputs, targets)`.
        """
        left = np.asarray(scores, np.float64)
        held, wanted = np.asarray(covered, np.bool_), np.asarray(asked, np.float64)
        if not left.shape == held.shape == wanted.shape == (len(left),) or np.isnan(left).any():
            msg = (
                "record needs a score that is not NaN, whether it was covered and the coverage asked for, for each row."
            )
            raise ShapeMismatch(msg)
        self._window.extend(zip(held.tolist(), wanted.tolist(), strict=True))
        while len(left):
            if len(self._ranking.joined) >= EPOCH:
                self._ranking.restart()
                self._martingale = Martingale()
            some, left = np.split(left, [EPOCH - len(self._ranking.joined)])
            for p in self._ranking.p_values(some, self.seed, self._rows):
                self._bet(p)
        return self.drift

    def _bet(self, p: float) -> None:
        self._martingale.update([p])
        self._rows += 1
        if self._alarm is None and self._martingale.log_capital >= math.log(self.threshold):
            self._alarm = self._rows

    @property
    def drift(self) -> Drift:
        """What has been seen up to now."""
        n, held = len(self._window), sum(covered for covered, _ in self._window)
        return Drift(
            rows=self._rows,
            window=n,
            coverage=held / n if n else None,
            interval=binomial_interval(held, n) if n else None,
            target=math.fsum(asked for _, asked in self._window) / n if n else None,
            log10_capital=self._martingale.log_capital / math.log(10),
            threshold=self.threshold,
            alarm=self._alarm,
        )

    def snapshot(self) -> dict[str, Any]:
        """Return all that `resume` needs to go on from here, as JSON."""
        return {
            "rows": self._rows,
            "alarm": self._alarm,
            "window": [[int(covered), asked] for covered, asked in self._window],
            "joined": base64.b64encode(self._ranking.joined.tobytes()).decode(),  # JSON has no infinities
            "martingale": {
                "rows": self._martingale.rows,
                "log_stakes": [_finite(one) for one in self._martingale.log_stakes],
            },
        }

    def resume(self, snapshot: dict[str, Any]) -> None:
        """Go on from what `snapshot` returned, as if all those rows had been seen here."""
        self._rows, self._alarm = int(snapshot["rows"]), snapshot["alarm"]
        self._window.clear()
        self._window.extend((bool(covered), float(asked)) for covered, asked in snapshot["window"])
        self._ranking.restart()
        self._ranking.join(np.frombuffer(base64.b64decode(snapshot["joined"], validate=True)))
        stakes = [-math.inf if one is None else float(one) for one in snapshot["martingale"]["log_stakes"]]
        self._martingale = Martingale(int(snapshot["martingale"]["rows"]), stakes)

    def check_new(self, marks: Floats) -> None:
        """Refuse rows, by their marks, that the predictor was calibrated on, however few come at a time."""
        if self._seen is None or not len(marks):
            return
        self._recent = np.concatenate([self._recent, marks])[-RECENT:]
        places = np.searchsorted(self._seen[:, 0], marks[:, 0]).clip(max=len(self._seen) - 1)
        if np.any(self._seen[places, 0] == marks[:, 0]):  # some may be: look at all
            message = "these are rows that the predictor was calibrated on ({repeats}); drift shows on new ones only."
            check_repeats(self._seen, self._recent, message)
