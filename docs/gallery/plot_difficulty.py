"""
Thresholds by difficulty
========================

With a :class:`vicinal.DifficultyMap`, the neighbors of a row are rows that are about as hard for the model.
:func:`vicinal.plots.thresholds_by_difficulty` shows the threshold of each calibration row and of some test rows against
the rank of their difficulty. Without a neighborhood all rows have the dotted threshold.
"""

import matplotlib.pyplot as plt

import vicinal as vc
from vicinal.reporting import gather_report

data = vc.datasets.load_cifar100_resnet18()
cut = vc.split_rows(4000, {"tuning": 1000, "calibration": 1500, "test": 1500}, seed=0)
tuning, calibration, test = (data[rows] for rows in cut.values())

predictor = vc.calibrate(
    calibration.outputs,
    calibration.labels,
    coverage=0.9,
    score=vc.APS(),
    localizer=vc.Uniform(0.1),
    representation_map=vc.DifficultyMap(vc.Entropy()).fit(tuning.outputs),
)
gathered = gather_report(predictor, test.outputs, test.labels, rows=100)

_, ax = plt.subplots(figsize=(9, 4.5), layout="constrained")
vc.plots.thresholds_by_difficulty(gathered["difficulty"], ax=ax)
plt.show()
