"""The report as its user makes it: real predictors in, one file out that a browser opens without a complaint."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

import vicinal as vc
from tests.instances import classification_rows, regression_rows, view_rows
from vicinal.errors import Incompatible, InvalidValue, ShapeMismatch, TooFewRows
from vicinal.reporting import TSNE, charts, gather_report, plots
from vicinal.representations import RowArrays

SMALL = vc.Grid(vc.Space(score=[vc.LAC(), vc.NeverEmpty(vc.APS())], shares=(0.2,), multiples=(0.2,)))


def classified(localizer=None, method=None, **settings):
    outputs, labels = classification_rows(320, seed=1)
    chosen = {"localizer": localizer or vc.Exponential(20, 0.5), "method": method, **settings}
    predictor = vc.calibrate(outputs[:200], labels[:200], 0.8, **chosen)
    return predictor, outputs[200:], labels[200:]


def regressed():
    by_name, targets = regression_rows(320, seed=1)
    outputs = by_name["AbsoluteResidual"]
    return vc.calibrate(outputs[:200], targets[:200], 0.8, localizer=vc.Uniform(30)), outputs[200:], targets[200:]


def test_the_settings_name_the_target_range():
    by_name, targets = regression_rows(320, seed=1)
    outputs, counts = by_name["AbsoluteResidual"], np.abs(targets)
    for possible in (None, (0, None)):
        predictor = vc.calibrate(outputs[:200], counts[:200], 0.8, method=vc.Split(), target_range=possible)
        settings = dict(gather_report(predictor, outputs[200:], counts[200:], rows=5)["headline"]["settings"])
        assert settings.get("Target range") == (None if possible is None else "0 to inf")


def data_in(path):
    return json.loads(re.search(r'id="data">(.*?)</script>', path.read_text(encoding="utf-8"), re.DOTALL)[1])


def test_the_numbers_in_the_report_are_the_predictors(tmp_path):
    predictor, outputs, labels = classified()
    path = vc.report(predictor, outputs, labels, tmp_path / "new" / "r.html", rows=30)
    data = data_in(path)
    sets, found = predictor.predict(outputs), vc.evaluate(predictor.predict(outputs), labels)
    assert data["headline"]["coverage"] == found.coverage
    assert data["headline"]["size"] == found.mean_size
    assert data["headline"]["guarantee"] == str(predictor.guarantee)
    assert sum(data["sizes"]["neighborhood"]) == len(outputs)
    at = data["curve"]["targets"].index(0.8)
    assert data["curve"]["neighborhood"]["coverage"][at] == found.coverage
    assert data["curve"]["neighborhood"]["size"] == [
        float(predictor.at(target).predict(outputs).sizes.mean()) for target in data["curve"]["targets"]
    ]
    assert len(data["explorer"]["rows"]) == 30
    for row in data["explorer"]["rows"]:
        number = row["row"]
        assert row["set_sizes"][at] == sets.sizes[number]
        assert row["truth"] == str(labels[number])
        explained = predictor.explain(outputs, number)
        assert [one["row"] for one in row["neighbors"]] == explained.neighbors.rows[:10].tolist()
        assert [one["weight"] for one in row["neighbors"]] == explained.neighbors.weights[:10].tolist()
        for label in row["labels"]:
            inside = label["p"] > 1 - predictor.guarantee.order / (predictor.guarantee.n + 1) + 1e-9
            assert inside == bool(sets.members[number, int(label["name"])])
    assert len(data["map"]["x"]) == 200
    assert not list(tmp_path.glob("**/.*.part"))


@pytest.mark.parametrize("method", [vc.Split(), vc.SplitReference(), vc.LeaveOneOut(), vc.PaperLiteral()], ids=str)
def test_every_method_can_be_reported(tmp_path, method):
    predictor, outputs, labels = classified(method=method)
    data = data_in(vc.report(predictor, outputs, labels, tmp_path / "r.html", rows=20))
    sets = predictor.predict(outputs)
    n, at = data["explorer"]["n"], data["curve"]["targets"].index(0.8)
    m = int(np.ceil(round(0.8 * (n + 1), 6)))
    for row in data["explorer"]["rows"]:
        assert row["set_sizes"][at] == sets.sizes[row["row"]]
        inside = {int(one["name"]) for one in row["labels"] if one["p"] * (n + 1) > n + 1.5 - m}
        assert inside == set(np.flatnonzero(sets.members[row["row"]]).tolist())
    assert (data["map"] is None) == (not method.local)


def test_a_tuned_predictor_brings_its_frontier_and_its_voters(tmp_path):
    outputs, labels = classification_rows(500, seed=2)
    best = vc.tune(outputs[:200], labels[:200], 0.8, strategy=SMALL)
    votes = next(c for c in best.candidates if c.everyone and isinstance(c.probability_model, vc.NeighborVotes))
    predictor = vc.calibrate(outputs[200:400], labels[200:400], 0.8, **votes.settings)
    data = data_in(vc.report(predictor, outputs[400:], labels[400:], tmp_path / "r.html", tuning=best, rows=20))
    assert len(data["frontier"]["candidates"]) == len(best.candidates)
    assert data["frontier"]["candidates"][data["frontier"]["winner"]]["name"] == best.winner.name
    assert "voting rows" in data["explorer"]["neighbors"]
    for row in data["explorer"]["rows"]:  # numbered among the voting rows, with their labels
        assert [one["label"] for one in row["neighbors"]] == [str(labels[one["row"]]) for one in row["neighbors"]]
        assert sum(one["weight"] for one in row["neighbors"]) <= 1 + 1e-9
    pictures = gather_report(
        predictor, outputs[400:], labels[400:], neighbor_images=np.zeros((200, 4, 4), np.uint8), rows=5
    )
    assert pictures["images"] == {}  # those would be of calibration rows
    assert data["map"] is None
    many, truth = classification_rows(760, seed=2)
    own = vc.calibrate(many[:660], truth[:660], 0.8, score=vc.LAC())
    assert gather_report(own, many[660:], truth[660:], rows=5)["frontier"]["sentence"].startswith(own.tuning.sentence)


def test_images_stand_once_in_the_file(tmp_path):
    predictor, outputs, labels = classified()
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, size=(120, 8, 8, 3), dtype=np.uint8)
    near = rng.random((200, 8, 8))
    data = gather_report(predictor, outputs, labels, images=images, neighbor_images=near, rows=25)
    used = {one["image"] for row in data["explorer"]["rows"] for one in [row, *row["neighbors"]]}
    assert used == set(data["images"])
    assert all(uri.startswith("data:image/png;base64,") for uri in data["images"].values())


@pytest.mark.parametrize("make", [classified, regressed])
def test_a_browser_opens_the_report_without_a_complaint(tmp_path, browser, make):
    predictor, outputs, targets = make()
    path = vc.report(predictor, outputs, targets, tmp_path / "r.html", rows=20)
    assert path.stat().st_size < 15e6
    page, complaints = browser.new_page(), []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda request: complaints.append(request.url) if request.url.startswith("http") else None)
    page.goto(path.as_uri())
    page.wait_for_selector("#explorer #row-title")
    assert page.inner_text("#row-title").startswith("Row ")
    page.focus("#rows")
    before = page.inner_text("#row-title")
    page.keyboard.press("ArrowDown")
    assert page.inner_text("#row-title") != before
    assert complaints == []
    page.close()


@pytest.mark.parametrize("make", [classified, regressed])
def test_the_static_plots_draw_the_same_data(tmp_path, make):
    predictor, outputs, targets = make()
    drawn = plots.static(gather_report(predictor, outputs, targets, rows=5), tmp_path)
    assert len(drawn) >= 5
    for path in drawn:
        assert path.read_bytes().startswith(b"\x89PNG")


def test_rows_are_called_by_their_ids_and_groups_are_shown():
    outputs, labels = classification_rows(320, seed=1)
    names = np.array([f"img-{row}" for row in range(320)])
    called = vc.ModelOutputs.from_logits(outputs.logits, outputs.representations, row_ids=names)
    predictor = vc.calibrate(called[:200], labels[:200], 0.8, localizer=vc.Exponential(20, 0.5))
    towns = np.where(np.arange(120) % 3 == 0, "Oslo", "Rome")
    data = gather_report(predictor, called[200:], labels[200:], groups={"town": towns}, rows=5)
    for row in data["explorer"]["rows"]:
        assert row["name"] == f"img-{200 + row['row']}"
        assert [one["name"] for one in row["neighbors"]] == [f"img-{one['row']}" for one in row["neighbors"]]
    assert [one["name"] for one in data["by_group"]] == ["town = Oslo", "town = Rome"]
    sets = predictor.predict(called[200:])
    assert data["by_group"][0]["coverage"] == sets.covers(labels[200:])[towns == "Oslo"].mean()
    assert data["compared"]


def test_a_report_of_plain_split_has_nothing_to_compare():
    predictor, outputs, labels = classified(method=vc.Split())
    assert not gather_report(predictor, outputs, labels, rows=5)["compared"]
    local = classified()[0]
    assert gather_report(local, outputs, labels, rows=5, baseline=predictor)["compared"]


def hard(plan=None, method=None, **settings):
    """Return a predictor with a difficulty map, with test rows and their labels."""
    outputs, labels = classification_rows(420, seed=1)
    fitted = (plan or vc.DifficultyMap()).fit(outputs[320:], labels[320:])
    chosen = {"localizer": vc.Uniform(0.2), "method": method, "representation_map": fitted, **settings}
    return vc.calibrate(outputs[:200], labels[:200], 0.8, **chosen), outputs[200:320], labels[200:320]


def test_a_difficulty_map_is_drawn_as_thresholds_by_rank(tmp_path):
    predictor, outputs, labels = hard(vc.DifficultyMap(vc.Entropy(), vc.Confidence(), vc.NeighborError()))
    data = data_in(vc.report(predictor, outputs, labels, tmp_path / "r.html", rows=30))
    found, thresholds = data["difficulty"], predictor.predict(outputs).thresholds
    assert data["map"] is None
    assert [one["name"] for one in found["coordinates"]] == ["entropy", "confidence"]
    assert (found["count"], found["rows"], len(found["threshold"])) == (3, 200, 200)
    shown = [row["row"] for row in data["explorer"]["rows"]]
    assert found["test_threshold"] == thresholds[shown].tolist()
    ranks = predictor.map_representations(outputs[shown])[:]
    for number, one in enumerate(found["coordinates"]):
        np.testing.assert_allclose(one["test_x"], 100 * ranks[:, number], atol=1e-3)
        assert one["line"]["x"] == sorted(one["line"]["x"])
        assert set(one["line"]["y"]) <= set(found["threshold"])
    entropies = vc.Entropy().compute(RowArrays(probabilities=predictor.label_scores(outputs[shown])[0]))
    inside = np.array([0 < x < 100 for x in found["coordinates"][0]["test_x"]])
    low, high = (end(predictor.representation_map.values[0]) for end in (np.min, np.max))
    clipped = np.clip(entropies, low, high)
    np.testing.assert_allclose(np.array(found["coordinates"][0]["test_value"])[inside], clipped[inside], atol=1e-9)
    assert data["explorer"]["neighbors"].startswith("Calibration rows about as uncertain as this one (entropy")
    assert (
        dict(data["headline"]["settings"])["Representation"] == "difficulty: entropy, confidence, errors of neighbors"
    )


def test_infinite_thresholds_are_drawn_below_the_others():
    predictor, outputs, labels = hard(
        score=vc.NeverEmpty(vc.LAC()), method=vc.SplitReference(), localizer=vc.Uniform(9)
    )
    found = gather_report(predictor, outputs, labels, rows=50)["difficulty"]
    assert "-inf" in found["threshold"]
    assert found["words"].startswith("reference rows about")
    chart = charts.difficulty_chart(found, 0)
    finite = [level for level in found["threshold"] + found["test_threshold"] if isinstance(level, float)]
    assert chart.ends["−∞"] < min(finite)  # noqa: RUF001  a minus sign
    assert len(chart.calibration[1]) == len(found["threshold"])


def test_a_map_of_the_representation_keeps_its_map_and_a_rounded_difficulty_its_curve():
    joined = hard(vc.Join([vc.UnitLength(), vc.DifficultyMap()]))
    data = gather_report(*joined, rows=5)
    assert data["difficulty"] is None
    assert len(data["map"]["x"]) == 200
    assert "with a similar representation and about as uncertain" in data["explorer"]["neighbors"]
    rounded = gather_report(*hard(vc.Chain(vc.DifficultyMap(), vc.Rounded(16))), rows=5)
    assert rounded["map"] is None
    assert len(rounded["difficulty"]["threshold"]) == 200
    split = gather_report(*hard(method=vc.Split()), rows=5)
    assert split["map"] is split["difficulty"] is None


@pytest.mark.slow
def test_t_sne_is_there_on_request():
    predictor, outputs, labels = classified()
    data = gather_report(predictor, outputs, labels, rows=5, projection=TSNE(perplexity=10))
    assert data["map"]["method"] == "t-SNE"
    assert np.isfinite(data["map"]["x"]).all()


def test_an_old_report_survives_a_failure(tmp_path):
    predictor, outputs, labels = classified()
    path = tmp_path / "r.html"
    path.write_text("old")
    with pytest.raises(ShapeMismatch):
        vc.report(predictor, outputs, labels, path, images=np.zeros((3, 8, 8)))
    assert path.read_text() == "old"
    folder = tmp_path / "folder"
    folder.mkdir()
    with pytest.raises(vc.CannotWrite, match="it is a folder"):
        vc.report(predictor, outputs, labels, folder, rows=2)
    assert [one.name for one in tmp_path.iterdir() if one.name.startswith(".")] == []


BAD = {
    "no predictor": (lambda t, p, o, y: vc.report(o, p, y, t), Incompatible, "in this order"),
    "few rows": (lambda t, p, o, y: vc.report(p, o[:5], y[:5], t), TooFewRows, "at least 20 test rows"),
    "a tuning that is none": (lambda t, p, o, y: vc.report(p, o, y, t, tuning=3), Incompatible, "tuning must be"),
    "a projection by name": (lambda t, p, o, y: vc.report(p, o, y, t, projection="pca"), Incompatible, "PCA()"),
    "images with values past 1": (
        lambda t, p, o, y: vc.report(p, o, y, t, images=np.full((120, 4, 4), 7.0)),
        InvalidValue,
        "bytes",
    ),
    "too few neighbor images": (
        lambda t, p, o, y: vc.report(p, o, y, t, neighbor_images=np.zeros((3, 4, 4))),
        ShapeMismatch,
        "every row that can be a neighbor",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_a_sentence(tmp_path, name):
    call, error, words = BAD[name]
    with pytest.raises(error, match=words):
        call(Path(tmp_path / "r.html"), *classified())


def test_the_report_shows_what_each_view_says():
    outputs, labels = view_rows(300, 1)
    known, rows, truth = (outputs[:150], labels[:150]), outputs[150:], labels[150:]

    def gathered(**parts):
        found = gather_report(vc.calibrate(*known, 0.8, method=vc.Split(), **parts), rows, truth, rows=5)
        return dict(found["headline"]["settings"]), found["explorer"]["rows"]

    model = vc.ViewAverage((0.5, 0.0, 0.2, 0.3), 1.5, vc.MeanProbabilities())
    settings, shown = gathered(probability_model=model)
    assert settings["Weights of the views"] == "view 0: 50%, view 2: 20%, view 3: 30%"
    for one in shown:
        assert [(said["view"], said["weight"]) for said in one["views"]] == [(0, 0.5), (2, 0.2), (3, 0.3)]
        logits = rows.logits[one["row"], 2] / 1.5
        assert one["views"][1]["label"] == str(logits.argmax())
        assert one["views"][1]["probability"] == pytest.approx(np.exp(logits.max()) / np.exp(logits).sum())
    settings, shown = gathered()
    assert "Weights of the views" not in settings
    assert all(one["views"] == [] for one in shown)
    _, shown = gathered(score=vc.OverViews(vc.LAC(), 0.5))
    assert [(said["view"], said["weight"]) for said in shown[0]["views"]] == [(view, None) for view in range(4)]
