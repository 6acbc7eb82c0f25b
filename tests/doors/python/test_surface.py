"""The public surface: names, imports without extras, the command line, the wheel."""

from __future__ import annotations

import html
import json
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

import pytest

import vicinal as vc
from vicinal.service.examples import from_file

ROOT = Path(__file__).parents[3]

FIXED = {
    *("APS", "AbsoluteResidual", "Ball", "CQR", "Exact", "Exponential", "LAC", "LeaveOneOut", "ModelOutputs"),
    *("NeighborhoodClassifier", "NeighborhoodRegressor", "NeverEmpty", "PaperLiteral", "RAPS", "ScaledResidual"),
    *("Split", "SplitReference", "TemperatureScaling", "Uniform", "calibrate", "evaluate", "naive_sets", "split_rows"),
    *(
        "Bayesian",
        "Grid",
        "Identity",
        "NeighborVotes",
        "PrincipalComponents",
        "Standardize",
        "TuningReport",
        "UnitLength",
    ),
    *("diagnose", "report", "tune"),
}


def test_every_public_name_can_be_had():
    for name in vc.__all__:
        assert getattr(vc, name) is not None
    assert set(vc.__all__) >= FIXED
    assert set(vc.__all__) <= set(dir(vc))
    with pytest.raises(AttributeError, match="nothing"):
        _ = vc.nothing


def run(*arguments, **options):
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=False, **options)


def test_importing_pulls_in_nothing_heavy():
    program = (
        "import sys, numpy as np, vicinal as vc\n"
        "o = vc.ModelOutputs.from_logits(np.zeros((30, 2)), np.ones((30, 2)))\n"
        "vc.calibrate(o, np.zeros(30, int), 0.8, localizer=vc.Uniform(3)).predict(o)\n"
        "heavy = {'torch', 'faiss', 'matplotlib', 'fastapi', 'flask', 'typer', 'rich', 'sklearn', 'pandas'}\n"
        "heavy |= {'optuna', 'plotly', 'PIL'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    assert run("-c", program).stdout.strip() == "[]"
    assert run("-c", "import sys, vicinal; print('numba' in sys.modules)").stdout.strip() == "False"


@pytest.mark.parametrize(
    ("package", "extra", "program"),
    [
        ("typer", "cli", "from vicinal.cli import main; main()"),
        ("rich", "cli", "from vicinal.cli import main; main()"),
        (
            "matplotlib",
            "plots",
            "from pathlib import Path; from vicinal.reporting.plots import size_against_coverage; "
            "size_against_coverage({}, Path('x'))",
        ),
        ("plotly", "plots", "from vicinal.reporting.html import render; render({})"),
        (
            "optuna",
            "tune",
            "import numpy as np, vicinal as vc; o = vc.ModelOutputs.from_logits(np.eye(3)[np.arange(60) % 3], "
            "np.arange(60.0)[:, None]); vc.tune(o, np.arange(60) % 3, 0.8, strategy=vc.Bayesian(2))",
        ),
    ],
)
def test_a_missing_extra_is_named(package, extra, program):
    blocked = f"import sys; sys.modules[{package!r}] = None; sys.argv = ['vicinal', 'demo']; {program}"
    found = run("-c", blocked)
    assert found.returncode != 0
    assert f"pip install 'vicinal[{extra}]'" in found.stderr


def vicinal_command(*arguments, **options):
    return run("-c", "from vicinal.cli import main; main()", *arguments, **options)


@pytest.mark.slow
def test_the_demo_shows_three_cases_and_leaves_reports_and_models(tmp_path):
    found = vicinal_command("demo", "--out", str(tmp_path / "new"), "--json")
    assert found.returncode == 0, found.stderr
    result = json.loads(found.stdout)
    assert list(result["cases"]) == ["shifted", "counts", "images"]
    for case in result["cases"].values():
        assert case["sentence"].endswith(".")
        for row in case["rows"]:
            assert row["method"].startswith("naive") or abs(row["coverage"] - 0.9) < 0.045  # one cut of 1,000 rows
    rows = {name: {row["method"]: row for row in case["rows"]} for name, case in result["cases"].items()}
    votes, plain = rows["shifted"]["Split, LAC, neighbors' votes"], rows["shifted"]["Split, LAC"]
    assert plain["mean_size"] > 4 * votes["mean_size"]
    assert rows["counts"]["tuned, smallest"]["mean_size"] < 0.8 * rows["counts"]["Split"]["mean_size"]
    assert rows["counts"]["tuned, even"]["worst_tenth"] > 0.2 + rows["counts"]["Split"]["worst_tenth"]
    assert rows["images"]["tuned, smallest"]["mean_size"] < rows["images"]["Split, LAC"]["mean_size"]
    page = Path(result["report"]).read_text(encoding="utf-8")
    for name, case in result["cases"].items():
        assert html.escape(case["question"]) in page
        assert html.escape(case["sentence"]) in page
        assert Path(result["pictures"][name]).read_bytes().startswith(b"\x89PNG")
        assert 4e6 < Path(result["reports"][name]).stat().st_size < 15e6
        predictor = vc.load(result["models"][name])
        assert predictor.coverage == 0.9
        examples = from_file(result["example_rows"][name], predictor)
        assert len(examples) == len(examples.truths) == 200


@pytest.mark.slow
def test_one_case_of_the_demo_fits_a_terminal_of_80_columns(tmp_path):
    found = vicinal_command("demo", "--case", "counts", "--out", str(tmp_path), "--coverage", "0.8")
    assert found.returncode == 0, found.stderr
    assert "Split, range known" in found.stdout
    assert "…" not in found.stdout
    assert "report.html" in found.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("demo", "--coverage", "1.5"), "coverage must be strictly between 0 and 1"),
        (("demo", "--coverage", "0.9999"), "needs at least 9999 ranked calibration rows"),
        (("demo", "--seed", "-1"), "seed must be a whole number"),
        (("demo", "--out", __file__), "a folder that can be made"),
        (("demo", "--out", "/proc/nope/x"), "a folder that can be made"),
        (("demo", "--splits", "0"), "splits must be a whole number"),
        (("demo", "--case", "cats"), "shifted or counts or images"),
    ],
)
@pytest.mark.unix
def test_bad_arguments_are_one_line_and_exit_code_2(arguments, words):
    found = vicinal_command(*arguments)
    assert found.returncode == 2
    assert words in found.stderr
    assert "Traceback" not in found.stderr
    assert len(found.stderr.strip().splitlines()) == 1


@pytest.mark.slow
def test_a_picture_that_cannot_be_written_is_one_line(tmp_path):
    (tmp_path / "counts.png").mkdir()
    found = vicinal_command("demo", "--case", "counts", "--out", str(tmp_path))
    assert found.returncode == 2
    assert "counts.png" in found.stderr
    assert "Traceback" not in found.stderr


def test_help_has_an_example_and_version_prints():
    assert "Example" in vicinal_command("demo", "--help").stdout
    assert vc.__version__ in vicinal_command("--version").stdout


def test_the_version_stands_in_the_changelog():
    assert f"## {vc.__version__}" in (ROOT / "CHANGELOG.md").read_text()
    assert tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dynamic"] == ["version"]


@pytest.mark.slow
def test_the_wheel_installs_in_an_empty_environment_and_predicts(tmp_path):
    built = run("-m", "build", "--wheel", "--no-isolation", "--outdir", str(tmp_path), str(ROOT))
    assert built.returncode == 0, built.stdout + built.stderr
    venv.create(tmp_path / "empty", with_pip=True)
    python = tmp_path / "empty" / "bin" / "python"
    wheel = next(tmp_path.glob("*.whl"))
    constraints = ROOT / "constraints.txt"
    subprocess.run([python, "-m", "pip", "install", "-q", "-c", constraints, wheel], check=True, capture_output=True)
    program = (
        "import vicinal as vc; d = vc.datasets.load_cifar100_resnet18();"
        "p = vc.calibrate(d.outputs[:500], d.labels[:500], 0.9, localizer=vc.Uniform(50));"
        "print(vc.evaluate(p.predict(d.outputs[500:]), d.labels[500:]).coverage)"
    )
    found = subprocess.run([python, "-c", program], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert abs(float(found.stdout) - 0.9) < 0.05
    missing = subprocess.run(
        [tmp_path / "empty" / "bin" / "vicinal", "demo"], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert missing.returncode != 0
    assert "pip install 'vicinal[cli]'" in missing.stderr


def test_one_call_passes_through_few_functions():
    """The limits of benchmarks/shape.py: calls, files and depth of one `calibrate` and one `predict`."""
    command = [sys.executable, ROOT / "benchmarks" / "shape.py", "--check"]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout + found.stderr
