"""Metrics for Prometheus: requests, their duration, sizes of sets, coverage and drift."""

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
"""Upper ends of the bins of the histograms."""


class Counts:
    """All metrics of one service."""

    def __init__(self, *, sets: bool, about: dict[str, str]) -> None:
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        Info("vicinal", "The served model.", registry=self._registry).info(about)

        def gauge(name: str, text: str) -> Gauge:
            return Gauge(f"vicinal_{name}", text, registry=self._registry)

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"vicinal_{name}", text, labels, registry=self._registry)

        def histogram(name: str, text: str, ends: tuple[float, ...], *labels: str) -> Histogram:
            return Histogram(f"vicinal_{name}", text, labels, buckets=ends, registry=self._registry)

        self.requests = counter("requests", "Requests, by route and status.", "route", "status")
        self.seconds = histogram("request_seconds", "Seconds from request to reply.", SECONDS, "route")
        self.in_flight = gauge("requests_in_flight", "Requests in progress.")
        self.rows = histogram("request_rows", "Rows per request.", ROWS)
        if sets:
            self.sizes = histogram("set_size", "Labels per prediction set.", SIZES)
        else:
            self.sizes = histogram("interval_length", "Length of a prediction interval.", LENGTHS)
        self.remembered = gauge("answers_remembered", "Predictions whose true target can still be sent.")
        self.journal_failures = counter("journal_failures", "Records that could not be written to the journal.")
        self.truths = gauge("feedback_rows", "Rows whose true target is known.")
        self.refused = counter("feedback_refused", "True targets of unknown rows, or known already.", "why")
        self.coverage = gauge("coverage", "Observed coverage of the last rows with known target.")
        self.lower = gauge("coverage_lower", "Lower end of the 95 % interval of the coverage.")
        self.upper = gauge("coverage_upper", "Upper end of the 95 % interval of the coverage.")
        self.target = gauge("coverage_target", "Mean target coverage of these rows.")
        self.capital = gauge("drift_log10_capital", "Log10 of the evidence against exchangeability (capital of a bet).")
        self.alarm = gauge("drift_alarm", "1 once drift was detected.")
        for share in (self.coverage, self.lower, self.upper, self.target):
            share.set(float("nan"))  # unknown before the first true target

    def count_answer(self, regions: Regions, remembered: int) -> None:
        """Count predicted rows."""
        self.rows.observe(len(regions))
        sizes = regions.sizes if isinstance(regions, PredictionSets) else regions.lengths
        for size in sizes.tolist():
            self.sizes.observe(size)
        self.remembered.set(remembered)

    def set_drift(self, drift: Drift) -> None:
        """Update coverage and drift."""
        self.truths.set(drift.rows)
        self.capital.set(drift.log10_capital)
        self.alarm.set(drift.alarm is not None)
        if drift.coverage is not None and drift.interval is not None and drift.target is not None:
            self.coverage.set(drift.coverage)
            self.lower.set(drift.interval[0])
            self.upper.set(drift.interval[1])
            self.target.set(drift.target)

    def text(self) -> bytes:
        """Return all metrics in the text format of Prometheus."""
        return generate_latest(self._registry)
