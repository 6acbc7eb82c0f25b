"""The command line as its users meet it: the whole path, every format, and one line for whatever is wrong."""

from __future__ import annotations

import datetime
import io
import json
import os
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest

import vicinal as vc
from tests.instances import regression_rows
from vicinal.cli import main
from vicinal.cli.wording import render
from vicinal.service.errors import refusal

pa = pytest.importorskip("pyarrow", reason="the command line reads and writes parquet files")
pq = pytest.importorskip("pyarrow.parquet")

ROOT = Path(__file__).parents[3]
NAMES = [f"class {number}" for number in range(5)]


def rows(n, seed):
    rng = np.random.default_rng(seed)
    labels = rng.integers(5, size=n)
    logits = rng.normal(size=(n, 5)).astype(np.float32)
    logits[np.arange(n), labels] += 2
    return {"logits": logits, "representations": rng.normal(size=(n, 4)).astype(np.float32), "labels": labels}


def vicinal(*arguments, stdin=""):
    """Run a command in this process, for speed; an exception that it does not foresee is an error of the test."""
    streams = {name: io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for name in ("stdout", "stderr")}
    given = io.TextIOWrapper(io.BytesIO(stdin.encode()), encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["vicinal", *map(str, arguments)])
        patch.setattr(sys, "stdin", given)
        patch.setenv("COLUMNS", "100")
        for name, stream in streams.items():
            patch.setattr(sys, name, stream)
        with pytest.raises(SystemExit) as stopped:
            main()
    for stream in streams.values():
        stream.flush()
    texts = {name: stream.buffer.getvalue().decode() for name, stream in streams.items()}
    return subprocess.CompletedProcess(arguments, stopped.value.code, **texts)


def fine(*arguments, **options):
    found = vicinal(*arguments, **options)
    assert found.returncode == 0, found.stderr
    return found.stdout


def refused(*arguments, code=2, **options):
    """Return the one line in which a command refuses."""
    found = vicinal(*arguments, **options)
    assert found.returncode == code, (found.stdout, found.stderr)
    assert len(found.stderr.splitlines()) == 1, found.stderr
    assert found.stderr.startswith("vicinal: ")
    return found.stderr


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    found = tmp_path_factory.mktemp("cli")
    for name, n, seed in (("tuning", 300, 1), ("calibration", 300, 2), ("test", 200, 3)):
        np.savez(found / f"{name}.npz", **rows(n, seed), class_names=np.array(NAMES))
    fine("calibrate", found / "calibration.npz", "--localizer", "Uniform(30)", "--out", found / "model.vicinal")
    return found


MAPS = {
    "difficulty": "DifficultyMap(Entropy()), fitted",
    "DifficultyMap(Entropy(), Confidence())": "DifficultyMap(Entropy(), Confidence()), fitted",
    "difficulty-map(neighbor-error)": "DifficultyMap(neighbors' errors), fitted",
    "Join([UnitLength(), difficulty])": "Join(",
    "Chain(Standardize, PrincipalComponents(2))": "PrincipalComponents(2) fitted",
    "UnitLength": "UnitLength()",
}


@pytest.mark.parametrize("text", MAPS)
def test_a_map_is_fitted_on_rows_set_aside(text, folder, tmp_path):
    near = ("--localizer", "Uniform(0.2)", "--representation-map", text)
    said = fine("calibrate", folder / "calibration.npz", *near, "--out", tmp_path / "m.vicinal")
    predictor = vc.load(tmp_path / "m.vicinal")
    assert MAPS[text] in repr(predictor.representation_map)
    aside = 0 if text == "UnitLength" else 100
    assert predictor.calibration.n_ranked == 300 - aside
    assert ("100 of 300 rows were set aside to fit the map" in said) == bool(aside)
    fine("predict", tmp_path / "m.vicinal", folder / "test.npz", "--out", tmp_path / "sets.parquet")


def test_rows_without_representations_are_calibrated_by_their_difficulty(tmp_path):
    bare = {name: column for name, column in rows(300, 2).items() if name != "representations"}
    np.savez(tmp_path / "bare.npz", **bare)
    near = ("--localizer", "Uniform(0.2)", "--representation-map", "difficulty", "--precision", "16")
    fine("calibrate", tmp_path / "bare.npz", *near, "--out", tmp_path / "m.vicinal")
    assert not vc.load(tmp_path / "m.vicinal").reads_representations
    assert "needs representations" in refused(
        "calibrate", tmp_path / "bare.npz", "--localizer", "Uniform(9)", "--representation-map", "unit-length"
    )


def test_too_few_rows_to_fit_a_map_is_a_sentence(tmp_path):
    np.savez(tmp_path / "few.npz", **rows(60, 2))
    near = ("--localizer", "Uniform(9)", "--representation-map", "difficulty")
    assert "Give at least 150 rows" in refused("calibrate", tmp_path / "few.npz", *near)


def test_the_whole_path(folder, tmp_path):
    tuned, model, page = tmp_path / "tuned.vicinal", tmp_path / "model.vicinal", tmp_path / "report.html"
    said = json.loads(fine("tune", folder / "tuning.npz", "--out", tuned, "--coverage", "0.8", "--json"))
    assert said["bytes"] == tuned.stat().st_size
    assert "saved:" in fine("tune", folder / "tuning.npz", "--trials", "3", "--out", tmp_path / "few.vicinal")
    text = fine("calibrate", folder / "calibration.npz", "--tuned", tuned, "--coverage", "0.8", "--out", model)
    assert "The parts were chosen on 300 other rows, at coverage 0.8." in text
    fine("predict", model, folder / "test.npz", "--out", tmp_path / "sets.parquet")
    found = json.loads(fine("evaluate", model, folder / "test.npz", "--slab", "--json"))
    table = pq.read_table(tmp_path / "sets.parquet")
    assert table.column_names == ["row_id", "set", "size", "threshold", "confidence"]
    assert found["mean_size"] == pytest.approx(np.mean(table["size"].to_numpy()))
    truth = rows(200, 3)["labels"]
    covered = [NAMES[label] in names for label, names in zip(truth, table["set"].to_pylist(), strict=True)]
    assert found["coverage"] == np.mean(covered)
    assert "coverage" in fine("evaluate", model, folder / "test.npz", "--coverage", "0.9")
    assert "report:" in fine("report", model, folder / "test.npz", "--out", page, "--shown", "20")
    assert page.stat().st_size > 1e6
    assert "prediction sets, coverage 0.8" in fine("inspect", model)
    assert json.loads(fine("inspect", tuned, "--json"))["kind"] == "tuning"


def test_every_format_gives_the_same_answers(folder, tmp_path):
    columns, model = rows(200, 3), folder / "model.vicinal"
    pq.write_table(pa.table({name: list(column) for name, column in columns.items()}), tmp_path / "a.parquet")
    for name in ("logits", "representations"):
        np.save(tmp_path / f"{name}.npy", columns[name])
    lines = [
        json.dumps({name: columns[name][row].tolist() for name in ("logits", "representations")}) for row in range(200)
    ]
    text = "\n".join(lines)
    (tmp_path / "a.jsonl").write_text(text)
    expected = [json.loads(line) for line in fine("predict", model, folder / "test.npz").splitlines()]
    assert expected[3]["row_id"] == 3
    assert expected[3]["size"] == len(expected[3]["set"])
    arrays = [f"{name}={tmp_path}/{name}.npy" for name in ("logits", "representations")]
    bare = [tmp_path / "logits.npy", tmp_path / "representations.npy"]
    for sources in ([tmp_path / "a.parquet"], arrays, bare, [tmp_path / "a.jsonl"], ["-"]):
        found = fine("predict", model, *sources, stdin=text)
        assert [json.loads(line) for line in found.splitlines()] == expected
    fine("predict", model, tmp_path / "a.parquet", "--out", tmp_path / "b.npz")
    with np.load(tmp_path / "b.npz", allow_pickle=False) as stored:
        sets = [[NAMES[label] for label in np.flatnonzero(row)] for row in stored["members"]]
        assert sets == [row["set"] for row in expected]
        assert np.array_equal(stored["threshold"], [row["threshold"] for row in expected])
        assert stored["class_names"].tolist() == NAMES


def test_ids_p_values_and_neighbors(folder, tmp_path):
    columns = {**rows(20, 3), "row_ids": np.array([f"patient {number}" for number in range(20)])}
    np.savez(tmp_path / "a.npz", **columns)
    model, loaded = folder / "model.vicinal", vc.load(folder / "model.vicinal")
    outputs = vc.ModelOutputs.from_logits(columns["logits"], columns["representations"], row_ids=columns["row_ids"])
    for suffix in (".parquet", ".jsonl"):
        out = tmp_path / f"a{suffix}"
        fine("predict", model, tmp_path / "a.npz", "--p-values", "--neighbors", "4", "--out", out)
        lines = (
            pq.read_table(out).to_pylist()
            if suffix == ".parquet"
            else list(map(json.loads, out.read_text().splitlines()))
        )
        for row, (line, p_values) in enumerate(zip(lines, loaded.p_values(outputs), strict=True)):
            assert line["row_id"] == f"patient {row}"
            assert line["p_values"] == p_values.tolist()
            near = loaded.explain(outputs, row).neighbors
            assert line["neighbors"] == near.rows[:4].tolist()
            assert line["neighbor_distances"] == near.distances[:4].tolist()
            assert line["neighbor_weights"] == near.weights[:4].tolist()


def test_intervals(tmp_path):
    outputs, targets = regression_rows(300, seed=1)
    given = outputs["CQR"]
    columns = {"lower": given.lower, "upper": given.upper, "representations": given.representations}
    np.savez(tmp_path / "a.npz", **{name: column[:200] for name, column in columns.items()}, targets=targets[:200])
    np.savez(tmp_path / "b.npz", **{name: column[200:] for name, column in columns.items()}, targets=targets[200:])
    fine("calibrate", tmp_path / "a.npz", "--localizer", "Ball(1.5)", "--out", tmp_path / "m.vicinal")
    predictor = vc.calibrate(given[:200], targets[:200], 0.9, localizer=vc.Ball(1.5))
    expected = predictor.predict(given[200:])
    for suffix in (".npz", ".jsonl", ".parquet"):
        fine("predict", tmp_path / "m.vicinal", tmp_path / "b.npz", "--out", tmp_path / f"o{suffix}")
    table = pq.read_table(tmp_path / "o.parquet")
    assert table.column_names == ["row_id", "lower", "upper", "length", "threshold"]
    assert np.array_equal(table["lower"].to_numpy(), expected.lower)
    assert "coverage" in fine("evaluate", tmp_path / "m.vicinal", tmp_path / "b.npz")
    assert "p_values needs a classifier" in refused(
        "predict", tmp_path / "m.vicinal", tmp_path / "b.npz", "--p-values", "--out", tmp_path / "x.npz"
    )


def test_numbers_that_json_does_not_have(tmp_path):
    rng = np.random.default_rng(0)
    logits, labels = rng.normal(size=(30, 3)), rng.integers(3, size=30)
    np.savez(tmp_path / "a.npz", logits=logits, labels=labels)
    fine(
        *(
            "calibrate",
            tmp_path / "a.npz",
            "--method",
            "split",
            "--score",
            "never-empty(lac)",
            "--coverage",
            "0.05",
        ),
        *("--out", tmp_path / "m.vicinal"),
    )
    lines = fine("predict", tmp_path / "m.vicinal", tmp_path / "a.npz").splitlines()
    assert json.loads(lines[0])["threshold"] == "-inf"
    assert json.loads(lines[0])["set"] == [int(logits[0].argmax())]


def test_precision_models_and_parts_by_options(folder, tmp_path):
    weights = tmp_path / "weights.pt"
    weights.write_bytes(b"weights")
    text = fine(
        *("calibrate", folder / "calibration.npz", "--score", "NeverEmpty(RAPS(rank_penalty=0.1, free_ranks=2))"),
        *("--localizer", "exponential(0.2, 1.5)", "--method", "leave-one-out"),
        *(
            "--precision",
            "16",
            "--model-file",
            weights,
            "--model-name",
            "net 3",
            "--out",
            tmp_path / "m.vicinal",
            "--json",
        ),
    )
    said = json.loads(text)
    assert said["parts"]["score"] == "NeverEmpty(score=RAPS(rank_penalty=0.1, free_ranks=2, seed=0))"
    assert said["parts"]["localizer"] == "Exponential(n_neighbors=0.2, bandwidth=1.5)"
    assert said["parts"]["representation_map"] == "Rounded(bits=16)"
    assert said["model"].startswith("net 3 sha256:")
    assert said["probability"] is None
    assert vc.inspect(tmp_path / "m.vicinal").precision == "float16"
    every = fine(
        "calibrate", folder / "calibration.npz", "--localizer", "Uniform(None)", "--out", tmp_path / "e.vicinal"
    )
    assert "Uniform(n_neighbors=None)" in every


def test_names_of_classes_and_columns(folder, tmp_path):
    columns = rows(300, 2)
    texts = np.array(NAMES)[columns["labels"]]
    np.savez(tmp_path / "a.npz", scores=columns["logits"], features=columns["representations"], truth=texts)
    (tmp_path / "names.txt").write_text("\n".join(NAMES))
    (tmp_path / "names.json").write_text(json.dumps(NAMES))
    called = ("--rename", "logits=scores", "--rename", "representations=features", "--rename", "labels=truth")
    for names in ("names.txt", "names.json"):
        out = tmp_path / "m.vicinal"
        fine(
            "calibrate",
            tmp_path / "a.npz",
            *called,
            "--class-names",
            tmp_path / names,
            "--localizer",
            "Uniform(30)",
            "--out",
            out,
        )
        assert vc.inspect(out).class_names == tuple(NAMES)
        test = fine("predict", out, folder / "test.npz")
        assert test == fine("predict", folder / "model.vicinal", folder / "test.npz")


def changed(folder, path, **columns):
    with np.load(folder / "test.npz", allow_pickle=False) as stored:
        kept = {name: stored[name] for name in stored.files} | columns
    np.savez(path, **{name: column for name, column in kept.items() if column is not None})
    return path


BAD = {
    "no outputs": ({"logits": None}, "must have one of logits, probabilities, predictions, or lower and upper; it has"),
    "misspelled": ({"logits": None, "logit": np.zeros((200, 5))}, "add --rename logits=logit"),
    "two outputs": ({"predictions": np.zeros(200)}, "it has logits and predictions. Remove all but one"),
    "no truth": ({"labels": None}, "must have labels or targets"),
    "other classes": ({"logits": np.zeros((200, 4)), "class_names": None}, "outputs must have 5 classes"),
    "other names": ({"class_names": np.array(list("abcde"))}, "class_names differ"),
    "other width": ({"representations": np.zeros((200, 3))}, "representations must have 4 columns"),
    "no representations": ({"representations": None}, "needs representations"),
    "text for numbers": ({"logits": np.array([["a", "b", "c", "d", "e"]] * 200)}, "logits must be real numbers"),
    "nan": ({"logits": np.full((200, 5), np.nan)}, "logits must be finite; row 0, column 0 holds nan"),
    "rows differ": ({"labels": np.zeros(7, int)}, "7"),
    "one axis": ({"logits": np.zeros(200)}, "logits must have 2 axes"),
    "no rows": ({"logits": np.zeros((0, 5)), "representations": np.zeros((0, 4)), "labels": np.zeros(0)}, "row"),
    "labels beyond": ({"labels": np.full(200, 9)}, "whole class numbers in 0 .. 4"),
    "pickles": ({"logits": np.array([[None] * 5] * 200, dtype=object)}, "pickle"),
}


@pytest.mark.parametrize("what", BAD)
def test_rows_that_are_wrong_are_one_line(what, folder, tmp_path):
    columns, words = BAD[what]
    path = changed(folder, tmp_path / "a.npz", **columns)
    assert words in refused("evaluate", folder / "model.vicinal", path)


@pytest.mark.unix
def test_files_that_are_wrong_are_one_line(folder, tmp_path):
    model, test = folder / "model.vicinal", folder / "test.npz"
    (tmp_path / "empty.npz").write_bytes(b"")
    (tmp_path / "no.npz").write_bytes(b"not a zip file at all")
    (tmp_path / "no.parquet").write_bytes(b"not a parquet file at all")
    (tmp_path / "no.jsonl").write_text("{]\n")
    (tmp_path / "cut.vicinal").write_bytes(model.read_bytes()[:-10])
    for name in ("empty.npz", "no.npz", "no.parquet", "no.jsonl", "gone.npz", "gone.csv"):
        assert name in refused("predict", model, tmp_path / name)
    (tmp_path / "nothing").mkdir()
    assert "folder" in refused("predict", model, tmp_path / "nothing")
    assert "no.parquet" in refused("predict", model, tmp_path)
    assert "is damaged" in refused("predict", tmp_path / "cut.vicinal", test, code=3)
    assert "not a file that vicinal saved" in refused("predict", test, test, code=3)
    assert "is a directory" in refused("predict", tmp_path, test, code=3)
    assert "there is no such file" in refused("predict", tmp_path / "gone", test)
    assert "must end in .parquet, .arrow, .csv" in refused("predict", model, test, "--out", tmp_path / "a.xlsx")
    assert "cannot write" in refused("predict", model, test, "--out", "/proc/no/a.npz", code=4)
    assert "cannot write" in refused(
        "calibrate", folder / "calibration.npz", "--out", tmp_path, "--localizer", "Uniform(9)", code=4
    )
    (tmp_path / "folder.parquet").mkdir()
    assert "it is a folder" in refused("predict", model, test, "--out", tmp_path / "folder.parquet", code=4)


def test_options_that_are_wrong_are_one_line(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model, test, known = folder / "model.vicinal", folder / "test.npz", folder / "calibration.npz"
    fine("tune", folder / "tuning.npz", "--out", tmp_path / "t.vicinal", "--trials", "2")
    for arguments, words in (
        (("predict",), "Missing argument"),
        (("predict", model, test, "--nope"), "No such option"),
        (("nope",), "No such command"),
        (("predict", model, test, "--coverage", "1.5"), "strictly between 0 and 1"),
        (("predict", model, test, "--coverage", "0.9999"), "needs at least 9999"),
        (("predict", model, test, "--neighbors", "-1"), "neighbors must be a whole number"),
        (("calibrate", known, "--method", "magic"), "the name of a registered part; got 'magic'"),
        (("calibrate", known, "--method", "LAC"), "one of Exact, LeaveOneOut"),
        (("calibrate", known, "--localizer", "Uniform('many')"), "n_neighbors must be a whole number"),
        (("calibrate", known, "--localizer", "Exponential(5)"), "with its arguments (n_neighbors"),
        (("calibrate", known, "--localizer", "Uniform(1"), "a name such as Ball, Cauchy"),
        (("calibrate", known, "--localizer", "__import__('os')"), "the name of a registered part"),
        (("calibrate", known, "--localizer", "mine.Near(3)"), "add --import MODULE"),
        (("--import", "no_such_module", "calibrate", known), "no such module"),
        (("calibrate", known, "--score", "cqr", "--localizer", "uniform(3)"), "give columns predictions"),
        (("calibrate", known, "--localizer", "Uniform(3)", "--precision", "8"), "16 or 32"),
        (("calibrate", known, "--representation-map", "hardness"), "the name of a registered part"),
        (("calibrate", known, "--representation-map", "Uniform(3)"), "one of Chain, DifficultyMap, Identity, Join, "),
        (("calibrate", known, "--representation-map", "difficulty(3)"), "needs coordinates, such as Entropy()"),
        (("calibrate", known, "--representation-map", "Join(UnitLength())"), "needs a list of maps"),
        (("calibrate", known, "--representation-map", "DifficultyMap(Prediction())"), "give a column predictions"),
        (
            ("calibrate", known, "--method", "split", "--representation-map", "difficulty"),
            "leave out --representation-map",
        ),
        (("calibrate", known, "--tuned", tmp_path / "t.vicinal", "--score", "lac"), "leave out --score"),
        (
            ("calibrate", known, "--tuned", tmp_path / "t.vicinal", "--representation-map", "difficulty"),
            "leave out --representation-map",
        ),
        (("calibrate", known, "--rename", "logits"), "--rename takes NAME=COLUMN"),
        (("calibrate", known, "--rename", "logits=x"), "has no column 'x'"),
        (("calibrate", known, "--class-names", tmp_path / "gone"), "there is no such file"),
        (("tune", known, "--aim", "classes", "--at-most", "3"), "strictly between 0 and 1"),
        (("evaluate", model, known), "holds rows that the predictor was calibrated on (300 of 300 are the same)"),
        (("report", model, known), "holds rows that the predictor was calibrated on"),
        (("tune", known, "--at-most", "0.05"), "--at-most applies to --aim even, risk and classes only"),
        (("calibrate", known, "--localizer", "Uniform(-3)"), "n_neighbors must be a whole number, 1 or more"),
        (("report", model, test, "--images", known), "pictures"),
    ):
        assert words in refused(*arguments), arguments
    few = changed(folder, tmp_path / "few.npz")
    assert "holds a report of tuning" in refused("predict", tmp_path / "t.vicinal", few, code=3)


def test_inputs_are_never_overwritten(folder, tmp_path):
    rows, model = changed(folder, tmp_path / "a.npz"), tmp_path / "m.vicinal"
    model.write_bytes((folder / "model.vicinal").read_bytes())
    before = rows.read_bytes(), model.read_bytes()
    for arguments in (
        ("predict", model, rows, "--out", rows),
        ("calibrate", rows, "--localizer", "Uniform(20)", "--out", rows),
        ("tune", rows, "--out", rows),
        ("report", model, rows, "--out", rows),
        ("report", model, rows, "--out", model),
    ):
        assert "it is also an input" in refused(*arguments, code=4)
    assert (rows.read_bytes(), model.read_bytes()) == before


def test_options_that_do_nothing_are_refused(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    known = folder / "calibration.npz"
    for options, words in (
        (("--method", "split", "--localizer", "Uniform(10)"), "--method Split has no neighborhood"),
        (("--score", "LAC(3)", "--localizer", "Uniform(9)"), "LAC with its arguments ()"),
        (("--method", "split-reference", "--precision", "16"), "needs --tuned or --localizer too"),
        (("--localizer", "Uniform(9)", "--model-file", "gone.pt"), "cannot read gone.pt"),
        (("--localizer", "Uniform(9999)"), 'or use all rows with --localizer "Uniform(None)"'),
    ):
        assert words in refused("calibrate", known, *options)
    assert not list(tmp_path.iterdir())
    fine(
        "calibrate",
        known,
        "--method",
        "split-reference",
        "--precision",
        "16",
        "--localizer",
        "Uniform(9)",
        "--out",
        "m.vicinal",
    )
    assert vc.inspect("m.vicinal").precision == "float16"


def test_json_is_json(tmp_path):
    rng = np.random.default_rng(0)
    table, noise = rng.normal(size=(30, 1)), rng.normal(size=30)
    np.savez(tmp_path / "a.npz", predictions=np.zeros(30), representations=table, targets=noise)
    np.savez(tmp_path / "b.npz", predictions=np.zeros(5), representations=100 + table[:5], targets=noise[:5])
    near = ("--localizer", "Uniform(2)", "--method", "paper-literal", "--coverage", "0.95")
    fine("calibrate", tmp_path / "a.npz", *near, "--out", tmp_path / "m.vicinal")

    def strict(text):
        return json.loads(text, parse_constant=pytest.fail)

    assert strict(fine("evaluate", tmp_path / "m.vicinal", tmp_path / "b.npz", "--json"))["mean_size"] == "inf"
    out = ("--out", tmp_path / "o.jsonl", "--json")
    assert strict(fine("predict", tmp_path / "m.vicinal", tmp_path / "b.npz", *out))["mean_size"] == "inf"
    for line in (tmp_path / "o.jsonl").read_text().splitlines():
        assert strict(line)["upper"] == "inf"


def test_what_the_library_advises_is_said_in_options_and_columns():
    """Python, the command line and the service each put the same facts in their own words."""
    regression = vc.ModelOutputs.from_predictions([1.0, 2.0])
    plain = vc.ModelOutputs.from_logits([[0.0, 1.0]] * 30)
    cases = [
        (
            lambda: vc.calibrate(regression, [1, 2], score=vc.LAC()),
            ".from_probabilities",
            "give a column logits or",
            "send",
        ),
        (lambda: vc.calibrate(plain, [0] * 30, localizer=vc.Uniform(3)), "method=Split()", "--method Split", "Split()"),
        (
            lambda: vc.ModelOutputs.from_probabilities([[3.0, 1.0]]),
            "from_logits",
            "call the column logits",
            "send logits",
        ),
        (
            lambda: vc.calibrate(regression, [1, 2], score=vc.CQR()),
            "from_quantiles",
            "columns lower and upper",
            "send lower",
        ),
    ]
    for raising, python, options, request in cases:
        with pytest.raises(vc.VicinalError) as found:
            raising()
        assert python in str(found.value)
        assert options in render(found.value)
        assert request in refusal(found.value).message
        assert "ModelOutputs" not in render(found.value) + refusal(found.value).message
        assert "{" not in str(found.value)


def test_a_bug_is_one_line_too(folder, monkeypatch):
    monkeypatch.setattr("vicinal.cli.predict.open_rows", lambda *_, **__: 1 / 0)
    words = refused("predict", folder / "model.vicinal", folder / "test.npz", code=1)
    assert "this is a bug in vicinal: ZeroDivisionError" in words


def test_names_in_files_of_other_systems(folder, tmp_path):
    columns = rows(300, 2)
    np.savez(tmp_path / "a.npz", **columns)
    (tmp_path / "names.txt").write_bytes(b"\xef\xbb\xbf" + "\r\n".join(NAMES).encode() + b"\r\n")
    out = tmp_path / "m.vicinal"
    fine(
        "calibrate",
        tmp_path / "a.npz",
        "--class-names",
        tmp_path / "names.txt",
        "--localizer",
        "Uniform(30)",
        "--out",
        out,
    )
    assert vc.inspect(out).class_names == tuple(NAMES)
    (tmp_path / "odd.json").write_text('["a", "b", "c", "d", "\\ud800"]')
    odd = ("--class-names", tmp_path / "odd.json", "--localizer", "Uniform(30)", "--out", out)
    assert "must be valid Unicode" in refused("calibrate", tmp_path / "a.npz", *odd)
    ids = np.arange(300, dtype=np.uint64) + np.uint64(2**63)
    np.savez(tmp_path / "b.npz", **columns, row_ids=ids)
    assert "row_ids must be below 2^63" in refused("predict", out, tmp_path / "b.npz")


def test_tuning_rows_are_no_calibration_rows(folder, tmp_path):
    fine("tune", folder / "tuning.npz", "--out", tmp_path / "t.vicinal", "--trials", "2")
    words = refused("calibrate", folder / "tuning.npz", "--tuned", tmp_path / "t.vicinal", "--out", tmp_path / "m")
    assert "was tuned on some of these rows" in words or "was fitted on must be other rows" in words
    with np.load(folder / "tuning.npz") as stored:
        turned = {name: stored[name][::-1] for name in ("logits", "representations", "labels")}
    np.savez(tmp_path / "turned.npz", **turned)
    words = refused("calibrate", tmp_path / "turned.npz", "--tuned", tmp_path / "t.vicinal", "--out", tmp_path / "m")
    assert "(100% are the same)" in words or "was fitted on must be other rows" in words
    assert not (tmp_path / "m").exists()


def test_the_coverage_is_the_one_that_was_tuned_for(folder, tmp_path):
    tuned, out = tmp_path / "t.vicinal", tmp_path / "m.vicinal"
    fine("tune", folder / "tuning.npz", "--out", tuned, "--trials", "2", "--coverage", "0.7")
    assert "coverage 0.7" in fine("calibrate", folder / "calibration.npz", "--tuned", tuned, "--out", out)
    said = fine("calibrate", folder / "calibration.npz", "--tuned", tuned, "--out", out, "--coverage", "0.8")
    assert "prediction sets, coverage 0.8" in said
    assert "at coverage 0.7." in said
    assert "coverage 0.9" in fine("calibrate", folder / "calibration.npz", "--localizer", "Uniform(9)", "--out", out)
    assert json.loads(fine("inspect", out, "--json"))["coverage"] == 0.9


def test_arrays_of_more_axes_are_not_overlooked(folder, tmp_path):
    wide = changed(folder, tmp_path / "a.npz", representations=np.zeros((200, 2, 2)))
    assert "have 2 views, and the logits have no views" in refused("calibrate", wide, "--out", tmp_path / "m")
    assert "got shape (200, 1, 1, 5)" in refused(
        "predict", folder / "model.vicinal", changed(folder, tmp_path / "b.npz", logits=np.zeros((200, 1, 1, 5)))
    )


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"scores": np.zeros((200, 5))}, "--rename logits=COLUMN"),
        ({"logits_apple": np.zeros(200), "logits_pear": np.zeros(200)}, "logits_0, logits_1"),
        ({"predictions": np.zeros(200), "lower": np.zeros(200), "upper": np.zeros(200)}, "predictions and quantiles"),
    ],
)
def test_suggestions_do_no_harm(columns, words, folder, tmp_path):
    path = changed(folder, tmp_path / "a.npz", logits=None, **columns)
    assert words in refused("predict", folder / "model.vicinal", path)


def test_a_report_compares_with_a_baseline(folder, tmp_path):
    pytest.importorskip("plotly", reason="the page inlines plotly.js")
    for name, score in (("lac", "LAC"), ("aps", "APS")):
        out = tmp_path / f"{name}.vicinal"
        fine("calibrate", folder / "calibration.npz", "--score", score, "--method", "split", "--out", out)
    given = ("report", tmp_path / "lac.vicinal", folder / "test.npz", "--shown", "5", "--out")
    fine(*given, tmp_path / "alone.html")
    fine(*given, tmp_path / "compared.html", "--baseline", tmp_path / "aps.vicinal")
    assert '"compared":false' in (tmp_path / "alone.html").read_text("utf-8").replace(": ", ":")
    assert '"compared":true' in (tmp_path / "compared.html").read_text("utf-8").replace(": ", ":")
    text = refused(*given, tmp_path / "aps.vicinal", "--baseline", tmp_path / "aps.vicinal", code=4)
    assert "it is also an input" in text


def test_a_missing_truth_is_called_labels_or_targets_as_the_outputs_need(folder, tmp_path):
    np.savez(tmp_path / "a.npz", predictions=np.zeros(50), y=np.zeros(50))
    assert "--rename targets=COLUMN" in refused("calibrate", tmp_path / "a.npz")
    path = changed(folder, tmp_path / "b.npz", labels=None)
    assert "--rename labels=COLUMN" in refused("evaluate", folder / "model.vicinal", path)


def test_notes(folder, tmp_path):
    logits = rows(300, 2)["logits"].astype(np.float64)
    shares = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    np.savez(tmp_path / "a.npz", logits=shares, labels=rows(300, 2)["labels"])
    found = vicinal("calibrate", tmp_path / "a.npz", "--out", tmp_path / "m.vicinal")
    assert found.returncode == 0
    assert "the logits look like probabilities" in found.stderr
    assert "100 of 300 rows were set aside for tuning" in found.stdout
    assert "no neighborhood was tried" not in found.stdout, "difficulty needs no representations"
    assert "to_parquet" in refused("predict", tmp_path / "m.vicinal", "a.xlsx")


@pytest.mark.unix
def test_a_page_that_cannot_be_written_is_said_as_any_file(folder):
    words = refused("report", folder / "model.vicinal", folder / "test.npz", "--out", "/proc/x/r.html", code=4)
    assert "cannot write /proc/x/r.html" in words


def test_standard_input_cannot_be_resumed(folder, tmp_path):
    words = refused(
        "predict", folder / "model.vicinal", "-", "--out", tmp_path / "a.jsonl", "--resume", stdin='{"logits": [1]}'
    )
    assert "standard input cannot be read a second time" in words


def test_help_has_an_example_each_and_completion_is_there():
    for name in ("tune", "calibrate", "predict", "evaluate", "report", "inspect", "demo"):
        text = fine(name, "--help")
        assert f"Example: vicinal {name}" in text
        assert name in fine("--help")
    assert "Exit codes" in fine("--help")
    assert "--install-completion" in fine("--help")


def test_completion_knows_the_commands(folder):
    program = [sys.executable, "-c", "import sys; sys.argv[0] = 'vicinal'; from vicinal.cli import main; main()"]

    def complete_parts(**variables):
        found = subprocess.run(program, capture_output=True, text=True, check=False, env={**os.environ, **variables})
        assert not found.stderr
        return found.stdout

    assert "complete" in complete_parts(_VICINAL_COMPLETE="source_bash")
    words = {"COMP_WORDS": "vicinal ca", "COMP_CWORD": "1", "_VICINAL_COMPLETE": "complete_bash"}
    assert complete_parts(**words).split() == ["calibrate"]


def test_a_reader_that_goes_is_no_error(folder):
    program = [sys.executable, "-c", "from vicinal.cli import main; main()", "predict"]
    with subprocess.Popen(
        [*program, str(folder / "model.vicinal"), str(folder / "test.npz"), "--p-values"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        process.stdout.readline()
        process.stdout.close()
        assert "Traceback" not in process.stderr.read()
        assert process.wait() == 0


@pytest.mark.parametrize("suffix", [".parquet", ".arrow", ".csv", ".npz", ".jsonl"])
@pytest.mark.parametrize("given", ["csv", "jsonl", "parquet"])
def test_columns_are_carried_through(folder, tmp_path, given, suffix, monkeypatch):
    """Also where a column begins with whole numbers and goes on, chunks later, with others."""
    monkeypatch.setattr("vicinal.tables.batch.job.chunk_rows", lambda *_: 37)
    columns = rows(100, 4)
    kept = {"hospital": [f"h{row % 3}" for row in range(100)], "dose": [*range(99), 99.5]}
    wide = {f"{name}_{at}": columns[name][:, at] for name in ("logits", "representations") for at in range(4)}
    wide["logits_4"] = columns["logits"][:, 4]
    path = tmp_path / f"rows.{given}"
    table = pa.table({**wide, **kept})
    if given == "csv":
        text = [",".join(table.column_names)]
        dose = [*map(str, range(99)), "99.5"]
        numbers = np.column_stack([np.asarray(one) for one in wide.values()])
        text += [
            ",".join([*map(repr, map(float, row)), kept["hospital"][at], dose[at]]) for at, row in enumerate(numbers)
        ]
        path.write_text("\n".join(text) + "\n")
    elif given == "jsonl":
        lists = {name: columns[name].tolist() for name in ("logits", "representations")}
        every = {**lists, **kept}
        lines = [{name: column[row] for name, column in every.items()} for row in range(100)]
        path.write_text("\n".join(map(json.dumps, lines)))
    else:
        pq.write_table(table, path)
    out = tmp_path / f"sets{suffix}"
    fine("predict", folder / "model.vicinal", path, "--keep", "hospital,dose", "--out", out)
    if suffix == ".npz":
        with np.load(out) as found:
            names, doses = found["hospital"].tolist(), found["dose"].tolist()
    elif suffix == ".jsonl":
        found = [json.loads(line) for line in out.read_text().splitlines()]
        names, doses = [one["hospital"] for one in found], [one["dose"] for one in found]
    else:
        from pyarrow import csv, feather

        table = {".parquet": pq.read_table, ".arrow": feather.read_table, ".csv": csv.read_csv}[suffix](out)
        names, doses = table["hospital"].to_pylist(), table["dose"].to_pylist()
    assert names == kept["hospital"]
    as_written = given == "csv" and suffix != ".csv"  # a CSV says no types, and pyarrow guesses them of the output
    assert doses == (dose if as_written else kept["dose"])
    assert "has no column 'town' to keep" in refused("predict", folder / "model.vicinal", path, "--keep", "town")


def test_empty_sets_are_explained_with_the_option_that_avoids_them(tmp_path):
    np.savez(tmp_path / "a.npz", **rows(400, 1))
    np.savez(tmp_path / "b.npz", **rows(300, 2))
    model, out = tmp_path / "m.vicinal", tmp_path / "c.npz"
    options = ("--score", "LAC", "--method", "Split", "--coverage", "0.5")
    fine("calibrate", tmp_path / "a.npz", *options, "--out", model)
    found = vicinal("predict", model, tmp_path / "b.npz", "--out", out)
    with np.load(out) as answers:
        empty = int(np.sum(answers["members"].sum(axis=1) == 0))
    assert empty > 0
    cure = 'With vicinal calibrate --score "NeverEmpty(LAC)" no set is ever empty.'
    assert f"{empty} sets are empty: no label scores at or below the threshold. {cure}" in found.stderr
    stream = vicinal("predict", model, tmp_path / "b.npz")
    assert cure in stream.stderr
    assert len(stream.stdout.splitlines()) == 300
    said = json.loads(fine("predict", model, tmp_path / "b.npz", "--out", out, "--json"))
    assert said["empty"] == empty
    assert cure in said["note"]
    assert '--score "NeverEmpty(LAC)" no set is ever empty' in fine("evaluate", model, tmp_path / "b.npz")
    fine("calibrate", tmp_path / "a.npz", "--score", "NeverEmpty(LAC)", *options[2:], "--out", model)
    assert "empty" not in vicinal("predict", model, tmp_path / "b.npz", "--out", out).stderr


def write_rows(path, kept):
    columns = rows(len(next(iter(kept.values()))), 4)
    lists = {name: columns[name].tolist() for name in ("logits", "representations")}
    table = pa.table({**lists, **kept})
    if path.suffix == ".csv":
        wide = {f"{name}_{at}": columns[name][:, at] for name in lists for at in range(columns[name].shape[1])}
        lines = [list(map(str, row)) for row in zip(*wide.values(), *kept.values(), strict=True)]
        path.write_text("\n".join(map(",".join, [[*wide, *kept], *lines])) + "\n")
    elif path.suffix == ".arrow":
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table)
    else:
        pq.write_table(table, path)


@pytest.mark.parametrize("suffix", [".parquet", ".arrow", ".csv", ".npz", ".jsonl"])
def test_csv_columns_are_carried_through_as_they_are_written(folder, tmp_path, suffix, monkeypatch):
    monkeypatch.setattr("vicinal.tables.batch.job.chunk_rows", lambda *_: 3)
    written = {
        "age": ["", "2.5", "", "3", "040", "1e3", "", "7"],
        "id": ["1", "2", "3", "A7", "05", "6", "7", "8"],
        "day": ["2024-01-01"] * 7 + ["later"],
        "flag": ["True", "false", "", "x", "1", "0", "True", "True"],
    }
    write_rows(tmp_path / "rows.csv", written)
    out = tmp_path / f"sets{suffix}"
    fine("predict", folder / "model.vicinal", tmp_path / "rows.csv", "--keep", ",".join(written), "--out", out)
    if suffix == ".npz":
        with np.load(out) as stored:
            found = {name: stored[name].tolist() for name in written}
    elif suffix == ".jsonl":
        lines = [json.loads(line) for line in out.read_text().splitlines()]
        found = {name: [line[name] for line in lines] for name in written}
    elif suffix == ".csv":
        import csv

        with out.open(newline="") as file:
            lines = list(csv.DictReader(file))
        found = {name: [line[name] for line in lines] for name in written}
    else:
        from pyarrow import feather

        table = {".parquet": pq.read_table, ".arrow": feather.read_table}[suffix](out)
        found = {name: table[name].to_pylist() for name in written}
    assert found == written


@pytest.mark.parametrize("given", [".parquet", ".arrow"])
@pytest.mark.parametrize("suffix", [".parquet", ".arrow", ".csv", ".npz", ".jsonl"])
def test_nulls_dates_and_decimals_are_carried_through(folder, tmp_path, given, suffix, monkeypatch):
    monkeypatch.setattr("vicinal.tables.batch.job.chunk_rows", lambda *_: 3)
    day, moment = datetime.date(2024, 1, 2), datetime.datetime(2024, 1, 2, 3, 4, 5)
    kept = {
        "id": pa.array([None, *"abcdefg"]),
        "age": pa.array([None, 2.5] * 4),
        "day": pa.array([day] * 7 + [None], pa.date32()),
        "moment": pa.array([moment] * 8, pa.timestamp("ns")),
        "zoned": pa.array([moment] * 8, pa.timestamp("us", "Europe/Berlin")),
        "dose": pa.array([Decimal("1.50")] * 8),
        "city": pa.array(["Ulm", None] * 4).dictionary_encode(),
        "nothing": pa.nulls(8),
        "small": pa.array([1, None] * 4, pa.int8()),
        "flag": pa.array([True, None] * 4),
        "embedding": pa.array([[1.0, 2.0]] * 8),
    }
    write_rows(tmp_path / f"rows{given}", kept)
    out = tmp_path / f"sets{suffix}"
    fine("predict", folder / "model.vicinal", tmp_path / f"rows{given}", "--keep", ",".join(kept), "--out", out)
    if suffix in (".parquet", ".arrow"):
        from pyarrow import feather

        table = {".parquet": pq.read_table, ".arrow": feather.read_table}[suffix](out)
        assert {name: table[name].to_pylist() for name in kept} == {name: kept[name].to_pylist() for name in kept}
        assert table.schema.field("small").type == pa.int8()
        assert table.schema.field("moment").type == pa.timestamp("ns")
    elif suffix == ".jsonl":
        first = json.loads(out.read_text().splitlines()[0])
        expected = {"id": None, "age": None, "day": "2024-01-02", "dose": "1.50", "city": "Ulm", "nothing": None}
        assert {name: first[name] for name in expected} == expected
        assert first["moment"].startswith("2024-01-02T03:04:05")
        assert first["zoned"].endswith("Z")
        assert first["embedding"] == [1.0, 2.0]
    elif suffix == ".npz":
        with np.load(out) as stored:
            assert stored["id"].tolist() == ["", *"abcdefg"]
            assert np.isnan(stored["age"][0])
            assert stored["day"].tolist() == ["2024-01-02"] * 7 + [""]
    else:
        import csv

        with out.open(newline="") as file:
            first = next(csv.DictReader(file))
        expected = {
            "id": "",
            "age": "",
            "day": "2024-01-02",
            "dose": "1.50",
            "city": "Ulm",
            "small": "1",
            "flag": "true",
        }
        assert {name: first[name] for name in expected} == expected


def test_files_of_a_folder_may_hold_kept_columns_of_other_types(folder, tmp_path):
    many = tmp_path / "many"
    many.mkdir()
    write_rows(many / "a.parquet", {"age": pa.array([1, 2, 3])})
    write_rows(many / "b.parquet", {"age": pa.array([1.5, None])})
    write_rows(many / "c.parquet", {"age": pa.nulls(1)})
    fine("predict", folder / "model.vicinal", many, "--keep", "age", "--out", tmp_path / "sets.parquet")
    assert pq.read_table(tmp_path / "sets.parquet")["age"].to_pylist() == [1, 2, 3, 1.5, None, None]
    write_rows(many / "d.parquet", {"age": pa.array(["x"])})
    refused("predict", folder / "model.vicinal", many, "--keep", "age", "--out", tmp_path / "sets.parquet")


def test_kept_columns_that_cannot_be(folder, tmp_path):
    write_rows(tmp_path / "rows.parquet", {"id": pa.array(["a", "x" * 1001]), "pair": pa.array([{"a": 1}] * 2)})
    given = ("predict", folder / "model.vicinal", tmp_path / "rows.parquet", "--keep")
    assert "name at least one column" in refused(*given, "")
    assert "name at least one column" in refused(*given, " , ")
    assert "'id', row 1, holds 'xxxxxxxxxxxxxxxxxxxx'..." in refused(*given, "id")
    assert "Cast that column" in refused(*given, "pair")
