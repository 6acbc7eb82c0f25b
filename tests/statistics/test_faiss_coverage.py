"""The guarantee of SplitReference holds whatever an index misses: mean coverage over splits of real outputs.

The mean over splits must lie within three empirical standard errors of m / (n + 1): one chance in 370 for each kind.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest

import vicinal as vc
from tests.instances import INDEXES, POOR
from vicinal.neighbors.indexes.index import Index, Layout

pytest.importorskip("faiss", reason="the extra faiss is not installed")


class SameForAll(Layout):
    """Proposes the same rows for every query: the worst index there is that still finds enough."""

    most_effort = 1

    def __init__(self, order):
        self.order = order

    def add(self, rows, progress):
        pass

    def candidates(self, queries, count, effort):
        return np.tile(self.order[:count], (len(queries), 1))

    def to_arrays(self):
        return {}


@dataclass(frozen=True)
class Blind(Index):
    """An index that looks at no query."""

    effort = 1

    def resolve(self, layout, effort):
        return self

    def lay_out(self, rows, first, seed, progress):
        return SameForAll(first)

    def restore(self, rows, kept):
        raise NotImplementedError


WORST = {**POOR, "blind": Blind}
REFERENCE, RANKED, TEST, K, COVERAGE = 800, 499, 700, 40, 0.9


@pytest.fixture(scope="module")
def rows():
    """Real outputs; the map is fitted on rows that no split uses."""
    data = vc.datasets.load_cifar100_resnet18()
    return data.outputs[:3400], data.labels[:3400], vc.PrincipalComponents(16).fit(data.outputs[3400:])


def coverages(rows, index, splits, altered=None):
    """The coverage of each split, and the mean recall of the first few."""
    outputs, labels, fitted = rows
    found, recalls = [], []
    for split in range(splits):
        order = np.random.default_rng([7, split]).permutation(len(labels))
        near, own, test = np.split(order[: REFERENCE + RANKED + TEST], [REFERENCE, REFERENCE + RANKED])
        predictor = vc.calibrate(
            outputs[own],
            labels[own],
            COVERAGE,
            score=vc.RAPS(rank_penalty=0.01, free_ranks=5),
            localizer=vc.Exponential(K, 2.0),
            representation_map=fitted,
            method=vc.SplitReference(rows=(outputs[near], labels[near])),
            search=vc.FaissSearch(index, seed=split),
        )
        if altered is not None:
            predictor = replace(predictor, calibration=replace(predictor.calibration, search=altered))
        found.append(predictor.predict(outputs[test]).covers(labels[test]).mean())
        if split < 5:
            recalls.append(predictor.recall(outputs[test[:50]]))
    return np.array(found), float(np.mean(recalls))


def errors_away(found):
    """How many empirical standard errors the mean lies from m / (n + 1)."""
    m = np.ceil(COVERAGE * (RANKED + 1))
    return float((found.mean() - m / (RANKED + 1)) / (found.std(ddof=1) / len(found) ** 0.5))


@pytest.mark.slow
@pytest.mark.parametrize("name", WORST)
def test_an_index_of_bad_recall_keeps_the_guarantee(rows, name):
    found, recall = coverages(rows, WORST[name](), 60)
    assert recall < (0.1 if name == "blind" else 0.75)
    assert abs(errors_away(found)) < 3


@pytest.mark.slow
@pytest.mark.parametrize("index", [*INDEXES.values(), *WORST.values()], ids=lambda index: repr(index()))
def test_every_kind_covers_over_300_splits(rows, index):
    found, _ = coverages(rows, index(), 300)
    assert abs(errors_away(found)) < 3


def test_the_test_sees_an_index_that_misses_more_than_it_did_in_calibration(rows):
    """The other way round, coverage is lost: what is calibrated must be what is returned."""
    found, _ = coverages(rows, vc.Flat(), 60, altered=vc.FaissSearch(POOR["lsh"]()))
    assert abs(errors_away(found)) > 3
