"""
Coverage and accuracy against the confidence
============================================

:func:`vicinal.plots.plot_reliability` cuts the test rows into ten groups by the confidence of the model (the
probability of its top label). For each group it shows how often the top label is right and how often the set contains
the true label. Where the accuracy lies below the dotted diagonal, the model is overconfident. The sets make up for
that.
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

_, ax = plt.subplots(figsize=(8.5, 4.5), layout="constrained")
vc.plots.plot_reliability(predictor, test.outputs, test.labels, ax=ax)
plt.show()
