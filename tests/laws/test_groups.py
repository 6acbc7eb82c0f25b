"""Coverage by any column, with intervals that hold for all groups together, and one number for conditional coverage."""

from __future__ import annotations

import json

import numpy as np
import pytest

import vicinal as vc
from tests.doors.cli.test_cli import fine, refused
from tests.doors.cli.test_cli import rows as made_rows
from vicinal.errors import InvalidValue, ShapeMismatch, TooFewRows
from vicinal.evaluation.conditional import excess_risk
from vicinal.evaluation.groups import named_groups


def answers(covered):
    """Sets of two classes that hold class 0 where said."""
    covered = np.asarray(covered)
    members = np.stack([covered, np.ones(len(covered), bool)], axis=1)
    return vc.PredictionSets(members, np.zeros(len(covered)), np.full(len(covered), 0.5), coverage=0.9)


def test_groups_add_up():
    rng = np.random.default_rng(0)
    covered, town = rng.random(500) < 0.9, rng.choice(["oslo", "rome", "lima"], 500)
    found = vc.evaluate(answers(covered), np.zeros(500, int), groups=town).by_group
    assert [group.name for group in found] == ["lima", "oslo", "rome"]
    assert sum(group.rows for group in found) == 500
    for group in found:
        inside = covered[town == group.name]
        assert group.coverage == inside.mean()
        assert group.mean_size == pytest.approx(1 + inside.mean())
        assert group.interval[0] < group.coverage < group.interval[1]


def test_intervals_hold_for_all_groups_together():
    """In 95 % of the draws no group's interval misses; with intervals for one group each, far fewer."""
    rng, draws, groups = np.random.default_rng(1), 400, np.repeat(np.arange(15), 40)
    missed = 0
    for _ in range(draws):
        covered = rng.random(len(groups)) < 0.9
        found = vc.evaluate(answers(covered), np.zeros(len(groups), int), groups=groups.astype(str)).by_group
        missed += any(not low <= 0.9 <= high for low, high in (group.interval for group in found))
    assert missed / draws <= 0.05 + 4 * np.sqrt(0.05 * 0.95 / draws)


def test_columns_of_any_kind():
    pd = pytest.importorskip("pandas")
    ages = np.arange(100.0)
    ages[3] = np.nan
    found = named_groups({"age": ages, "sex": ["f", "m"] * 50}, 100)
    assert list(found)[-3:] == ["age = missing", "sex = f", "sex = m"]
    assert len(found) == 8
    assert sum(rows.sum() for name, rows in found.items() if name.startswith("age")) == 100
    frame = pd.DataFrame({"town": pd.Categorical(["oslo", "rome"] * 50), "ward": [1, 2, 3, 4] * 25})
    assert list(named_groups(frame, 100)) == ["town = oslo", "town = rome", *(f"ward = {ward}" for ward in range(1, 5))]
    with pytest.raises(InvalidValue, match="at most 1000 different values; got 2000"):
        named_groups([f"row {row}" for row in range(2000)], 2000)
    with pytest.raises(ShapeMismatch, match="groups"):
        vc.evaluate(answers([True] * 5), [0] * 5, groups=[1, 2])


def test_excess_risk_is_the_variance_of_coverage():
    rng = np.random.default_rng(2)
    x = rng.uniform(size=(6000, 3))
    for gap in (0.0, 0.05, 0.1):
        chance = np.where(x[:, 1] < 0.5, 0.9 - gap, 0.9 + gap)
        value, error = excess_risk(x, rng.random(6000) < chance, 0.9)
        assert abs(value - gap**2) < 4 * error + 0.002
    with pytest.raises(TooFewRows, match="at least 100"):
        excess_risk(x[:50], np.ones(50, bool), 0.9)
    assert excess_risk(x, np.ones(6000, bool), 0.9)[0] == pytest.approx(0.01)


def test_by_a_column_on_the_command_line(tmp_path):
    np.savez(tmp_path / "a.npz", **made_rows(200, 1))
    columns = made_rows(300, 2)
    hospital = np.array(["north", "south"])[np.arange(300) % 2]
    np.savez(tmp_path / "b.npz", **columns, hospital=hospital)
    model = tmp_path / "m.vicinal"
    fine("calibrate", tmp_path / "a.npz", "--localizer", "Uniform(20)", "--out", model)
    text = fine("evaluate", model, tmp_path / "b.npz", "--by", "hospital", "--slab")
    assert "hospital = north" in text
    assert "excess risk" in text
    found = json.loads(fine("evaluate", model, tmp_path / "b.npz", "--by", "hospital", "--json"))["by_group"]
    assert [(group["name"], group["rows"]) for group in found] == [("hospital = north", 150), ("hospital = south", 150)]
    assert "no column 'ward'" in refused("evaluate", model, tmp_path / "b.npz", "--by", "ward")


def test_unknown_labels_are_said():
    sets = vc.PredictionSets(
        np.ones((4, 2), bool), np.zeros(4), np.full(4, 0.5), classes=np.array(["a", "b"]), coverage=0.9
    )
    found = vc.evaluate(sets, ["a", "b", "z", "a"])
    assert (found.unknown, found.coverage) == (1, 0.75)
    assert "1 rows, counted as misses" in str(found)
