"""Write one file of each kind in today's format, with the answers it must go on giving: run once for a new format.

    python tests/doors/files/formats/write.py

Files of a format that exists are never rewritten: they stand for what users have.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import vicinal as vc
from vicinal.persistence.artifact import FORMAT

HERE = Path(__file__).parent


def rows(n: int, seed: int) -> tuple[vc.ClassificationOutputs, np.ndarray]:
    """Return outputs and labels of a small classifier, from whole numbers: the same with any version of numpy."""
    rng = np.random.RandomState(seed)
    logits = rng.randint(-400, 400, size=(n, 4)) / 128
    labels = (logits + rng.randint(-300, 300, size=(n, 4)) / 128).argmax(axis=1)
    return vc.ModelOutputs.from_logits(
        logits, rng.randint(-256, 256, size=(n, 3)) / 128, class_names=list("abcd")
    ), labels


def values(n: int, seed: int) -> tuple[vc.RegressionOutputs, np.ndarray]:
    """Return predictions and targets of a small regression."""
    rng = np.random.RandomState(seed)
    table = rng.randint(-256, 256, size=(n, 2)) / 128
    predictions = table.sum(axis=1)
    return vc.ModelOutputs.from_predictions(predictions, table), predictions + rng.randint(-200, 200, size=n) / 128


def predictors() -> dict[str, vc.SetPredictor | vc.IntervalPredictor]:
    """Return one predictor of each kind of part."""
    (tuning, known), (calibration, labels) = rows(60, 1), rows(80, 2)
    near = vc.Exponential(9, 0.5)
    votes = vc.NeighborVotes.fit(tuning, known)
    mapped = vc.Chain(vc.Standardize(), vc.PrincipalComponents(2), vc.UnitLength()).fit(tuning)
    numbers, targets = values(60, 3)
    further, truths = values(80, 4)
    scaled = vc.ScaledResidual(vc.NeighborScales.fit(numbers, targets))
    raps, aps = vc.NeverEmpty(vc.RAPS(0.1, 1, seed=7)), vc.APS(seed=3)
    apart = vc.SplitReference(rows=(tuning, known))
    return {
        "exact": vc.calibrate(calibration, labels, 0.8, score=raps, localizer=near, probability_model=votes),
        "mapped": vc.calibrate(calibration, labels, 0.8, localizer=vc.Uniform(0.2), representation_map=mapped),
        "split": vc.calibrate(
            calibration, labels, 0.9, score=aps, probability_model=vc.TemperatureScaling(1.5), method=vc.Split()
        ),
        "reference": vc.calibrate(calibration, labels, 0.8, localizer=vc.Ball(0.7), method=apart),
        "left_out": vc.calibrate(calibration, labels, 0.8, localizer=near, method=vc.LeaveOneOut()),
        "paper": vc.calibrate(calibration, labels, 0.8, localizer=near, method=vc.PaperLiteral()),
        "half": vc.calibrate(calibration, labels, 0.8, localizer=near, representation_map=vc.Rounded(16)),
        "intervals": vc.calibrate(further, truths, 0.8, score=scaled, localizer=vc.Uniform(12)),
    }


def main() -> None:
    """Write the files and what they answer."""
    folder = HERE / str(FORMAT)
    if folder.exists():
        sys.exit(f"{folder} is there already, and files of a format are never rewritten.")
    folder.mkdir()
    test, inputs = rows(25, 9)[0], values(25, 9)[0]
    answers: dict[str, np.ndarray] = {}
    for name, predictor in predictors().items():
        predictor.save(folder / f"{name}.vicinal", precision=16 if name == "half" else None, model="a test")
        if isinstance(predictor, vc.SetPredictor):
            answers[name] = predictor.predict(test).members
        else:
            found = predictor.predict(inputs)
            answers[name] = np.stack([found.lower, found.upper])
    few = vc.Space(score=[vc.LAC(), vc.APS()], shares=(0.2,), multiples=(0.5,), bandwidths=(1,))
    report = vc.tune(*rows(120, 5), 0.8, strategy=vc.Grid(few), progress=False)
    vc.save_tuning(report, folder / "tuning.vicinal", data="a test")
    answers["tuning"] = np.array([[one.size, one.coverage, one.saving] for one in report.candidates])
    np.savez(folder / "answers.npz", **answers)


if __name__ == "__main__":
    main()
