"""The check of docstrings that `make lint` runs over all public names finds every name, and finds every fault."""

from __future__ import annotations

from pathlib import Path

import pytest

import vicinal as vc
from tests.docstrings import PublicName, list_faults, list_names

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def names():
    return list_names()


def test_every_exported_name_is_checked(names):
    checked = {id(public.found) for public in names.values()}
    for name in (*vc.__all__, "torch", "distributed"):
        assert id(getattr(vc, name)) in checked, name
    for module in (vc.testing, vc.torch, vc.distributed, vc.scorers, vc.plots):
        for name in getattr(module, "__all__", ()):
            assert id(getattr(module, name)) in checked, name


@pytest.mark.parametrize(
    "name",
    [
        "vicinal.estimators.classifier.NeighborhoodClassifier.predict_proba",  # behind a descriptor of scikit-learn
        "vicinal.estimators.neighborhood.Neighborhood.predict",  # inherited
        "vicinal.torch.module.ConformalModule.coverage",  # a property
        "vicinal.errors.VicinalError.render",
        "vicinal.testing.check_score",
    ],
)
def test_members_are_checked_where_they_are_defined(names, name):
    assert name in names
    assert not any(home in name for name in names for home in ("torch.nn", "sklearn"))


def add(first, second):
    """Adds two numbers

    Parameters
    ----------
    first
        The first of them.
    third : int
    """
    return first + second


def test_faults_are_found():
    found = list_faults(PublicName("add", add, member=False))
    assert {fault[:4] for fault in found} == {"SS03", "SS05", "PR01", "PR02", "PR04", "PR07", "RT01", "EX01"}
    assert "EX01" not in {fault[:4] for fault in list_faults(PublicName("add", add, member=True))}


def test_nothing_is_excepted_by_a_comment():
    for file in (ROOT / "src").rglob("*.py"):
        assert "numpydoc ignore" not in file.read_text(), file
