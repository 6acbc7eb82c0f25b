"""
Tables with scikit-learn
========================

You have a table and a scikit-learn model. This tutorial adds prediction intervals to a regressor and prediction sets
to a classifier, with data that comes with scikit-learn. The rows may be a numpy array, a sparse matrix or a pandas
data frame.
"""

import matplotlib.pyplot as plt
import pandas as pd
from sklearn.datasets import load_diabetes, load_digits
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import vicinal as vc

# %%
# Intervals for a regressor
# -------------------------
#
# The diabetes table has 442 patients. The target measures how far the disease has progressed after a year.

table, progression = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
X, X_test, y, y_test = train_test_split(table, progression, test_size=142, random_state=0)
table.head()

# %%
# :class:`vicinal.NeighborhoodRegressor` wraps any regressor. ``fit`` trains it on 70 % of the rows and calibrates on
# the others. ``target_range`` says that the target cannot be negative.

forest = make_pipeline(StandardScaler(), RandomForestRegressor(n_estimators=100, random_state=0))
model = vc.NeighborhoodRegressor(
    forest, coverage=0.9, localizer=vc.Uniform(n_neighbors=0.5), target_range=(0, None), random_state=0
)
model.fit(X, y)
intervals = model.predict_interval(X_test)
pd.DataFrame({"lower": intervals.lower, "upper": intervals.upper, "truth": y_test.to_numpy()}).round(1).head()

# %%
# Nine of ten intervals should contain the truth. With 142 test rows the measured coverage is a noisy number: the
# interval behind it says how noisy.

print(vc.evaluate(intervals, y_test))

# %%
# Let us look at the intervals against one column, the body mass index.

_, ax = plt.subplots(figsize=(8.5, 4.5), layout="constrained")
vc.plots.plot_intervals(intervals, X_test["bmi"], y_test, ax=ax)
ax.set_xlabel("body mass index")
ax.set_ylabel("progression")
plt.show()

# %%
# Does it hold in every group?
# ----------------------------
#
# The guarantee is an average over all rows. ``groups`` measures the coverage of each value of a column.

found = vc.evaluate(intervals, y_test, groups=X_test[["sex"]])
_, ax = plt.subplots(figsize=(8.5, 2.5), layout="constrained")
vc.plots.plot_groups(found, ax=ax)
plt.show()

# %%
# Sets for a classifier
# ---------------------
#
# :class:`vicinal.NeighborhoodClassifier` does the same for classifiers. We use handwritten digits, and a small forest
# that makes mistakes.

X, y = load_digits(return_X_y=True)
X, X_test, y, y_test = train_test_split(X, y, test_size=600, random_state=0, stratify=y)
classifier = vc.NeighborhoodClassifier(
    RandomForestClassifier(n_estimators=20, max_depth=5, random_state=0),
    coverage=0.95,
    score_function=vc.NeverEmpty(vc.LAC()),
    localizer=vc.Uniform(n_neighbors=0.3),
    random_state=0,
)
classifier.fit(X, y)
sets = classifier.predict_set(X_test)
print(f"accuracy of the forest: {classifier.score(X_test, y_test):.3f}")
print(vc.evaluate(sets, y_test))

# %%
# Most sets have one label. Here are the largest ones, as pictures.

largest = sets.sizes.argsort()[::-1][:8]
_, panels = plt.subplots(1, 8, figsize=(11, 2), layout="constrained")
for row, ax in zip(largest, panels, strict=True):
    ax.imshow(X_test[row].reshape(8, 8), cmap="gray_r")
    ax.set_title(", ".join(str(label) for label in sets[row]), fontsize=9)
    ax.set_axis_off()
plt.show()

# %%
# The predictor behind the estimator is ``predictor_``. It has the guarantee, p-values and explanations, and can be
# saved.

print(classifier.predictor_.guarantee)

# %%
# Where to go next
# ----------------
#
# :doc:`/how-to/recipes` shows pipelines, grid search and quantile models. :doc:`/how-to/tuning` chooses score and
# neighborhood.
