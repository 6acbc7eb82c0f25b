"""The tables of results in the docs are what the stored results say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from experiments import maps, tuning

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "experiments" / "results"
PAGE = ROOT / "docs" / "explanation" / "tuning-results.md"


@pytest.mark.parametrize("path", sorted(RESULTS.glob("tuning-*.json")), ids=lambda path: path.stem)
def test_tuning_tables(path):
    assert tuning.table(json.loads(path.read_text())) in PAGE.read_text()


def test_map_tables():
    for result in json.loads((RESULTS / "maps.json").read_text()):
        assert maps.table(result) in PAGE.read_text()
