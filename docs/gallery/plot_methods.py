"""
Methods side by side
====================

Sizes can be compared only at the same coverage. :func:`vicinal.plots.size_against_coverage` therefore draws the mean
size of each method against the coverage that it reaches: at a given coverage, the lowest line has the smallest sets.
"""

import matplotlib.pyplot as plt

import vicinal as vc

data = vc.datasets.load_cifar100_resnet18()
calibration, test = data[:2000], data[2000:]
near = vc.Exponential(n_neighbors=200, bandwidth=2.0)
methods = {
    "Split, LAC": {"method": vc.Split()},
    "Split, APS": {"method": vc.Split(), "score": vc.APS()},
    "Exact, LAC": {"localizer": near},
    "Exact, APS": {"localizer": near, "score": vc.APS()},
}
targets = [0.8, 0.85, 0.9, 0.95]
curves = {}
for name, parts in methods.items():
    predictor = vc.calibrate(calibration.outputs, calibration.labels, coverage=0.9, **parts)
    curves[name] = [vc.evaluate(sets, test.labels) for sets in predictor.predict_at(test.outputs, targets)]

_, ax = plt.subplots(figsize=(8.5, 4.5), layout="constrained")
vc.plots.size_against_coverage(curves, ax=ax)
plt.show()

# %%
# :func:`vicinal.plots.coverage_by_confidence` shows how evenly each method covers. The rows are sorted by the
# confidence of the model and cut into tenths. A method that covers all tenths alike is a flat line at the target.

_, ax = plt.subplots(figsize=(8.5, 4.5), layout="constrained")
vc.plots.coverage_by_confidence({name: found[2] for name, found in curves.items()}, ax=ax)
plt.show()
