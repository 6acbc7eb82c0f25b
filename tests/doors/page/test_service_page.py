"""The service's page in a real browser: rows, slider, files, truths; quiet, accessible, right about what it shows."""

from __future__ import annotations

import io
import json
import urllib.request
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import feather

import vicinal as vc
from tests.doors.service.running import Running, saved_model

pytestmark = pytest.mark.slow  # they need a browser

pytest.importorskip("fastapi", reason="the service needs vicinal[serve]")
sync_api = pytest.importorskip("playwright.sync_api", reason="playwright drives the page")


@pytest.fixture(scope="module")
def rows():
    return vc.datasets.load_cifar100_resnet18()


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return saved_model(tmp_path_factory.mktemp("model"), known=600)


@pytest.fixture(scope="module")
def service(model):
    with Running(model) as running:
        running.wait_ready().close()
        yield running


@pytest.fixture
def visit(browser):
    """Open a page; after the test, fail on any error, and on any request that went elsewhere."""
    pages, trouble = [], []

    def visit(url, width=1280, scheme="light", refused=0):
        page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
        seen = []

        def said(message):
            gone = "ERR_CONNECTION_REFUSED" in message.text  # the page outlives its service in some tests
            if message.type in {"error", "warning"} and not gone:
                seen.append(message.text)
                if len(seen) > refused:  # the browser says of every refusal that there was one
                    trouble.append(message.text)

        page.on("console", said)
        page.on("pageerror", lambda error: trouble.append(str(error)))
        page.on(
            "request", lambda request: None if request.url.startswith((url, "data:")) else trouble.append(request.url)
        )
        page.goto(url)
        pages.append(page)
        return page

    yield visit
    for page in pages:
        page.close()
    assert trouble == []


def ready(page, words="the set has"):
    says(page, "#verdict", words)


def says(page, where, words):
    """Wait until an element holds these words; the page forbids the evaluation of strings, which waiting would need."""
    sync_api.expect(page.locator(where).first).to_contain_text(words, timeout=60_000)


def slide(page, coverage):
    page.evaluate(
        """to => {
          const one = document.getElementById('coverage');
          one.value = to;
          one.dispatchEvent(new Event('input'));
        }""",
        str(coverage),
    )
    ready(page, f"At coverage {coverage:.2f}")


def shown_set(page):
    return page.locator("#set li").all_inner_texts()


def overflow(page):
    return page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")


def upload(page, name, **arrays):
    file = io.BytesIO()
    np.savez(file, **arrays)
    page.set_input_files("#file", {"name": name, "mimeType": "application/octet-stream", "buffer": file.getvalue()})


def test_rows_and_slider_show_the_predictor_s_sets(visit, service, model):
    predictor = vc.load(model)
    page = visit(service.url)
    ready(page)
    assert page.locator("#rows option").count() == 200
    assert page.locator("#subtitle").inner_text().startswith("100 classes, 600 calibration rows")
    for row in (0, 3):
        page.select_option("#rows", str(row))
        says(page, "#row-title", f"Row {row}:")
        with urllib.request.urlopen(f"{service.url}/examples/{row}") as reply:
            given = json.load(reply)
        outputs = vc.ModelOutputs.from_logits(
            np.array(given["logits"], np.float32), np.array(given["representations"], np.float32)
        )
        for coverage in (0.6, 0.95):
            slide(page, coverage)
            assert sorted(shown_set(page)) == sorted(predictor.at(coverage).predict(outputs).labels()[0])
    assert page.locator("#curves svg path").count() == 2
    assert page.locator("#neighbors tbody tr").count() == 20
    assert "effective number" in page.inner_text("#words")


def test_the_keyboard_does_all(visit, service):
    page = visit(service.url)
    ready(page)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.focus("#coverage")
    before = page.input_value("#coverage")
    page.keyboard.press("ArrowRight")
    assert float(page.input_value("#coverage")) > float(before)
    page.focus("#rows")
    page.keyboard.press("ArrowDown")
    says(page, "#row-title", "Row 1:")
    page.focus("#next")
    page.keyboard.press("Enter")
    says(page, "#row-title", "Row 2:")


def test_a_file_is_answered_and_a_wrong_one_is_said(visit, service, rows, model):
    predictor, some = vc.load(model), rows.outputs[700:705]
    page = visit(service.url, refused=2)
    ready(page)
    upload(page, "mine.npz", logits=some.logits, representations=some.representations, labels=rows.labels[700:705])
    says(page, "#source", "mine.npz")
    page.select_option("#rows", "4")
    says(page, "#row-title", f"Row 4: true value {some.class_names[rows.labels[704]]}")
    assert sorted(shown_set(page)) == sorted(predictor.predict(some).labels()[4])
    upload(page, "narrow.npz", logits=some.logits[:, :7], representations=some.representations)
    page.wait_for_selector("#trouble:not([hidden])")
    assert "must have 100 classes" in page.inner_text("#trouble")
    assert page.inner_text("#row-title").startswith("Row 4:")  # what was there stays
    assert "narrow.npz" in page.inner_text("#trouble")
    upload(page, "rows.xlsx", a=np.zeros(3))
    says(page, "#trouble", "is not a .npz")
    page.set_input_files("#file", {"name": "no.npz", "mimeType": "", "buffer": b"no archive"})
    says(page, "#trouble", "no.npz was refused: the file is damaged or not a .npz file")
    upload(page, "again.npz", logits=some.logits, representations=some.representations)
    page.wait_for_selector("#trouble", state="hidden")


@pytest.mark.parametrize("suffix", ["parquet", "arrow", "csv", "jsonl", "json"])
def test_every_format_of_the_command_line_is_answered(visit, service, rows, model, suffix, tmp_path):
    some = rows.outputs[700:703]
    lists = {"logits": some.logits.tolist(), "representations": some.representations.tolist()}
    path = tmp_path / f"mine.{suffix}"
    if suffix == "json":
        path.write_text(json.dumps(lists))
    elif suffix == "jsonl":
        each = zip(*lists.values(), strict=True)
        path.write_text("".join(json.dumps(dict(zip(lists, row, strict=True))) + "\n" for row in each))
    elif suffix == "csv":
        names = [f"{name}_{at}" for name, column in lists.items() for at in range(len(column[0]))]
        np.savetxt(path, np.hstack(list(lists.values())), "%.17g", ",", header=",".join(names), comments="")
    else:
        table = pa.table(lists)
        write = pq.write_table if suffix == "parquet" else feather.write_feather
        write(table, path, compression="zstd" if suffix == "parquet" else "uncompressed")
    page = visit(service.url)
    ready(page)
    page.set_input_files("#file", str(path))
    says(page, "#source", path.name)
    page.select_option("#rows", "2")
    says(page, "#row-title", "Row 2")
    assert sorted(shown_set(page)) == sorted(vc.load(model).predict(some).labels()[2])


def test_the_interface_is_described_offline(visit, service):
    page = visit(service.url)
    page.goto(f"{service.url}/docs")
    page.wait_for_selector("#operations-default-predict_predict_post")
    page.click("#operations-default-predict_predict_post .opblock-summary-control")
    page.wait_for_selector(".opblock-body .opblock-section-request-body")
    assert "/feedback" in page.inner_text("#swagger-ui")


@pytest.mark.slow
def test_truths_show_in_coverage_and_drift(visit, model):
    with Running(model) as running:
        running.wait_ready().close()
        page = visit(running.url, refused=2)
        ready(page)
        assert "no true values yet" in page.inner_text("#tiles")
        page.click("#tell-one")
        says(page, "#tiles .big", "1")
        page.click("#tell-one")
        says(page, "#told", "counts once")
        page.click("#tell-all")
        says(page, "#told", "Sent all 200; 1 of them were known already")
        says(page, "#tiles .big", "200")
        page.wait_for_selector("#coverage-chart svg")
        with vc.Client(running.url) as client:
            drift = client.drift()
        assert f"{drift.coverage:.3f}" in page.inner_text("#tiles")
        assert "No drift detected" in page.inner_text("#alarm")
        assert page.get_attribute("#drift-chart svg", "aria-label").startswith("Log10 of the evidence")


def test_an_empty_interval_says_why(visit, tmp_path):
    rng = np.random.default_rng(0)
    y = rng.normal(size=400)
    lower = np.where(np.arange(400) % 40 == 0, 3.0, -3.0)
    outputs = vc.ModelOutputs.from_quantiles(lower, np.full(400, 3.0))
    vc.calibrate(outputs[:200], y[:200], 0.5, method=vc.Split()).save(tmp_path / "model.vicinal")
    np.savez(tmp_path / "rows.npz", lower=lower[200:], upper=np.full(200, 3.0), targets=y[200:])
    with Running(tmp_path / "model.vicinal", "--examples", tmp_path / "rows.npz") as running:
        running.wait_ready().close()
        page = visit(running.url)
        ready(page, "the interval is empty: no value scores at or below the threshold.")
        page.select_option("#rows", "1")
        ready(page, "the interval goes from")


@pytest.mark.slow
def test_with_a_token_it_asks_for_it(visit, model):
    with Running(model, environment={"VICINAL_TOKEN": "a-long-enough-secret"}) as running:
        running.wait_ready().close()
        page = visit(running.url, refused=1)
        page.wait_for_selector("#entry:not([hidden])")
        page.fill("#token", "a-long-enough-secret")
        page.keyboard.press("Enter")
        ready(page)
        assert page.is_hidden("#entry")


@pytest.mark.slow
def test_intervals_have_a_page_too(visit, tmp_path):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 4))
    y = x.sum(axis=1) + rng.normal(size=300)
    outputs = vc.ModelOutputs.from_predictions(x.sum(axis=1), x)
    vc.calibrate(outputs[:200], y[:200], 0.8, localizer=vc.Uniform(30)).save(tmp_path / "model.vicinal")
    np.savez(tmp_path / "rows.npz", predictions=x[200:].sum(axis=1), representations=x[200:], targets=y[200:])
    with Running(tmp_path / "model.vicinal", "--examples", tmp_path / "rows.npz") as running:
        running.wait_ready().close()
        page = visit(running.url)
        ready(page, "the interval goes from")
        assert page.inner_text("#title") == "Prediction intervals of model.vicinal"
        assert page.locator("#interval svg").is_visible()
        page.click("#tell-one")
        says(page, "#tiles .big", "1")


@pytest.mark.parametrize("width", [390, 1280])
def test_it_fits(visit, service, width):
    page = visit(service.url, width=width)
    ready(page)
    assert overflow(page) == 0


def test_no_table_is_cut_on_a_phone(visit, rows, tmp_path):
    near = vc.Exponential(n_neighbors=100, bandwidth=2.0)
    predictor = vc.calibrate(rows.outputs[:1500], rows.labels[:1500], 0.9, score=vc.LAC(), localizer=near)
    with Running(predictor.save(tmp_path / "model.vicinal").path) as running:
        running.wait_ready().close()
        page = visit(running.url, width=390)
        ready(page)
        for row in range(12):
            page.select_option("#rows", str(row))
            says(page, "#row-title", f"Row {row}:")
            cut = "Array.from(document.querySelectorAll('.scroll'), (one) => one.scrollWidth - one.clientWidth)"
            found = page.evaluate(cut)
            assert len(found) >= 2
            assert max(found) <= 0


@pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.slow)])
def test_axe_finds_nothing_serious(visit, service, scheme):
    package = pytest.importorskip("axe_core_python", reason="it brings axe-core")
    page = visit(service.url, scheme=scheme)
    ready(page)
    page.evaluate(Path(package.__file__).with_name("axe.min.js").read_text(encoding="utf-8"))
    for width in (1280, 390):
        page.set_viewport_size({"width": width, "height": 900})
        found = page.evaluate("axe.run()")
        serious = [one for one in found["violations"] if one["impact"] in {"serious", "critical"}]
        assert [(one["id"], one["nodes"][0]["html"]) for one in serious] == [], (scheme, width)
        assert "color-contrast" in {one["id"] for one in found["passes"]}


def test_residuals_of_neighbors_are_not_drawn_as_targets(visit, tmp_path):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 4))
    y = x.sum(axis=1) + rng.normal(size=400)
    outputs = vc.ModelOutputs.from_predictions(x.sum(axis=1), x)
    score = vc.ScaledResidual(vc.NeighborScales.fit(outputs[:100], y[:100]))
    vc.calibrate(outputs[100:300], y[100:300], 0.8, score=score, method=vc.Split()).save(tmp_path / "model.vicinal")
    columns = {"predictions": x[300:].sum(axis=1), "representations": x[300:], "targets": y[300:]}
    np.savez(tmp_path / "rows.npz", **columns, row_ids=np.array([f"patient {row}" for row in range(100)]))
    with Running(tmp_path / "model.vicinal", "--examples", tmp_path / "rows.npz") as running:
        running.wait_ready().close()
        page = visit(running.url)
        ready(page, "the interval goes from")
        says(page, "#row-title", "Row patient 0: true value")
        says(page, "#neighbors", "Residual")
        says(page, "#words", "The scale was estimated from")
        assert page.locator("#interval line.axis").count() == 1  # the axis itself, no ticks
