"""The report's page in a real browser: quiet, self-contained, accessible, and right about the sets it shows."""

from __future__ import annotations

import json
import math
import re
from fractions import Fraction
from pathlib import Path

import pytest

from tests.doors.page.page_sample import HOSTILE, sample
from vicinal.reporting.html import embed, render

pytestmark = pytest.mark.slow  # they need a browser

SMALL = {"rows": 130, "candidates": 60, "points": 150, "images": False}


def test_data_cannot_leave_its_element():
    text = embed(
        {"a": "</script><!--\u2028\u2029", "b": [math.nan, math.inf, 1.5], "c": (None, True, {"d": -math.inf})}
    )
    assert "<" not in text
    assert text.isascii()
    read = {"a": "</script><!--\u2028\u2029", "b": [None, None, 1.5], "c": [None, True, {"d": None}]}
    assert json.loads(text) == read


def test_one_document_with_everything_inside():
    pytest.importorskip("plotly", reason="the page inlines plotly.js")
    text = render(sample(**SMALL) | {"title": "a < b {{data}} \ud800"})
    assert text.encode("utf-8").startswith(b"<!doctype html>")
    assert "<title>a &lt; b {{data}}" in text
    assert not re.search(r"<(link|script|img|iframe)[^>]*(src|href)=", text[: text.index('id="data"')])


def shorter():
    """Return the data of a predictor that cuts the intervals of plain split and covers the same rows."""
    data = sample("regression", **SMALL)
    data["curve"]["split"]["coverage"] = list(data["curve"]["neighborhood"]["coverage"])
    data["tenths"]["split"] = list(data["tenths"]["neighborhood"])
    return data


def difficulty(name):
    """Return thresholds by the rank of two coordinates, some of them infinite."""
    levels = ["-inf"] * 50 + [0.5 + 0.004 * step for step in range(100)]
    places = [step / 1.5 for step in range(150)]
    line = {"x": places[::10], "y": levels[::10]}
    coordinates = [
        {"name": one, "x": places, "value": places, "line": line, "test_x": places[:130], "test_value": places[:130]}
        for one in (name, "confidence")
    ]
    tests = {"test_threshold": levels[:130], "test_name": [f"Row {row}" for row in range(130)]}
    rows = {"threshold": levels, "label": [name] * 150, "rows": 150, "count": 3, "words": f"calibration rows {name}"}
    return {"coordinates": coordinates, "global": 0.7, **tests, **rows}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Folder with a report for each kind of data."""
    pytest.importorskip("plotly", reason="the page inlines plotly.js")
    folder = tmp_path_factory.mktemp("pages")
    nothing = dict.fromkeys(("sizes", "curve", "tenths", "classes", "by_group", "frontier", "map", "diagnosis"))
    reports = {
        "full": sample(),
        "classification": sample(**SMALL),
        "regression": sample("regression", **SMALL),
        "few": sample(**SMALL, n=99),
        "hostile": sample(**SMALL | {"images": True}, hostile=True),
        "bare": sample(**SMALL) | nothing,
        "alone": sample(**SMALL) | {"compared": False},
        "shorter": shorter(),
        "hard": sample(**SMALL) | {"map": None, "difficulty": difficulty(HOSTILE)},
    }
    for name, data in reports.items():
        (folder / f"{name}.html").write_text(render(data), encoding="utf-8")
    return folder


@pytest.fixture
def visit(browser, files):
    """Open a report; after the test, fail on any error, warning or request that left the file."""
    pages, trouble = [], []

    def said(message):
        if message.type in {"error", "warning", "trace"}:
            trouble.append(message.text)

    def check_request(request):
        if not request.url.startswith(("file:", "data:", "blob:")):
            trouble.append(request.url)

    def visit(name, width=1280, scheme="light"):
        page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
        page.on("console", said)
        page.on("pageerror", lambda error: trouble.append(str(error)))
        page.on("dialog", lambda dialog: (trouble.append(dialog.message), dialog.dismiss()))
        page.on("request", check_request)
        page.goto((files / f"{name}.html").as_uri())
        pages.append(page)
        return page

    yield visit
    for page in pages:
        page.close()
    assert trouble == []


def overflow(page):
    return page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")


def show_path(page):
    return page.evaluate("[...document.querySelectorAll('main > section:not([hidden])')].map(found => found.id)")


@pytest.mark.parametrize(("name", "plots"), [("full", 7), ("regression", 6)])
def test_it_opens_from_a_file_and_fits_a_phone(visit, name, plots):
    page = visit(name, width=375)
    sections = ["headline", "sizes", "curve", "evenness", "groups", "frontier", "map", "explorer", "diagnosis"]
    assert show_path(page) == sections
    assert page.locator("nav a").count() == len(sections)
    assert page.locator("svg.main-svg >> nth=0").is_visible()
    assert page.evaluate("[...document.querySelectorAll('.plot')].filter(plot => plot.layout).length") == plots
    assert page.evaluate("[...document.querySelectorAll('.plot')].filter(plot => plot.layout && !plot.ariaLabel)") == []
    page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
    assert overflow(page) == 0
    page.set_viewport_size({"width": 1280, "height": 900})
    assert overflow(page) == 0


def test_thresholds_by_difficulty_take_the_place_of_the_map(visit):
    page = visit("hard", width=375)
    assert "difficulty" in show_path(page)
    assert "map" not in show_path(page)
    assert HOSTILE in page.inner_text("#difficulty-words")
    assert "The first 2 of 3 coordinates are drawn." in page.inner_text("#difficulty-words")
    assert "50 of the 150" in page.inner_text("#difficulty-infinite")
    rings = "[...document.querySelectorAll('#difficulty .plot')].map(plot => plot.layout.shapes.at(-1).xanchor)"
    before = page.evaluate(rings)
    assert len(before) == 2
    page.click("#next")
    assert page.evaluate(rings) != before
    lines = "[...document.querySelectorAll('#difficulty .plot')].map(plot => plot.data[1].y.every(Number.isFinite))"
    assert page.evaluate(lines) == [True, True]
    page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
    assert page.locator("#difficulty-1-figure tbody tr").count() == 10
    assert overflow(page) == 0


def test_without_anything_to_compare_there_is_one_line(visit):
    page = visit("alone")
    traces = "[...document.querySelectorAll('#size-figure .plot')].map(plot => plot.data.length)"
    assert page.evaluate(traces) == [1]
    assert page.locator(".compared:visible").count() == 0
    assert "plain split" not in page.inner_text("#headline").lower().replace(page.inner_text("#advice").lower(), "")
    both = visit("classification")
    assert both.evaluate(traces) == [2]
    assert both.locator(".compared:visible").count() > 0


def test_identical_lines_are_drawn_once(visit):
    page = visit("shorter")
    named = "[...document.querySelectorAll('#{} .key:not([hidden]):not(.dotted)')].map(key => key.textContent)"
    for name, lines in (("coverage-figure", 1), ("tenths-figure", 1), ("size-figure", 2)):
        drawn = page.evaluate(
            f"document.querySelector('#{name} .plot').data.filter(line => line.line.dash !== 'dot').length"
        )
        assert drawn == lines
        assert len(page.evaluate(named.format(name))) == lines
        assert page.locator(f"#{name} thead th").count() == lines + (3 if name == "tenths-figure" else 2) - 1
    assert page.evaluate(named.format("tenths-figure")) == ["Plain split and this predictor"]
    assert page.inner_text("#tenths-figure .found").count("lowest") == 1


def test_tables_are_not_cut_on_a_phone(visit):
    page = visit("classification", width=390)
    cut = "[...document.querySelectorAll('.stack')].filter(one => one.scrollWidth > one.clientWidth + 1).length"
    assert page.locator(".stack").count() >= 3
    assert page.evaluate(cut) == 0


def test_sections_without_data_are_hidden(visit):
    page = visit("bare")
    assert show_path(page) == ["headline", "explorer"]
    assert page.locator("nav a").all_inner_texts() == ["Result", "Explorer"]
    assert page.locator("#explorer-slider").is_hidden()
    assert "at target 0.90" in page.inner_text("#row-verdict")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["classification", "regression"])
def test_axe_finds_nothing_serious(visit, name):
    package = pytest.importorskip("axe_core_python", reason="it brings axe-core")
    page = visit(name)
    page.evaluate(Path(package.__file__).with_name("axe.min.js").read_text(encoding="utf-8"))
    page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
    # a few rows of each table stand for all; what plots draw stands behind role=img and its label
    page.evaluate("document.querySelectorAll('details tr:nth-child(n+4)').forEach(one => one.remove())")
    for scheme, width in (("light", 1280), ("dark", 1280), ("dark", 375), ("light", 375)):
        page.emulate_media(color_scheme=scheme)
        page.set_viewport_size({"width": width, "height": 900})
        found = page.evaluate("axe.run({ exclude: [['.plot > *']] })")
        serious = [one for one in found["violations"] if one["impact"] in {"serious", "critical"}]
        assert [(one["id"], one["nodes"][0]["html"]) for one in serious] == [], (scheme, width)
        # a rule that meets a color it cannot read gives up without a word
        assert "color-contrast" in {one["id"] for one in found["passes"]}


def test_the_slider_moves_the_numbers(visit):
    page = visit("classification")
    curve = sample(**SMALL)["curve"]

    def numbers(at):
        names = {"Plain split": "split", "This predictor": "neighborhood"}
        reached = [(name, curve[method]["coverage"][at]) for name, method in names.items()]
        return [f"Target {curve['targets'][at]:.2f}", *(f"{name}: coverage {value:.3f}" for name, value in reached)]

    start = curve["targets"].index(0.9)
    for key, at in ((None, start), ("ArrowRight", start + 1), ("End", len(curve["targets"]) - 1), ("Home", 0)):
        if key:
            page.locator("#target").press(key)
        assert all(part in page.inner_text("#target-output") for part in numbers(at))
        line = "document.querySelector('#{}-figure .plot').layout.shapes[0].x0"
        for plot in ("coverage", "size"):
            assert page.evaluate(line.format(plot)) == curve["targets"][at]
        assert page.locator("#explorer-target").input_value() == str(at)
        assert page.locator("#target").get_attribute("aria-valuetext") == f"{curve['targets'][at]:.2f}"
    page.locator("#explorer-target").press("End")
    assert "Target 0.99" in page.inner_text("#target-output")
    assert "at target 0.99" in page.inner_text("#live")


@pytest.mark.slow
def test_the_sets_are_those_of_the_library(visit):
    page = visit("few")
    data = sample(**SMALL, n=99)
    for at, target in enumerate(data["curve"]["targets"]):
        out = 1 - Fraction(math.ceil(Fraction(str(target)) * 100), 100)  # the largest p-value that stays out
        rows = [
            [Fraction(label["p"]).limit_denominator(100) for label in row["labels"]] for row in data["explorer"]["rows"]
        ]
        row = next((row for row, found in enumerate(rows) if out in found), at)
        given, inside = data["explorer"]["rows"][row], [p > out for p in rows[row]]
        page.locator("#explorer-target").fill(str(at))
        page.select_option("#rows", str(row))
        rest = given["set_sizes"][at] - sum(inside)
        hit = any(label["truth"] and found for label, found in zip(given["labels"], inside, strict=True))
        assert [text == "✓ in" for text in page.locator("#row-labels td:last-child").all_inner_texts()] == inside
        assert (f", {rest} not listed" in page.inner_text("#row-labels caption")) == (rest > 0)
        assert page.inner_text("#row-verdict").startswith("✓ Covered" if hit else "✗ Missed")


def test_the_explorer_works_from_the_keyboard(visit):
    page = visit("classification")
    focus = "document.activeElement.id || document.activeElement.value"
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")  # the skip link
    assert page.evaluate(focus) == "main"
    order = []
    while "explorer-target" not in order:
        page.keyboard.press("Tab")
        order.append(page.evaluate(focus))
        assert len(order) < 60
        outline = "getComputedStyle(document.activeElement.matches('.chip input') ? document.activeElement"
        outline += ".nextElementSibling : document.activeElement).outlineStyle"
        assert page.evaluate(outline) != "none", order[-1]
    assert order[-7:] == ["all", "filter", "rows", "previous", "next", "random", "explorer-target"]

    page.locator("#rows").focus()
    page.keyboard.press("ArrowDown")
    assert page.inner_text("#row-title").startswith("Row 1: truth ")
    assert page.inner_text("#live").startswith("Row 1, truth ")
    ring = page.evaluate("document.querySelector('#map-figure .plot').layout.shapes[0].xanchor")
    assert ring == sample(**SMALL)["explorer"]["rows"][1]["position"][0]
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")  # next
    assert page.inner_text("#row-title").startswith("Row 2: truth ")
    assert page.locator("#rows").input_value() == "2"

    page.locator("#chips input >> nth=0").focus()
    page.keyboard.press("ArrowRight")  # missed
    listed = page.locator("#rows option").all_inner_texts()
    assert 0 < len(listed) < 100
    assert all(text.endswith("missed") for text in listed)
    page.keyboard.press("ArrowRight")  # largest
    sizes = [int(text.split(" · ")[2].split()[0]) for text in page.locator("#rows option").all_inner_texts()]
    assert sizes == sorted(sizes, reverse=True)
    assert len(sizes) == 30
    page.keyboard.press("ArrowRight")  # round to all
    page.locator("#filter").focus()
    page.keyboard.type("row 12")
    assert [text.split(" · ")[0] for text in page.locator("#rows option").all_inner_texts()][:2] == [
        "Row 12",
        "Row 120",
    ]
    assert page.inner_text("#row-title").startswith("Row 12:")
    page.keyboard.type("x")
    assert page.inner_text("#matches") == "(none matches)"
    page.locator("#next").press("Enter")
    assert page.inner_text("#row-title").startswith("Row 12:")


def test_an_interval_that_misses_says_so(visit):
    page = visit("regression")
    rows = sample("regression", **SMALL)["explorer"]["rows"]
    missed = next(at for at, row in enumerate(rows) if row["upper"] is not None and row["truth_value"] > row["upper"])
    for at, words in ((missed, "✗ Missed at target 0.90: the interval has length"), (7, "the interval has no end")):
        page.select_option("#rows", str(at))
        assert words in page.inner_text("#row-verdict")
    assert "from \N{MINUS SIGN}∞ to +∞" in page.inner_text("#row-interval")
    assert page.locator("#explorer-slider").is_hidden()


@pytest.mark.slow
def test_the_theme_follows_the_system_and_the_button(visit):
    page = visit("classification", scheme="dark")
    button = page.get_by_role("button", name="Dark theme")

    def look():
        plotted = "document.querySelector('#sizes-figure .plot').layout.font.color"
        colors = page.evaluate(f"[getComputedStyle(document.body).backgroundColor, {plotted}]")
        return colors, button.get_attribute("aria-pressed")

    dark, pressed = look()
    assert pressed == "true"
    page.emulate_media(color_scheme="light")
    page.wait_for_selector("#theme[aria-pressed=false]")  # the browser tells the page with its next frame
    light, pressed = look()
    assert pressed == "false"
    assert not set(light) & set(dark)
    button.press("Enter")
    assert look() == (dark, "true")
    button.press("Enter")
    assert look() == (light, "false")


def test_markup_in_names_is_text(visit):
    page = visit("hostile", width=375)
    assert page.inner_text("h1") == HOSTILE
    assert page.title() == HOSTILE
    page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
    assert page.locator("#classes-figure th", has_text=HOSTILE).is_visible()
    assert overflow(page) == 0
    assert page.evaluate("document.querySelectorAll('img:not([src^=\"data:image/\"])').length") == 0
    texts = page.evaluate("document.querySelector('#classes-figure .plot').data[1].hovertext")
    assert any(text.startswith("&lt;/script&gt;&lt;img") for text in texts)
