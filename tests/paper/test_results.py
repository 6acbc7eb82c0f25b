"""The tables of results in the docs are what the stored results say."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "experiments" / "results"
PAGE = ROOT / "docs" / "tuning-results.md"


def script(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "experiments" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("path", sorted(RESULTS.glob("tuning-*.json")), ids=lambda path: path.stem)
def test_tuning_tables(path):
    assert script("tuning").table(json.loads(path.read_text())) in PAGE.read_text()


def test_map_tables():
    for result in json.loads((RESULTS / "maps.json").read_text()):
        assert script("maps").table(result) in PAGE.read_text()
