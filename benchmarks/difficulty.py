"""What a difficulty map costs: `make bench-difficulty`. Rewrites its section of benchmarks/RESULTS.md.

5,000 calibration rows, 10,000 test rows, 1,000 classes, APS at .9, Exact with a tenth of the rows as neighbors.
"""

from __future__ import annotations

import os

THREADS = "2"
for variable in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS", "VICINAL_THREADS"):
    os.environ.setdefault(variable, THREADS)

import numpy as np  # noqa: E402  after the number of threads is set
from sections import median_seconds, write_section  # noqa: E402

import vicinal as vc  # noqa: E402

TUNING, CALIBRATION, TEST, CLASSES, WIDTH = 2_000, 5_000, 10_000, 1_000, 512
REPEATS = 5


def made_rows(n: int, seed: int) -> tuple[vc.ClassificationOutputs, np.ndarray]:
    """Return outputs of a classifier that is surer of some rows than of others."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(CLASSES, size=n)
    logits = rng.standard_normal((n, CLASSES), dtype=np.float32)
    logits[np.arange(n), labels] += rng.uniform(2, 9, size=n).astype(np.float32)
    return vc.ModelOutputs.from_logits(logits, rng.standard_normal((n, WIDTH), dtype=np.float32)), labels


def main() -> None:
    tuning, labels = made_rows(TUNING, 0)
    calibration, truths = made_rows(CALIBRATION, 1)
    test, _ = made_rows(TEST, 2)
    temperature = vc.TemperatureScaling.fit(tuning, labels)
    maps = {
        "representation, 512 columns": vc.Identity(),
        "entropy": vc.DifficultyMap(vc.Entropy()),
        "entropy, confidence": vc.DifficultyMap(vc.Entropy(), vc.Confidence()),
        "entropy, naive size": vc.DifficultyMap(vc.Entropy(), vc.NaiveSetSize()),
    }
    rows = []
    for name, plan in maps.items():
        fitted = plan.fit(tuning, labels, temperature)
        settings = {"score": vc.APS(), "localizer": vc.Uniform(0.1), "probability_model": temperature}

        def calibrate(fitted=fitted, settings=settings):
            return vc.calibrate(calibration, truths, 0.9, representation_map=fitted, **settings)

        predictor = calibrate()
        times = median_seconds(calibrate, REPEATS), median_seconds(lambda kept=predictor: kept.predict(test), REPEATS)
        rows.append((name, *times))
    first, one = rows[0], rows[1]
    heads = "neighbors by", "calibrate, s", "predict, s", "calibrate, ratio to 512 columns", "predict, ratio"
    lines = ["", f"| {' | '.join(heads)} |", "|---|---|---|---|---|"]
    lines += [f"| {name} | {a:.3f} | {b:.3f} | {a / first[1]:.2f} | {b / first[2]:.2f} |" for name, a, b in rows]
    more = ", ".join(f"{name.split(', ')[1]} {b / one[2] - 1:+.1%}" for name, _, b in rows[2:])
    lines += ["", f"A second coordinate changes the time of predict by: {more} (at most 5 % more)."]
    write_section("Difficulty", THREADS, lines, "make bench-difficulty")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
