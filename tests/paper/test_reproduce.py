"""`python -m experiments` as a researcher meets it, and what was committed of it."""

from __future__ import annotations

import importlib
import io
import json
import re
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import numpy as np
import pytest

from experiments import paper
from experiments.__main__ import main
from experiments.images import cifar_images
from experiments.items import ITEMS
from experiments.means import Results
from experiments.page import page
from experiments.pieces import FinishedPiece
from experiments.sources import Folders
from experiments.specs import Plan
from experiments.studies import Lab
from experiments.tables import TextTable

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "experiments" / "results" / "reproduction"
OUTPUTS = ROOT / "experiments" / "outputs"
PAGE = ROOT / "docs" / "explanation" / "reproduction.md"
QUICK = ("interval-length", "interval-coverage", "epochs")


def script(name):
    """Return a script of experiments/; those that train need torch."""
    return importlib.import_module(f"experiments.{name}")


def call(*arguments):
    """Run the command in this process; return its exit code and what it said on both streams."""
    said, errors = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(said), redirect_stderr(errors):
        patch.setattr(sys, "argv", ["experiments", *map(str, arguments)])
        try:
            main()
        except SystemExit as stopped:
            return stopped.code, said.getvalue(), errors.getvalue()
    return 0, said.getvalue(), errors.getvalue()


def fine(*arguments):
    code, said, errors = call(*arguments)
    assert code == 0, errors
    return said


def refused(*arguments):
    """Return the one line in which the command refuses."""
    code, _, errors = call(*arguments)
    assert code == 2, errors
    assert len(errors.splitlines()) == 1, errors
    assert errors.startswith("experiments: ")
    return errors


@pytest.fixture
def small(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["make_small", str(tmp_path / "small")])
    script("make_small").main()
    return tmp_path / "small"


def run(folder, out, *names):
    return [*names, "--small", "--data", folder, "--trained", folder / "trained", "--out", out]


# The command.


def test_tables_figures_and_a_page(small, tmp_path):
    out = tmp_path / "out"
    said = fine(*run(small, out, *QUICK))
    assert "not run here: MEPS_19" in said
    for name, endings in {"interval-length": ("json", "md", "tex"), "epochs": ("json", "png", "svg")}.items():
        assert all((out / f"{name}.{ending}").stat().st_size > 100 for ending in endings)
    runs = json.loads((out / "study-intervals.json").read_text())
    assert {run["seed"] for run in runs} == {0, 1}
    assert all(mark.startswith("sha256:") for run in runs for mark in run["data"].values())
    assert runs[0]["versions"]["numpy"] == np.__version__
    assert "not run here" in (out / "interval-length.md").read_text()
    assert "its numbers mean nothing" in (out / "reproduction.md").read_text()
    assert (out / "pictures" / "reproduction-epochs.svg").exists()


def test_finished_pieces_are_kept(small, tmp_path):
    out = tmp_path / "out"
    arguments = run(small, out, "interval-length")
    fine(*arguments)
    pieces = sorted((out / "pieces" / "intervals").iterdir())
    before = {piece: piece.stat().st_mtime_ns for piece in pieces}
    pieces[0].unlink()
    fine(*arguments)
    after = {piece: piece.stat().st_mtime_ns for piece in pieces}
    assert [piece for piece in pieces if after[piece] != before[piece]] == pieces[:1]


def test_a_damaged_file_is_one_line_and_finished_pieces_stay(small, tmp_path):
    out = tmp_path / "out"
    (small / "trained" / "regression_concrete.npz").write_bytes(b"PK\x03\x04 cut")
    said = refused(*run(small, out, "interval-length"))
    assert "regression_concrete.npz" in said
    assert len(list((out / "pieces" / "intervals").iterdir())) == 2  # the other table was done before
    path = small / "trained" / "epochs-cifar100_resnet50.json"
    whole = json.loads(path.read_text())
    for text in ("{", "5", "{}", '{"statistics": {}}', json.dumps(whole).replace('"2"', '"two"')):
        path.write_text(text)
        assert "epochs-cifar100_resnet50.json should hold JSON" in refused(*run(small, out, "epochs"))
    (small / "trained" / "inference.json").write_text('{"seconds": {"CIFAR-10": {"ResNet-18": 0}}}')
    assert "inference.json should hold JSON" in refused(*run(small, out, "runtime"))


def test_rows_of_the_wrong_number_are_one_line(small, tmp_path):
    said = refused("silhouette", "--data", small, "--trained", small, "--out", tmp_path / "out")
    assert re.search(r"should hold logits of shape \(10000, 100\); got \(700, 100\)", said)


def test_what_is_wrong_is_one_line(tmp_path):
    assert "all, or of: splits, set-size" in refused("size")
    assert "there is no folder" in refused("all", "--data", tmp_path / "typo")
    said = refused("all", "--data", tmp_path, "--trained", tmp_path, "--out", tmp_path / "out")
    assert "nothing can be run" in said


@pytest.mark.slow
def test_images_of_other_rows_are_refused(small, tmp_path):
    path, out = small / "cifar10" / "labels.npz", tmp_path / "out"
    with np.load(path) as stored:
        labels = stored["test"]
    np.savez(path, test=labels[::-1])
    assert "their labels differ" in refused(*run(small, out, "t-sne"))
    np.savez(path, test=labels[:20])
    assert "a label of test for each" in refused(*run(small, out, "t-sne"))
    np.savez(path, test=labels)
    said = fine(*run(small, out, "t-sne"), "--page", tmp_path / "other" / "page.txt")
    assert "page.txt" in said.splitlines()[-1]
    np.savez(path, test=labels[::-1])  # other data: what was finished does not count
    assert "their labels differ" in refused(*run(small, out, "t-sne"))


def test_the_page_of_some_items_speaks_of_their_data_alone(small, tmp_path):
    out = tmp_path / "out"
    fine(*run(small, out, "interval-length"))
    absent = (out / "reproduction.md").read_text().split("## Not run here")[1]
    assert "MEPS_19" in absent
    assert "ResNet" not in absent


# What was committed.


def stored(name):
    return json.loads((RESULTS / f"{name}.json").read_text())


@pytest.mark.parametrize("name", ITEMS)
def test_the_page_says_what_was_measured(name):
    told = PAGE.read_text()
    found = stored(name)
    for table in found["tables"]:
        text = TextTable(table["caption"], table["heads"], table["rows"]).markdown()
        assert text in told
        assert text in (RESULTS / f"{name}.md").read_text()
    assert all(line in told for line in found["words"])
    assert not found["small"]
    if ITEMS[name].draw is not None:
        assert (PAGE.parent / "pictures" / f"reproduction-{name}.svg").exists()


def test_the_page_is_what_the_stored_numbers_make(tmp_path):
    studies = {study for item in ITEMS.values() for study in item.studies}
    done = [
        FinishedPiece(
            study, one["row"], one["seed"], one["data"], one["result"], one["seconds"], one["date"], one["versions"]
        )
        for study in studies
        for one in stored(f"study-{study}")
    ]
    out = RESULTS.relative_to(ROOT)
    page(ITEMS, Plan(), Results.of(done), tmp_path / "page.md", out, ["nothing"])
    end = "## Not run here"
    assert (tmp_path / "page.md").read_text().split(end)[0] == PAGE.read_text().split(end)[0]


def same(one, other):
    if isinstance(one, dict):
        words = {"chosen"}  # how a candidate is called
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one.keys() - words)
    # Some processors compare float32 rows in float32 and some in float64.
    return one == (pytest.approx(other, rel=1e-6) if isinstance(other, float) else other)


def made_again(study, row, seed):
    lab = Lab(Plan(), Folders(OUTPUTS, OUTPUTS))
    piece = next(one for one in lab.pieces(study) if (one.key, one.run) == (row, seed))
    return json.loads(json.dumps(piece.work(lambda word: None)))


@pytest.mark.parametrize("study", ["intervals", "difficulty-intervals"])
@pytest.mark.parametrize("seed", [0, 7])
def test_a_cell_of_intervals_comes_out_again(study, seed):
    found = next(one for one in stored(f"study-{study}") if (one["row"], one["seed"]) == ("concrete", seed))
    assert same(made_again(study, "concrete", seed), found["result"])


@pytest.mark.slow
@pytest.mark.parametrize("study", ["sets", "difficulty"])
def test_a_cell_of_sets_comes_out_again(study):
    key = ("cifar-100-resnet-101", 3)
    found = next(one for one in stored(f"study-{study}") if (one["row"], one["seed"]) == key)
    assert same(made_again(study, *key), found["result"])


@pytest.mark.parametrize("way", ["APS, Split", "APS, Exact", "RAPS, Split", "RAPS, Exact"])
def test_coverage_is_where_it_is_promised(way):
    """Given all rows, cuts are independent and each covers m / (n + 1) in the mean: four standard errors over runs."""
    for network in Plan().networks:
        runs = [one["result"] for one in stored("study-sets") if one["row"] == network.key]
        if not runs:
            continue
        n, tested, target = network.parts["calibration"], network.parts["test"], network.coverage
        error = np.sqrt(target * (1 - target) * (1 / n + 1 / tested) / len(runs))
        promised = np.ceil(target * (n + 1)) / (n + 1)
        found = np.mean([run[way]["coverage"] for run in runs])
        assert abs(found - promised) < 4 * error, (network.key, found, promised)


def test_committed_outputs_are_small_and_say_how_they_were_made():
    for path in OUTPUTS.glob("*.npz"):
        assert path.stat().st_size <= 5_000_000
        about = json.loads(path.with_name(path.name.replace("_pca128", "")).with_suffix(".json").read_text())
        assert {"command", "recipe", "seed", "date", "torch"} <= set(about)


# The paper's numbers stand in the paper.


@pytest.fixture(scope="module")
def tex():
    path = ROOT.parent / "shared" / "paper" / "ncp-paper.tex"
    if not path.exists():
        pytest.skip("the text of the paper is not there")
    return path.read_text()


def numbers(text):
    return {float(one) for one in re.findall(r"-?\d*\.\d+", text)}


def test_every_number_of_the_paper_stands_there(tex):
    there = numbers(tex)
    tables = (paper.SIZES, paper.COVERAGES, paper.SECONDS, paper.NEIGHBORS_ALL, paper.INTERVALS)
    told = [one for table in tables for one in table.values()]
    flat = [value for columns in told for one in columns.values() for value in numbers(one.text)]
    flat += [*paper.SHARES.values(), *(value for pair in paper.SILHOUETTES.values() for value in pair)]
    assert [value for value in flat if value not in there] == []


TABLES = {"tab:CIFAR100_size_mod": paper.SIZES, "tab:CIFAR100_cvg_mod": paper.COVERAGES}
HEADS = {"ImageNet": "ImageNet($1", "CIFAR-100": "CIFAR100 ($1", "CIFAR-10": "CIFAR10($1"}


@pytest.mark.parametrize("label", TABLES)
def test_rows_of_the_paper_are_those_rows(tex, label):
    body = tex.split(f"label{{{label}}}")[1].split("end{tabular}")[0]
    for (dataset, name), row in TABLES[label].items():
        part = body.split(HEADS[dataset])[1].split("multicolumn")[0]
        line = next(line for line in part.splitlines() if line.strip().startswith(name.replace("-", "")))
        told = re.findall(r"(\d*\.\d+)\((\d*\.\d+)\)", line)
        found = [re.findall(r"\d*\.\d+", one.text) for one in row.values()]
        assert [tuple(map(float, one)) for one in found] == [tuple(map(float, one)) for one in told], name


def test_intervals_of_the_paper_are_those_intervals(tex):
    for label, words in (("Regression_intervals", "length"), ("Regression_coverage", "coverage")):
        body = tex.split(f"label{{{label}}}")[1].split("end{tabular}")[0].replace("\\_", "_")
        for (_, name), row in paper.INTERVALS.items():
            line = next(one for one in body.splitlines() if one.startswith(name.replace("_t", " t")))
            told = [float(re.search(r"\d*\.\d+", cell)[0]) for cell in line.split("&")[1:]]
            assert told == [row[f"CP {words}"].mean, row[f"NCP {words}"].mean], name


# The training scripts.


def test_networks_side_by_side_learn_as_if_alone():
    torch = pytest.importorskip("torch", reason="training needs torch")
    module = script("train_regression")
    networks = module.Perceptrons(2, 3, seed=0)
    rows, targets = torch.randn(2, 8, 3), torch.randn(2, 8)
    gradients = []
    for other in (rows[1], 5 * rows[1]):
        networks.zero_grad()
        found, _ = networks(torch.stack([rows[0], other]))
        ((found - targets) ** 2).mean(dim=1).sum().backward()
        gradients.append([weight.grad[0].clone() for weight in networks.parameters()])
    assert all(torch.equal(one, two) for one, two in zip(*gradients, strict=True))


def test_a_perceptron_goes_on_where_it_was(tmp_path, monkeypatch):
    torch = pytest.importorskip("torch", reason="training needs torch")
    module = script("train_regression")
    monkeypatch.setattr(module, "EVERY", 1)
    rows, targets = torch.randn(2, 40, 3), torch.randn(2, 40)
    once, again = (module.Perceptrons(2, 3, seed=0) for _ in range(2))
    module.trained(once, rows, targets, 4, 0, tmp_path / "once.pt")
    module.trained(again, rows, targets, 2, 0, tmp_path / "again.pt")
    fresh = module.Perceptrons(2, 3, seed=1)
    module.trained(fresh, rows, targets, 4, 0, tmp_path / "again.pt")
    assert all(torch.equal(one, two) for one, two in zip(once.parameters(), fresh.parameters(), strict=True))


@pytest.mark.parametrize(("name", "width", "weights"), [("resnet18", 512, 11), ("resnet50", 2048, 23)])
def test_residual_networks_have_their_size(name, width, weights):
    torch = pytest.importorskip("torch", reason="training needs torch")
    network = script("resnet").ResNet(name, 10).eval()
    assert sum(weight.numel() for weight in network.parameters()) // 10**6 == weights
    with torch.inference_mode():
        images = torch.randn(2, 3, 32, 32)
        assert network(images).shape == (2, 10)
        assert network.pool(network.stages(network.stem(images))).shape == (2, width)


def test_crops_and_flips_keep_pixels():
    torch = pytest.importorskip("torch", reason="training needs torch")
    module = script("train_cifar")
    images = torch.arange(1, 1 + 6 * 3 * 32 * 32, dtype=torch.int32).reshape(6, 3, 32, 32)
    found = module.augmented(images, torch.Generator().manual_seed(0))
    assert found.shape == images.shape
    for image, seen in zip(images, found, strict=True):
        # Every pixel is one of this image, of its channel, or padding; at most four rows or columns are lost.
        for channel, crop in zip(image, seen, strict=True):
            kept = set(crop.flatten().tolist()) - {0}
            assert kept <= set(channel.flatten().tolist())
            assert len(kept) >= 28 * 28
    shifted = module.augmented(images[:1].repeat(200, 1, 1, 1), torch.Generator().manual_seed(1))
    assert len({tuple(one[0, 16, 14:18].tolist()) for one in shifted}) > 50


def test_binary_files_become_sheets(tmp_path, monkeypatch):
    drawn = np.random.default_rng(0)
    records = {part: drawn.integers(0, 100, (1000, 2 + 3072)).astype(np.uint8) for part in ("train", "test")}
    for part, content in records.items():
        content.tofile(tmp_path / f"{part}.bin")
    monkeypatch.setattr(sys, "argv", ["sheets", str(tmp_path), str(tmp_path / "cifar100")])
    script("cifar_sheets").main()
    for part, content in records.items():
        images, labels = cifar_images(tmp_path / "cifar100", part)
        np.testing.assert_array_equal(labels, content[:, 1])
        np.testing.assert_array_equal(images[7, :, :, 2].ravel(), content[7, 2 + 2048 :])


@pytest.mark.slow
def test_training_on_a_few_images_leaves_outputs(tmp_path, small, monkeypatch):
    pytest.importorskip("torch", reason="training needs torch")
    module = script("train_cifar")
    folder = small / "cifar100"
    (folder / "train-00.webp").write_bytes((folder / "test-00.webp").read_bytes())
    labels = dict(np.load(folder / "labels.npz"))["test"]
    np.savez(folder / "labels.npz", test=labels, train=labels)
    monkeypatch.setattr(module, "BATCH", 64)
    options = ["--epochs", "1", "--rows", "250", "--statistics", "--out", str(tmp_path), "--checkpoints", str(tmp_path)]
    for _ in range(2):  # the second finds itself finished
        monkeypatch.setattr(sys, "argv", ["train", str(folder), "resnet18", *options])
        module.main()
    found = np.load(tmp_path / "cifar100_resnet18.npz")
    assert found["logits"].shape == (250, labels.max() + 1)
    assert found["representations"].shape == (250, 512)
    assert json.loads((tmp_path / "cifar100_resnet18.json").read_text())["epochs"] == 1
