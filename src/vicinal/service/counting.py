"""What Prometheus is told: requests, how long they took, how large answers are, coverage and drift."""

from __future__ import annotations

from vicinal._util.extras import needs
from vicinal.evaluation.drift import Drift
from vicinal.regions import PredictionSets
from vicinal.service.batching import Regions

with needs("prometheus_client", "serve"):
    from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info, ProcessCollector, generate_latest

SECONDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30)
SIZES = (0, 1, 2, 3, 5, 10, 20, 50, 100, 200, 500, 1000)
LENGTHS = tuple(10.0**power for power in range(-6, 7))
ROWS = (1, 2, 4, 8, 16, 100, 1_000, 10_000)
"""Upper ends of what is counted together."""


class Counts:
    """All counters of one service."""

    def __init__(self, *, sets: bool, about: dict[str, str]) -> None:
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        Info("vicinal", "What is served.", registry=self._registry).info(about)

        def gauge(name: str, said: str) -> Gauge:
            return Gauge(f"vicinal_{name}", said, registry=self._registry)

        def counter(name: str, said: str, *labels: str) -> Counter:
            return Counter(f"vicinal_{name}", said, labels, registry=self._registry)

        def histogram(name: str, said: str, ends: tuple[float, ...], *labels: str) -> Histogram:
            return Histogram(f"vicinal_{name}", said, labels, buckets=ends, registry=self._registry)

        self.requests = counter("requests", "Requests answered.", "route", "status")
        self.seconds = histogram("request_seconds", "From request to reply.", SECONDS, "route")
        self.in_flight = gauge("requests_in_flight", "Requests being worked on.")
        self.rows = histogram("request_rows", "Rows of a request.", ROWS)
        if sets:
            self.sizes = histogram("set_size", "Labels in a set.", SIZES)
        else:
            self.sizes = histogram("interval_length", "Length of an interval.", LENGTHS)
        self.fitted_rows = gauge("answers_remembered", "Answers for which the truth may come.")
        self.unwritten = counter("journal_failures", "Records that the journal could not take.")
        self.truths = gauge("feedback_rows", "Rows whose truth is known.")
        self.refused = counter("feedback_refused", "Truths of rows that are unknown, or known already.", "why")
        self.coverage = gauge("coverage", "Share of the last rows whose answer held the truth.")
        self.lower = gauge("coverage_lower", "Lower end of its 95 % interval.")
        self.upper = gauge("coverage_upper", "Upper end of its 95 % interval.")
        self.target = gauge("coverage_target", "Mean coverage that was asked for in these rows.")
        self.capital = gauge("drift_log10_capital", "Capital of the bet against exchangeability, log10.")
        self.alarm = gauge("drift_alarm", "1 once drift was seen.")
        for share in (self.coverage, self.lower, self.upper, self.target):
            share.set(float("nan"))  # there is none before the first truth

    def count_answer(self, regions: Regions, remembered: int) -> None:
        """Count answers."""
        self.rows.observe(len(regions))
        sizes = regions.sizes if isinstance(regions, PredictionSets) else regions.lengths
        for size in sizes.tolist():
            self.sizes.observe(size)
        self.fitted_rows.set(remembered)

    def seen(self, drift: Drift) -> None:
        """Show coverage and drift."""
        self.truths.set(drift.rows)
        self.capital.set(drift.log10_capital)
        self.alarm.set(drift.alarm is not None)
        if drift.coverage is not None and drift.interval is not None and drift.target is not None:
            self.coverage.set(drift.coverage)
            self.lower.set(drift.interval[0])
            self.upper.set(drift.interval[1])
            self.target.set(drift.target)

    def text(self) -> bytes:
        """Return all of it as Prometheus reads it."""
        return generate_latest(self._registry)
