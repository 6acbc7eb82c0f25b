"""
The plots of the report
=======================

:func:`vicinal.report` writes one HTML page. The same plots can be drawn with matplotlib, for a paper or for slides:
:func:`vicinal.reporting.gather_report` computes what the report shows, and the functions below draw it. Each compares
the predictor ("neighborhood") with one threshold for all rows ("split"), calibrated on the same rows.
"""

import matplotlib.pyplot as plt

import vicinal as vc
from vicinal.reporting import gather_report

data = vc.datasets.load_cifar100_resnet18()
calibration, test = data[:2000], data[2000:]
predictor = vc.calibrate(
    calibration.outputs,
    calibration.labels,
    coverage=0.9,
    score=vc.NeverEmpty(vc.APS()),
    localizer=vc.Exponential(n_neighbors=200, bandwidth=2.0),
)
gathered = gather_report(predictor, test.outputs, test.labels, rows=5)

# %%
# Sizes of the sets
# -----------------

_, ax = plt.subplots(figsize=(8.5, 4.5), layout="constrained")
vc.plots.size_histogram(gathered, ax=ax)
plt.show()

# %%
# Coverage and mean size against the target
# -----------------------------------------

_, (left, right) = plt.subplots(1, 2, figsize=(11, 4.5), layout="constrained")
vc.plots.against_target(gathered, "coverage", ax=left).legend(loc="upper left")
vc.plots.against_target(gathered, "size", ax=right).legend(loc="upper left")
plt.show()

# %%
# Coverage by tenth and by class
# ------------------------------
#
# Tenths of the rows, from the least to the most confident; then the classes, sorted by their coverage.

_, (left, right) = plt.subplots(1, 2, figsize=(11, 4.5), layout="constrained")
vc.plots.coverage_in_groups(gathered["tenths"], gathered, ax=left).legend(loc="lower right")
vc.plots.coverage_in_groups(gathered["classes"], gathered, ax=right).legend(loc="lower right")
left.tick_params(axis="x", rotation=60)
plt.show()

# %%
# A map of the calibration rows
# -----------------------------
#
# Two principal components of the representations, colored by the local threshold: dark regions are easy for the model,
# bright regions are hard. ``projection=vicinal.reporting.TSNE()`` draws a t-SNE map instead.

_, ax = plt.subplots(figsize=(7.5, 5), layout="constrained")
vc.plots.landscape(gathered["map"], ax=ax).get_legend().remove()
plt.show()

# %%
# All of them as files
# --------------------
#
# :func:`vicinal.plots.static` saves every plot of the report as a PNG file.

import tempfile

files = vc.plots.static(gathered, tempfile.mkdtemp())
print([file.name for file in files])
