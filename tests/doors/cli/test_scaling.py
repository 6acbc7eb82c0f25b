"""The command line on many rows: an index, a bound on memory, and a predictor that rolls on."""

from __future__ import annotations

import json
import mmap

import numpy as np
import pytest

import vicinal as vc
from tests.doors.cli.test_cli import fine, folder, refused, rows  # noqa: F401  the fixture of that module
from vicinal.tables import arrays
from vicinal.tables.opening import open_table
from vicinal.tables.rows import recognize_columns

NEAR = ("--localizer", "Exponential(20, 1.0)")
APART = ("--method", "split-reference")


@pytest.mark.parametrize("name", ["ivf", "hnsw", "lsh", "flat"])
def test_an_index_by_a_word(name, folder, tmp_path):  # noqa: F811
    pytest.importorskip("faiss", reason="the extra faiss is not installed")
    model, sets = tmp_path / "model.vicinal", tmp_path / "sets.npz"
    search = f"FaissSearch({name}())" if name == "flat" else f"FaissSearch({name}(), recall=0.9)"
    options = ["--method", "SplitReference(fraction=0.4)", *NEAR, "--search", search]
    said = json.loads(fine("calibrate", folder / "calibration.npz", *options, "-o", model, "--json"))
    assert said["ranked_rows"] == 180
    assert name.lower() in said["parts"]["search"].lower()
    fine("predict", model, folder / "test.npz", "--out", sets, "--memory", "1 MB")
    predictor = vc.load(model)
    with np.load(folder / "test.npz") as test, np.load(sets) as found:
        outputs = vc.ModelOutputs.from_logits(test["logits"], test["representations"])
        np.testing.assert_array_equal(found["members"], predictor.predict(outputs).members)


def test_what_does_not_fit_is_one_line(folder, tmp_path):  # noqa: F811
    pytest.importorskip("faiss", reason="the extra faiss is not installed")
    given, out = folder / "calibration.npz", tmp_path / "model.vicinal"
    words = refused("calibrate", given, *NEAR, "--search", "FaissSearch", "-o", out)
    assert "--method SplitReference" in words
    assert "--search ExactSearch" in words
    ball = refused("calibrate", given, *APART, "--localizer", "Ball(1)", "--search", "FaissSearch", "-o", out)
    assert '--localizer "Uniform(k)"' in ball
    wide = ("--search", "FaissSearch(IVF(), recall=95)")
    assert "such as 0.95" in refused("calibrate", given, *APART, *NEAR, *wide, "-o", out)
    assert "no neighborhood" in refused("calibrate", given, "--method", "split", "--search", "FaissSearch", "-o", out)
    all_apart = ("--method", "SplitReference(3)")
    assert "between 0 and 1" in refused("calibrate", given, *all_apart, *NEAR, "-o", out)
    assert "megabytes" in refused("calibrate", given, *NEAR, "--memory", "plenty", "-o", out)
    small = refused("predict", folder / "model.vicinal", folder / "test.npz", "--memory", "1 KB")
    assert "--memory" in small
    assert "--search FaissSearch" in small
    assert not out.exists()


def test_a_predictor_rolls_on_in_place(folder, tmp_path):  # noqa: F811
    model = tmp_path / "model.vicinal"
    fine("calibrate", folder / "calibration.npz", *NEAR, "--score", "aps", "--model-name", "net 3", "-o", model)
    said = json.loads(fine("roll", model, folder / "test.npz", "--out", model, "--json"))
    assert "already done" in refused("roll", model, folder / "test.npz", "--out", model)
    assert (said["added"], said["dropped"], said["ranked_rows"]) == (200, 200, 300)
    words = fine("roll", model, folder / "tuning.npz", "--out", tmp_path / "b.vicinal", "--drop", "0")
    assert words.startswith("300 rows added, 0 dropped, calibrated on 600 rows")
    assert vc.inspect(tmp_path / "b.vicinal").model == "net 3"
    parts = {"score": vc.APS(), "localizer": vc.Exponential(20, 1.0)}
    files = [np.load(folder / f"{name}.npz") for name in ("calibration", "test")]
    window = {name: np.concatenate([file[name] for file in files])[200:] for name in rows(1, 0)}
    outputs = vc.ModelOutputs.from_logits(window["logits"], window["representations"])
    anew, loaded = vc.calibrate(outputs, window["labels"], 0.9, **parts), vc.load(model)
    np.testing.assert_array_equal(loaded.thresholds(outputs), anew.thresholds(outputs))


def test_rolling_what_does_not_fit_is_one_line(folder, tmp_path):  # noqa: F811
    model, given, out = folder / "model.vicinal", folder / "test.npz", tmp_path / "new.vicinal"
    assert "there are 300 rows" in refused("roll", model, given, "--drop", "500", "--out", out)
    assert "--out" in refused("roll", model, given)
    assert "it is also an input" in refused("roll", model, given, "--out", given, code=4)
    np.savez(tmp_path / "bare.npz", logits=rows(5, 0)["logits"])
    assert "labels or targets" in refused("roll", model, tmp_path / "bare.npz", "--out", out)
    np.savez(tmp_path / "wide.npz", **{**rows(5, 0), "representations": np.zeros((5, 9))})
    assert "4 columns" in refused("roll", model, tmp_path / "wide.npz", "--out", out)
    assert not out.exists()


def lies_in_a_file(array):
    """Whether an array is a view into a mapped file."""
    while array is not None and not isinstance(array, mmap.mmap):
        array = getattr(array, "base", None)
    return array is not None


def test_large_arrays_are_mapped_not_read(tmp_path, monkeypatch):
    monkeypatch.setattr(arrays, "LARGE", 100)
    given = rows(60, 5)
    for name, array in given.items():
        np.save(tmp_path / f"{name}.npy", array.astype(np.float16) if name == "logits" else array)
    np.save(tmp_path / "representations.npy", np.asfortranarray(given["representations"]))
    outputs, labels = recognize_columns(open_table([str(tmp_path)]), truth=True).whole()
    assert lies_in_a_file(outputs.given)
    assert not lies_in_a_file(outputs.representations)
    np.testing.assert_array_equal(outputs.representations, given["representations"])
    np.testing.assert_array_equal(labels, given["labels"])
    fine("calibrate", tmp_path, *NEAR, "--memory", "1", "-o", tmp_path / "model.vicinal")
