"""The page that `vicinal demo` leaves: its tables and pictures can be read at any width."""

from __future__ import annotations

import re
from itertools import combinations
from pathlib import Path
from types import SimpleNamespace

import pytest

from vicinal.reporting.demo import CASES
from vicinal.reporting.demo.compare import CaseResult, WayResult
from vicinal.reporting.demo.page import case_html, page_html
from vicinal.reporting.demo.pictures import size_against_evenness

MEASURED = {
    "naive, uncalibrated": (6.36, 0.889),
    "Split, LAC": (2.08, 0.729),
    "Split, APS": (5.98, 0.838),
    "Split, RAPS": (3.93, 0.847),
    "Split, NeverEmpty(APS)": (3.61, 0.802),
    "Exact, LAC": (2.18, 0.751),
    "Exact, NeverEmpty(APS)": (3.28, 0.829),
    "Exact, NeverEmpty(RAPS)": (2.92, 0.836),
    "tuned, smallest": (2.03, 0.700),
    "tuned, even": (2.68, 0.827),
}
"""Mean size and worst tenth of each way, several of them close together."""


def draw():
    pytest.importorskip("matplotlib")
    return size_against_evenness(MEASURED, strong=("Split, LAC", "tuned, smallest", "tuned, even"))


def test_names_in_the_picture_hide_neither_names_nor_points():
    from matplotlib.text import Text

    axes = draw()
    axes.figure.canvas.draw()
    boxes = {one.get_text(): Text.get_window_extent(one) for one in axes.texts}
    assert set(boxes) == set(MEASURED)
    assert [pair for pair in combinations(boxes, 2) if boxes[pair[0]].overlaps(boxes[pair[1]])] == []
    points = axes.transData.transform(list(MEASURED.values()))
    assert [name for name, box in boxes.items() if box.count_contains(points)] == []
    frame = axes.get_window_extent()
    assert [name for name, box in boxes.items() if box.x0 < frame.x0 or box.x1 > frame.x1] == []


def result_of(name, measured):
    """Return the result of a case with these mean sizes and worst tenths."""
    found = {
        way: WayResult(SimpleNamespace(coverage=0.9, coverage_interval=(0.888, 0.912), mean_size=size), worst, None)
        for way, (size, worst) in measured.items()
    }
    return CaseResult(next(one for one in CASES if one.name == name), 0.9, 0, 3, found, {}, None, {})


@pytest.mark.parametrize(
    ("name", "changed", "words"),
    [
        ("images", {}, "a trade-off: .* covered 83% instead of 73% of the time, for 2.68 instead of 2.08 labels"),
        ("images", {"tuned, even": (3.33, 0.71)}, "3.33 labels .* covered 71% .* plain split has 2.08 labels and 73%"),
        ("images", {"tuned, even": (2.0, 0.85)}, "^Tuned for even coverage, sets have 2 labels"),
        ("counts", {}, "30% shorter: 7 instead of 10 comments"),
        ("counts", {"tuned, smallest": (12, 0.5)}, "20% longer: 12 instead of 10 comments"),
        ("shifted", {}, "4.0 times smaller, .*: 2 labels instead of 8"),
        ("shifted", {"Split, LAC, neighbors' votes": (16, 0.8)}, "2.0 times larger, .*: 16 labels instead of 8"),
    ],
)
def test_the_sentence_says_what_was_measured(name, changed, words):
    measured = {
        "images": MEASURED,
        "counts": {"Split": (10, 0.3), "tuned, smallest": (7, 0.3), "tuned, even": (12, 0.7)},
        "shifted": {
            "Split, LAC": (8, 0.7),
            "Split, LAC, told the 200 classes": (3, 0.7),
            "Split, LAC, neighbors' votes": (2, 0.7),
        },
    }[name]
    assert re.search(words, result_of(name, measured | changed).conclusion.sentence)


@pytest.fixture
def page(browser, tmp_path):
    """The page with one case of ten ways, opened at the width of a phone."""
    result = result_of("images", MEASURED)
    path = tmp_path / "report.html"
    path.write_text(
        page_html(
            [case_html(result, draw(), Path("images.html"), "vicinal serve images.vicinal --examples images.npz")]
        ),
        "utf-8",
    )
    opened = browser.new_page(viewport={"width": 390, "height": 900})
    opened.goto(path.as_uri())
    yield opened
    opened.close()


@pytest.mark.slow  # needs a browser
def test_the_table_is_not_cut_on_a_phone(page):
    cut = "[...document.querySelectorAll('.scroll')].map(one => one.scrollWidth - one.clientWidth)"
    for width in (1280, 600, 390, 360):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate(cut) == [0], width
        assert page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") == 0
        pieces = "[...document.querySelectorAll('code span')].map(word => word.getClientRects().length)"
        assert set(page.evaluate(pieces)) == {1}  # no option is broken after its hyphens


@pytest.mark.slow
def test_axe_finds_nothing_serious(page):
    package = pytest.importorskip("axe_core_python", reason="it brings axe-core")
    script = Path(package.__file__).with_name("axe.min.js").read_text(encoding="utf-8")
    # the page runs no scripts; this one comes from outside of it
    for scheme, width in (("light", 1280), ("dark", 1280), ("dark", 390), ("light", 390)):
        page.emulate_media(color_scheme=scheme)
        page.set_viewport_size({"width": width, "height": 900})
        page.evaluate(script)
        found = page.evaluate("axe.run()")
        assert [one["id"] for one in found["violations"] if one["impact"] in {"serious", "critical"}] == []
