"""
Coverage and size against the target
====================================

:func:`vicinal.plots.plot_coverage` shows two things for several target coverages: the coverage measured on test rows,
with its 95 % interval, and the mean size of the sets. The measured coverage should follow the dotted diagonal.
"""

import matplotlib.pyplot as plt

import vicinal as vc

data = vc.datasets.load_cifar100_resnet18()
calibration, test = data[:2000], data[2000:]
predictor = vc.calibrate(
    calibration.outputs,
    calibration.labels,
    coverage=0.9,
    localizer=vc.Exponential(n_neighbors=200, bandwidth=2.0),
)

_, ax = plt.subplots(figsize=(8, 4.5), layout="constrained")
vc.plots.plot_coverage(predictor, test.outputs, test.labels, ax=ax)
plt.show()
