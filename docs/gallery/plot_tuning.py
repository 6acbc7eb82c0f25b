"""
What tuning compared
====================

:func:`vicinal.tune` measures many candidates on tuning rows. :func:`vicinal.plots.tuning_frontier` shows all of them:
mean size to the right, coverage of the worst tenth (the tenth of the rows that is covered least) upwards. No
candidate is both smaller and more even than those on the line, the frontier. The star is the candidate that was
chosen.
"""

import matplotlib.pyplot as plt

import vicinal as vc
from vicinal.reporting import gather_report

data = vc.datasets.load_cifar100_resnet18()
cut = vc.split_rows(4000, {"tuning": 1000, "calibration": 1500, "test": 1500}, seed=0)
tuning, calibration, test = (data[rows] for rows in cut.values())

space = vc.Space(score=[vc.LAC(), vc.NeverEmpty(vc.APS()), vc.NeverEmpty(vc.RAPS(0.01, 5))], representation_map=[None])
best = vc.tune(tuning.outputs, tuning.labels, coverage=0.9, strategy=vc.Grid(space), progress=False)
predictor = vc.calibrate(calibration.outputs, calibration.labels, coverage=0.9, **best.settings)
gathered = gather_report(predictor, test.outputs, test.labels, tuning=best, rows=5)

_, ax = plt.subplots(figsize=(9, 4.5), layout="constrained")
vc.plots.tuning_frontier(gathered["frontier"], ax=ax)
plt.show()
