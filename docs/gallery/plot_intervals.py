"""
Prediction intervals against a feature
======================================

:func:`vicinal.plots.plot_intervals` draws the intervals of a regression against one feature, and the true values if
you have them. In this example the noise grows with the distance from 0. The neighborhood notices it: the intervals
are short in the middle and long at the ends.
"""

import matplotlib.pyplot as plt
import numpy as np

import vicinal as vc

rng = np.random.default_rng(0)
x = rng.uniform(-2, 2, size=(1300, 1))
y = np.sin(x[:, 0]) + rng.normal(0, 0.1 + 0.5 * np.abs(x[:, 0]))
outputs = vc.ModelOutputs.from_predictions(np.sin(x[:, 0]), representations=x)

predictor = vc.calibrate(outputs[:1000], y[:1000], coverage=0.9, localizer=vc.Uniform(n_neighbors=100))
intervals = predictor.predict(outputs[1000:])

_, ax = plt.subplots(figsize=(8.5, 4.5), layout="constrained")
vc.plots.plot_intervals(intervals, x[1000:, 0], y[1000:], ax=ax)
ax.set_xlabel("x")
plt.show()
