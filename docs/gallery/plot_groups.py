"""
Coverage of each group
======================

:func:`vicinal.plots.plot_groups` shows the coverage of each group of test rows, with an interval. The intervals hold
for all groups together (Bonferroni): a group whose interval leaves out the target is really covered less, or more,
than asked.

The groups can be any column: a hospital, a product, a range of ages. Here they are the size of the set and the
confidence of the model.
"""

import matplotlib.pyplot as plt
import numpy as np

import vicinal as vc

data = vc.datasets.load_cifar100_resnet18()
calibration, test = data[:2000], data[2000:]
predictor = vc.calibrate(calibration.outputs, calibration.labels, coverage=0.9, method=vc.Split())
sets = predictor.predict(test.outputs)

size = np.select([sets.sizes <= 1, sets.sizes <= 3], ["0 or 1", "2 or 3"], "4 or more")
found = vc.evaluate(sets, test.labels, groups={"size": size, "confidence": sets.confidences})

_, ax = plt.subplots(figsize=(9, 4.5), layout="constrained")
vc.plots.plot_groups(found, ax=ax)
plt.show()
