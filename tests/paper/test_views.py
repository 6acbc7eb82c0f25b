"""The stored results of views: what they save, and that the documentation shows them."""

from __future__ import annotations

import json

import numpy as np
import pytest

from experiments import robust, views

FOUND = json.loads(views.RESULT.read_text())
ROBUST = json.loads(robust.RESULT.read_text())


def mean(name, key, rows=FOUND["rows"]):
    return float(np.mean([row[key] for row in rows[name]]))


@pytest.mark.parametrize(("name", "least"), [("10", 0.11), ("4", 0.09)])
def test_views_make_sets_smaller_at_the_same_coverage(name, least):
    assert abs(mean(name, "coverage") - mean("1", "coverage")) <= 0.005
    assert views.saving(FOUND, name)[0] >= least


@pytest.mark.parametrize("name", ["2", "4", "10"])
def test_votes_after_views_are_at_least_as_small(name):
    assert mean(f"{name} and votes", "size") <= mean(name, "size")


def test_robust_sets_are_covered_in_the_share_of_the_views():
    for kinds in ROBUST["rows"].values():
        assert mean("robust", "in the share", kinds) > 0.88
        assert mean("robust", "perturbed coverage", kinds) > robust.COVERAGE * robust.SHARE
        assert mean("plain", "in the share", kinds) < 0.7


@pytest.mark.parametrize(("module", "found"), [(views, FOUND), (robust, ROBUST)])
def test_the_documentation_shows_the_stored_results(module, found):
    assert f"{module.BEGIN}\n\n{module.table(found)}\n\n{module.END}" in module.PAGE.read_text()
