"""Calibrate and predict with the installed package: a wheel that lacks a file fails here."""

from __future__ import annotations

import vicinal as vc

data = vc.datasets.load_cifar100_resnet18()
known, test = data[:500], data[500:]
predictor = vc.calibrate(known.outputs, known.labels, 0.9, localizer=vc.Uniform(50))
coverage = vc.evaluate(predictor.predict(test.outputs), test.labels).coverage
print(f"vicinal {vc.__version__}: coverage {coverage:.3f} at 0.9")  # noqa: T201
if abs(coverage - 0.9) > 0.05:  # noqa: PLR2004
    msg = "the coverage is not near 0.9"
    raise SystemExit(msg)
