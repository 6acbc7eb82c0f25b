"""Monitor a predictor on a stream of rows: its coverage, and exchangeability with the calibration rows."""

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
"""Recent rows on which coverage is measured."""

THRESHOLD = 1_000.0
"""Capital at which the alarm is raised: a false alarm in at most 1 of 1,000 streams as long as an epoch."""

EPOCH = 1_000_000
"""Rows after which the ranking restarts from the calibration rows, and the bets restart with it."""

RECENT = 10_000
"""Recent rows that are compared with the calibration rows: one equal row may be chance, several are not."""


@dataclass(frozen=True)
class Drift:
    """The state of a `DriftMonitor`; `print` shows it in words.

    Parameters
    ----------
    rows : int
        Number of rows with known truth.
    window : int
        Number of recent rows on which coverage is measured.
    coverage : float or None
        Share of these rows whose set or interval held the truth.
    interval : tuple of float or None
        95 % confidence interval of that share (Clopper-Pearson), valid at this moment only.
    target : float or None
        Mean target coverage of these rows.
    log10_capital : float
        Decimal logarithm of the capital of the bets against exchangeability: the evidence for drift.
    threshold : float
        Capital at which the alarm is raised.
    alarm : int or None
        Number of the row, from 1, at which the alarm was raised; it stays raised.

    Examples
    --------
    >>> print(Drift(0, 0, None, None, None, 0.0, 1000.0, None))
    No row with known truth yet.
    """

    rows: int
    window: int
    coverage: float | None
    interval: tuple[float, float] | None
    target: float | None
    log10_capital: float
    threshold: float
    alarm: int | None

    def __str__(self) -> str:
        if self.coverage is None or self.interval is None:
            return "No row with known truth yet."
        low, high = self.interval
        said = f"{self.rows} {'row' if self.rows == 1 else 'rows'}. "
        said += f"Coverage of the last {self.window}: {self.coverage:.3f} "
        said += f"(95 % interval {low:.3f} to {high:.3f}; asked for {self.target:.4g}). "
        evidence = f"evidence {_write(self.log10_capital)}, alarm threshold {self.threshold:,g}"
        if self.alarm is None:
            return f"{said}No drift detected: {evidence}."
        return f"{said}DRIFT: the alarm was raised at row {self.alarm} ({evidence}). Calibrate anew on recent rows."


def _finite(value: float) -> float | None:
    """Return a number as JSON can hold it: None for infinities."""
    return value if math.isfinite(value) else None


def _write(log10: float) -> str:
    """Return a number from its decimal logarithm, as a plain number or as a power of ten."""
    return f"{10**log10:.2g}" if abs(log10) < 6 else f"10^{log10:.0f}"  # noqa: PLR2004  few digits


class DriftMonitor:
    """Coverage and drift of a predictor on a stream of rows whose truth becomes known.

    Unlike a predictor, a monitor changes: use one for each stream, from one thread at a time.

    Parameters
    ----------
    predictor : SetPredictor or IntervalPredictor
        The predictor in use.
    window : int
        Number of recent rows on which coverage is measured.
    threshold : float
        Capital of the bets against exchangeability at which the alarm is raised; above 1.
    seed : int
        Seed for the order of equal scores.

    Raises
    ------
    Incompatible
        If `predictor` is not a predictor.
    InvalidArgument
        If a number is out of range.

    Notes
    -----
    If the rows of stream and calibration are exchangeable, the alarm is raised in at most a share 1 / threshold of all
    streams of up to a million rows. After a million rows the bets begin anew.

    References
    ----------
    Vovk, Gammerman and Shafer, "Algorithmic Learning in a Random World", 2nd edition, chapter 8.

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
                "threshold", threshold, "a number above 1: at most 1 stream in `threshold` raises a false alarm"
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
        """Add rows with their truth, in the order in which they came.

        Parameters
        ----------
        outputs : ModelOutputs
            Outputs of the model for n rows.
        targets : array-like of shape (n,)
            Labels or values: the truth.
        regions : PredictionSets or PredictionIntervals, optional
            The sets or intervals that were returned for these rows. Default: they are predicted here.

        Returns
        -------
        Drift
            The state after these rows.

        Raises
        ------
        ShapeMismatch
            If the numbers of rows differ.
        Incompatible
            If the predictor was calibrated on some of the rows.

        Examples
        --------
        >>> import numpy as np
        >>> import vicinal as vc
        >>> outputs = vc.ModelOutputs.from_predictions(np.zeros(60))
        >>> predictor = vc.calibrate(outputs[:50], np.arange(50.0), 0.8, method=vc.Split())
        >>> vc.DriftMonitor(predictor).observe(outputs[50:], np.arange(50.0, 60.0)).coverage
        0.0
        """
        found = self.predictor.predict(outputs) if regions is None else regions  # type: ignore[arg-type]
        if len(found) != len(outputs):
            msg = f"regions must be those of the {len(outputs)} rows in outputs; got {len(found)}."
            raise ShapeMismatch(msg, argument="regions", expected=len(outputs), found=len(found))
        values = self.predictor.check_targets(outputs, targets)
        self.check_new(row_marks(outputs, values))
        scores = self.predictor.target_scores(outputs, targets)
        asked = self.predictor.coverage if found.coverage is None else found.coverage
        return self.record(scores, found.covers(targets), np.full(len(scores), float(exact_coverage(asked))))

    def record(self, scores: Floats, covered: Bools, asked: Floats) -> Drift:
        """Add rows by their scores, whether they were covered, and their target coverage.

        Parameters
        ----------
        scores : ndarray of shape (n,)
            Scores of the truth: `predictor.target_scores(outputs, targets)`.
        covered : ndarray of bool of shape (n,)
            Whether each answer contained the truth.
        asked : ndarray of shape (n,)
            Target coverage of each answer.

        Returns
        -------
        Drift
            The state after these rows.

        Raises
        ------
        ShapeMismatch
            If the numbers of rows differ, or a score is NaN.

        Examples
        --------
        >>> import numpy as np
        >>> import vicinal as vc
        >>> outputs = vc.ModelOutputs.from_predictions(np.zeros(50))
        >>> predictor = vc.calibrate(outputs, np.arange(50.0), 0.8, method=vc.Split())
        >>> vc.DriftMonitor(predictor).record(np.array([3.0, 4.0]), np.array([True, True]), np.full(2, 0.8)).rows
        2
        """
        left = np.asarray(scores, np.float64)
        held, wanted = np.asarray(covered, np.bool_), np.asarray(asked, np.float64)
        if not left.shape == held.shape == wanted.shape == (len(left),) or np.isnan(left).any():
            msg = "scores, covered and asked must be three arrays of shape (n,), and scores must not be NaN."
            shapes = left.shape, held.shape, wanted.shape
            raise ShapeMismatch(
                msg, argument="scores, covered, asked", expected="three arrays of shape (n,)", found=shapes
            )
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
        """The state up to now."""
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
        """Return the state as JSON, from which `resume` continues.

        Returns
        -------
        dict
            Numbers, lists and text.

        Examples
        --------
        >>> import numpy as np
        >>> import vicinal as vc
        >>> outputs = vc.ModelOutputs.from_predictions(np.zeros(50))
        >>> predictor = vc.calibrate(outputs, np.arange(50.0), 0.8, method=vc.Split())
        >>> monitor, other = vc.DriftMonitor(predictor), vc.DriftMonitor(predictor)
        >>> found = monitor.record(np.array([3.0, 4.0]), np.array([True, True]), np.full(2, 0.8))
        >>> other.resume(monitor.snapshot())
        >>> other.drift == found
        True
        """
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
        """Continue from a snapshot, as if all its rows had been added to this monitor.

        Parameters
        ----------
        snapshot : dict
            What `snapshot` returned.
        """
        self._rows, self._alarm = int(snapshot["rows"]), snapshot["alarm"]
        self._window.clear()
        self._window.extend((bool(covered), float(asked)) for covered, asked in snapshot["window"])
        self._ranking.restart()
        self._ranking.join(np.frombuffer(base64.b64decode(snapshot["joined"], validate=True)))
        stakes = [-math.inf if one is None else float(one) for one in snapshot["martingale"]["log_stakes"]]
        self._martingale = Martingale(int(snapshot["martingale"]["rows"]), stakes)

    def check_new(self, marks: Floats) -> None:
        """Raise an error if the predictor was calibrated on these rows, also if they come a few at a time.

        Parameters
        ----------
        marks : ndarray of shape (n, 2)
            Fingerprints of the rows.

        Raises
        ------
        Incompatible
            If the predictor was calibrated on them.
        """
        if self._seen is None or not len(marks):
            return
        self._recent = np.concatenate([self._recent, marks])[-RECENT:]
        places = np.searchsorted(self._seen[:, 0], marks[:, 0]).clip(max=len(self._seen) - 1)
        if np.any(self._seen[places, 0] == marks[:, 0]):  # some may be equal: compare all
            message = "the predictor was calibrated on some of these rows ({repeats}). Give new rows to the monitor."
            check_repeats(self._seen, self._recent, message)
