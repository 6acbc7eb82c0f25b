"""Text that the docstrings of estimators and scorers share."""

from __future__ import annotations

import re
from textwrap import indent
from typing import Any, TypeVar

Documented = TypeVar("Documented", bound=Any)

SHARED = {
    "X": """\
X : array-like of shape (n, d), sparse matrix, data frame or list of str
    Rows, in any form that the inner estimator accepts.""",
    "fit_params": """\
**fit_params
    Passed on to `fit` of the inner estimator. A parameter with one value per row is cut to the training rows;
    `sample_weight` goes to the last step of a pipeline.""",
    "coverages": """\
coverage : float or list of float, optional
    Coverage to use instead of that of the estimator, or several coverages.""",
    "coverage": """\
coverage : float, default 0.9
    Probability, strictly between 0 and 1, with which a set or an interval shall contain the truth.""",
    "score_function": """\
score_function : Score, optional
    Nonconformity score, such as `LAC()` or `AbsoluteResidual()`. Default: as in `calibrate`.""",
    "localizer": """\
localizer : Localizer, optional
    Which rows are neighbors and how they are weighted. Default: a third of the calibration rows is set aside to choose
    it, and every other part that is not given (see `calibrate`); with too few rows, all rows count equally.""",
    "method": """\
method : Method, optional
    Calibration method. Default: `Exact()`.""",
    "representation": """\
representation : str, callable, transformer, list of columns or LastStep, optional
    What rows are compared by: a callable of the inputs, the name of a method of the inner estimator, a transformer,
    or columns. Default: for a pipeline the input of its last step, otherwise the inputs. Wide sparse rows are
    reduced by `TruncatedSVD`, missing values are filled with medians, and text columns of data frames are one-hot
    encoded. Whatever is fitted, a transformer too, is fitted on the training rows.""",
    "representation_map": """\
representation_map : RowMap or MapPlan, optional
    Map of the rows applied before they are compared, such as `DifficultyMap()`, whose neighbors are rows that are as
    hard. A third of the calibration rows is set aside to fit it. Default: as in `calibrate`.""",
    "calibration_share": """\
calibration_share : float, default 0.3
    Share of the rows that is set aside for calibration.""",
    "random_state": """\
random_state : int or RandomState, optional
    Seed of the split into training and calibration rows.""",
    "scored": """\
estimator : NeighborhoodClassifier or NeighborhoodRegressor
    A fitted estimator.
X : array-like of shape (n, d), sparse matrix, data frame or list of str
    Rows that were not used to fit the estimator.
y : array-like of shape (n,)
    True labels or targets of these rows.""",
}
"""Entries of a numpydoc section by name."""


def fill_docstring(documented: Documented) -> Documented:
    """Replace each line `{name}` of a docstring by the shared text of that name, at the same indentation.

    Examples
    --------
    >>> def fit(y):
    ...     '''Fit.
    ...
    ...     {random_state}
    ...     '''
    >>> print(fill_docstring(fit).__doc__)
    Fit.
    <BLANKLINE>
        random_state : int or RandomState, optional
            Seed of the split into training and calibration rows.
    <BLANKLINE>
    """

    def fill(line: re.Match[str]) -> str:
        return indent(SHARED[line[2]], line[1])

    if documented.__doc__ is not None:  # None where Python runs with -OO
        documented.__doc__ = re.sub(r"^( *)\{(\w+)\}$", fill, documented.__doc__, flags=re.MULTILINE)
    return documented
