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
from vicinal.tables.batch import evaluate as batch


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


def test_excess_risk_is_given_wherever_it_can_be(tmp_path):
    np.savez(tmp_path / "a.npz", **made_rows(200, 1))
    model = tmp_path / "m.vicinal"
    fine("calibrate", tmp_path / "a.npz", "--localizer", "Uniform(20)", "--out", model)
    np.savez(tmp_path / "b.npz", **made_rows(300, 2))
    assert "standard error" in fine("evaluate", model, tmp_path / "b.npz")
    found = json.loads(fine("evaluate", model, tmp_path / "b.npz", "--json"))
    with_slab = json.loads(fine("evaluate", model, tmp_path / "b.npz", "--json", "--slab"))
    assert found["worst_slab"] is None
    assert found["excess_risk"] == with_slab["excess_risk"]
    np.savez(tmp_path / "c.npz", **made_rows(60, 3))
    said = "excess risk        not measured: it needs at least 100 rows; there are 60."
    assert said in fine("evaluate", model, tmp_path / "c.npz")
    columns = made_rows(300, 2)
    outputs = vc.ModelOutputs.from_logits(columns["logits"], columns["representations"])
    sets = vc.load(model).predict(outputs)[:60]
    assert said in str(vc.evaluate(sets, columns["labels"][:60], representations=columns["representations"][:60]))
    split = tmp_path / "s.vicinal"
    fine("calibrate", tmp_path / "a.npz", "--method", "Split", "--out", split)
    np.savez(tmp_path / "d.npz", **{name: columns[name] for name in ("logits", "labels")})
    assert "not measured: the file has no representations." in fine("evaluate", split, tmp_path / "d.npz")


def test_a_sample_of_representations_keeps_whole_steps(monkeypatch):
    monkeypatch.setattr(batch, "SAMPLED", 3_000)
    sample, table = batch.Sample(), np.arange(20_000.0).reshape(10_000, 2)
    for start in range(0, 10_000, 700):
        sample.add(table[start : start + 700], start)
    assert sample.step == 8
    np.testing.assert_array_equal(sample.rows(), table[::8])


def test_parts_of_a_wide_column_are_no_groups(tmp_path):
    columns = made_rows(200, 1)
    np.savez(tmp_path / "a.npz", **columns)
    model = tmp_path / "m.vicinal"
    fine("calibrate", tmp_path / "a.npz", "--method", "Split", "--out", model)
    width = columns["logits"].shape[1]
    names = [*(f"logits_{number}" for number in range(width)), "labels", "hospital"]
    lines = [
        ",".join([*map(str, row), str(label), "north"])
        for row, label in zip(columns["logits"], columns["labels"], strict=True)
    ]
    (tmp_path / "b.csv").write_text("\n".join([",".join(names), *lines]))
    assert "'logits_0' is one number of an array" in refused("evaluate", model, tmp_path / "b.csv", "--by", "logits_0")
    said = refused("evaluate", model, tmp_path / "b.csv", "--by", "ward")
    assert all(name in said for name in names)


def test_unknown_labels_are_said():
    sets = vc.PredictionSets(
        np.ones((4, 2), bool), np.zeros(4), np.full(4, 0.5), classes=np.array(["a", "b"]), coverage=0.9
    )
    found = vc.evaluate(sets, ["a", "b", "z", "a"])
    assert (found.unknown, found.coverage) == (1, 0.75)
    assert "1 rows, counted as misses" in str(found)
