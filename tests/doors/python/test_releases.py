"""What the files of the repository say about versions agrees."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import vicinal as vc

ROOT = Path(__file__).parents[3]
CHECK = [sys.executable, ROOT / ".ci" / "check_release.py"]


def read(name):
    return (ROOT / name).read_text(encoding="utf-8")


@pytest.mark.parametrize(("tag", "code"), [("v0.0.0", 1), (vc.__version__, 1), (f"v{vc.__version__}", 0)])
def test_a_tag_must_name_the_version(tag, code):
    assert subprocess.run([*CHECK, tag], capture_output=True, check=False).returncode == code


def test_the_version_of_ruff_is_the_same_everywhere():
    pinned = re.search(r"^ruff==(.+)$", read("constraints.txt"), re.MULTILINE)[1]
    assert re.search(r"ruff-pre-commit\n    rev: v(.+)$", read(".pre-commit-config.yaml"), re.MULTILINE)[1] == pinned


def test_the_workflows_test_the_versions_of_python_that_are_promised():
    classifiers = tomllib.loads(read("pyproject.toml"))["project"]["classifiers"]
    promised = [one.rpartition(" ")[2] for one in classifiers if re.search(r":: 3\.\d+$", one)]
    tested = re.search(r"^        python: \[(.+)\]$", read(".github/workflows/tests.yml"), re.MULTILINE)[1]
    assert re.findall(r"[\d.]+", tested) == promised
