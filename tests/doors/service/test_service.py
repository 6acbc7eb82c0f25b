"""The service: the predictor's answers, alone, together and at once; limits, truths, and what it says of itself."""

from __future__ import annotations

import asyncio
import io
import json
import pickle
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from fractions import Fraction
from importlib.resources import files

import numpy as np
import pytest

import vicinal as vc
from tests.doors.cli.test_cli import refused
from tests.doors.service.running import Running

pytest.importorskip("fastapi", reason="the service needs vicinal[serve]")
httpx = pytest.importorskip("httpx", reason="it asks the application without a port")

from vicinal.persistence.load import open_predictor  # noqa: E402
from vicinal.service import schemas  # noqa: E402
from vicinal.service.app import create_app  # noqa: E402
from vicinal.service.bodies import LARGE, TABLES, parse_json, parse_request  # noqa: E402
from vicinal.service.examples import Examples, from_file, load_bundled  # noqa: E402
from vicinal.service.explaining import explain_row  # noqa: E402
from vicinal.service.samples import input_width, sample  # noqa: E402
from vicinal.service.service import Service  # noqa: E402
from vicinal.service.settings import Settings  # noqa: E402
from vicinal.tables.opening import OPENERS  # noqa: E402

COVERAGE = 0.9
NOTHING = Examples(None, None, "")


@pytest.fixture(scope="module")
def rows():
    return vc.datasets.load_cifar100_resnet18()


def made_regression(n=300):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, 4))
    y = x.sum(axis=1) + rng.normal(size=n)
    return x, y


@pytest.fixture(scope="module")
def models(rows, tmp_path_factory):
    """Saved predictors of several kinds, with rows that are new to each and their truth."""
    folder = tmp_path_factory.mktemp("models")
    known, new = rows[slice(0, 600)], rows[slice(600, 900)]
    near = vc.Exponential(n_neighbors=50, bandwidth=2.0)
    score = vc.NeverEmpty(vc.RAPS(rank_penalty=0.01, free_ranks=5))
    sets = vc.calibrate(known.outputs, known.labels, COVERAGE, score=score, localizer=near)
    spare = rows[slice(3000, 4000)]
    votes = vc.NeighborVotes.fit(spare.outputs, spare.labels)
    voted = vc.calibrate(known.outputs, known.labels, COVERAGE, probability_model=votes, method=vc.Split())
    x, y = made_regression()
    outputs = vc.ModelOutputs.from_predictions(x.sum(axis=1), x)
    intervals = vc.calibrate(outputs[:200], y[:200], 0.8, localizer=vc.Uniform(30))
    quantiles = vc.ModelOutputs.from_quantiles(x.sum(axis=1) - 1, x.sum(axis=1) + 1)
    cqr = vc.calibrate(quantiles[:200], y[:200], 0.8, method=vc.Split())
    bare = replace(new.outputs, representations=None)
    harder = vc.DifficultyMap(vc.Entropy(), vc.Confidence()).fit(spare.outputs)
    hard = vc.calibrate(known.outputs, known.labels, COVERAGE, localizer=near, representation_map=harder)
    found = {
        "hard": (hard, bare, new.labels),
        "sets": (sets, new.outputs, new.labels),
        "votes": (voted, new.outputs, new.labels),
        "intervals": (intervals, outputs[200:], y[200:]),
        "quantiles": (cqr, quantiles[200:], y[200:]),
    }
    for name, (predictor, _, _) in found.items():
        predictor.save(folder / f"{name}.vicinal")
    return {name: (folder / f"{name}.vicinal", *rest[1:]) for name, rest in found.items()}


KINDS = ("sets", "votes", "intervals", "quantiles", "hard")


def service_of(path, examples=NOTHING, **settings):
    info, predictor = open_predictor(path)
    return Service(predictor, info, Settings(**settings), examples)


def run(work):
    """Run a coroutine on a thread of its own: a browser of other tests may have a loop on this one."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, work).result()


class Local:
    """A service asked without a port."""

    def __init__(self, service):
        self.service, self.app = service, create_app(service)

    def __call__(self, method, path, **given):
        async def go():
            transport = httpx.ASGITransport(self.app, raise_app_exceptions=True)
            async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
                return await client.request(method, path, **given)

        return run(go())

    def many(self, requests):
        """Ask all at once."""

        async def go():
            transport = httpx.ASGITransport(self.app)
            async with httpx.AsyncClient(transport=transport, base_url="http://localhost", timeout=60) as client:
                return await asyncio.gather(*(client.post("/predict", **one) for one in requests))

        return run(go())


def as_json(outputs):
    names = ("logits", "probabilities", "predictions", "lower", "upper", "representations", "scales", "row_ids")
    columns = {name: getattr(outputs, name, None) for name in names}
    return {name: column.tolist() for name, column in columns.items() if column is not None}


def as_npz(outputs):
    file = io.BytesIO()
    np.savez(file, **{name: np.asarray(column) for name, column in as_arrays(outputs).items()})
    return file.getvalue()


def as_arrays(outputs):
    return {name: getattr(outputs, name) for name in as_json(outputs)}


def as_arrow(outputs):
    pa = pytest.importorskip("pyarrow")
    columns = {}
    for name, column in as_arrays(outputs).items():
        flat = column.ndim == 1
        columns[name] = pa.array(column) if flat else pa.FixedSizeListArray.from_arrays(column.ravel(), column.shape[1])
    table = pa.table(columns)
    file = io.BytesIO()
    with pa.ipc.new_stream(file, table.schema) as writer:
        writer.write_table(table)
    return file.getvalue()


BODIES = {
    "application/json": lambda outputs: json.dumps(as_json(outputs)).encode(),
    "application/x-npz": as_npz,
    "application/vnd.apache.arrow.stream": as_arrow,
}


def number(value):
    return float(value) if isinstance(value, str) else value


def check_same(answers, regions):
    """The JSON of a reply says just what a predictor does."""
    assert [number(one["threshold"]) for one in answers] == regions.thresholds.tolist()
    if isinstance(regions, vc.PredictionSets):
        assert [one["set"] for one in answers] == regions.labels()
        assert [one["size"] for one in answers] == regions.sizes.tolist()
        assert [one["confidence"] for one in answers] == regions.confidences.tolist()
    else:
        for name in ("lower", "upper"):
            assert [number(one[name]) for one in answers] == getattr(regions, name).tolist()


def test_the_sample_has_the_width_that_is_read(rows):
    cal, spare = rows[:300], rows[3000:3500]
    votes = vc.NeighborVotes.fit(spare.outputs, spare.labels)
    widths = []
    for plan, model in (
        (vc.DifficultyMap(), None),
        (vc.DifficultyMap(), votes),
        (vc.DifficultyMap(vc.NeighborError()), None),
        (vc.Join([vc.UnitLength(), vc.DifficultyMap()]), None),
        (vc.Chain(vc.DifficultyMap(), vc.Rounded(16)), None),
    ):
        fitted = plan.fit(spare.outputs, spare.labels, model)
        near = {"localizer": vc.Uniform(0.2), "representation_map": fitted, "probability_model": model}
        predictor = vc.calibrate(cal.outputs, cal.labels, 0.9, **near)
        found = sample(predictor)
        widths.append(0 if found.representations is None else found.representations.shape[1])
        assert widths[-1] == input_width(predictor)
    assert widths == [0, 512, 512, 512, 0]
    scaled = vc.ModelOutputs.from_predictions(np.arange(60.0), scales=1.0 + np.arange(60.0))
    values = np.arange(60.0) + np.arange(60) % 7
    fitted = vc.DifficultyMap(vc.Prediction(), vc.Scale()).fit(scaled[:20])
    near = {"localizer": vc.Uniform(5), "representation_map": fitted}
    assert sample(vc.calibrate(scaled[20:], values[20:], 0.8, **near)) is not None


def test_neighbors_that_are_as_hard_are_explained(models):
    path, outputs, _ = models["hard"]
    service = service_of(path)
    assert service.sample.representations is None
    found = explain_row(service.predictor, outputs[3:4], 5)
    common = "rows about as uncertain as this one (entropy of the probabilities) and on which the model is about as"
    assert found["words"].startswith(f"Among the 50 calibration {common}")
    assert found["neighbors_are"].startswith(f"Calibration {common}")
    assert len(found["neighbors"]) == 5
    kinds = schemas.describe_rows(service.predictor, service.sample, named=False)
    assert "representations" not in json.dumps(kinds)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("body", list(BODIES))
def test_answers_are_the_predictor_s_in_every_format(models, kind, body):
    path, outputs, _ = models[kind]
    ask, predictor = Local(service_of(path)), vc.load(path)
    for some in (outputs[:1], outputs[5:8], outputs[:100]):
        sent = {"content": BODIES[body](some), "headers": {"content-type": body}}
        reply = ask("POST", "/predict", **sent)
        assert reply.status_code == 200, reply.text
        found = reply.json()
        check_same(found["answers"], predictor.predict(some))
        assert found["guarantee"]["words"] == str(predictor.guarantee)
        other = ask("POST", "/predict?coverage=0.7", **sent).json()
        assert other["coverage"] == 0.7
        check_same(other["answers"], predictor.at(0.7).predict(some))


def test_answers_at_once_are_those_alone(models):
    path, outputs, _ = models["sets"]
    predictor, ask = vc.load(path), Local(service_of(path, concurrency=1000))
    requests, expected = [], []
    for number_ in range(150):
        some = outputs[number_ : number_ + 1 + number_ % 5]
        given = as_json(some)
        chosen = predictor
        if number_ % 3 == 0:
            given["coverage"], chosen = 0.95, predictor.at(0.95)
        if number_ % 7 == 0:
            given["row_ids"] = [f"{number_}-{place}" for place in range(len(some))]
            some = vc.ModelOutputs.from_logits(some.logits, some.representations, row_ids=given["row_ids"])
        requests.append({"json": given})
        expected.append(chosen.predict(some))
    replies = ask.many(requests)
    assert {reply.status_code for reply in replies} == {200}
    for reply, regions in zip(replies, expected, strict=True):
        check_same(reply.json()["answers"], regions)


def test_one_bad_request_does_not_spoil_those_that_go_along(models):
    path, outputs, _ = models["sets"]
    good = as_json(outputs[:1])
    endless = {**good, "representations": [[1e160] * 128]}  # too long for distances, which shows late
    width = len(good["representations"][0])
    endless["representations"] = [[1e160] * width]
    replies = Local(service_of(path)).many([{"json": good}, {"json": endless}, {"json": good}] * 5)
    statuses = [reply.status_code for reply in replies]
    assert statuses == [200, 422, 200] * 5
    assert "Scale them down" in replies[1].json()["detail"]


def test_files_are_read_on_threads_however_short_they_are(models, monkeypatch):
    path, outputs, _ = models["sets"]
    threads = []

    def parse(*given):
        threads.append(threading.current_thread().name)
        return parse_request(*given)

    monkeypatch.setattr("vicinal.service.app.parse_request", parse)
    ask = Local(service_of(path))
    file = {"content": as_npz(outputs[:2]), "headers": {"Content-Type": "application/x-npz"}}
    assert ask("POST", "/predict", **file).status_code == 200
    assert ask("POST", "/predict", json=as_json(outputs[:2])).status_code == 200
    on_a_thread, on_the_loop = threads
    assert on_a_thread.startswith("many")
    assert not on_the_loop.startswith("many")


def test_long_feedback_is_parsed_on_a_thread(models, monkeypatch):
    path, outputs, labels = models["sets"]
    threads = []

    def parse(*given):
        threads.append(threading.current_thread().name)
        return parse_json(*given)

    monkeypatch.setattr("vicinal.service.service.parse_json", parse)
    ask = Local(service_of(path))
    answer = ask("POST", "/predict", json=as_json(outputs[:1])).json()["answers"][0]
    told = json.dumps({"row_ids": [answer["row_id"]], "labels": [int(labels[0])]}).encode()
    how = {"headers": {"Content-Type": "application/json"}}
    assert ask("POST", "/feedback", content=told + b" " * LARGE, **how).json()["accepted"] == 1
    assert ask("POST", "/feedback", content=told, **how).status_code == 409
    on_a_thread, on_the_loop = threads
    assert on_a_thread.startswith("many")
    assert not on_the_loop.startswith("many")


def test_refusals_of_files_advise_what_a_request_can_do(models):
    path, _, _ = models["sets"]
    file = {"content": b"a,b\n1,2\n", "headers": {"Content-Type": "text/csv"}}
    said = Local(service_of(path))("POST", "/predict", **file).json()["detail"]
    assert said.startswith("the file must have one of logits")
    assert said.endswith("Rename a column, or send it under that name.")


def test_the_page_takes_files_under_every_name_that_the_command_line_takes():
    for name in ("page.js", "page.html"):
        text = files("vicinal.service").joinpath(name).read_text()
        for suffix in OPENERS:
            assert suffix in text or f"{suffix.removeprefix('.')}: " in text, (name, suffix)


def test_coverages_that_are_equal_as_numbers_may_mean_different_shares(models):
    path, outputs, _ = models["sets"]
    ask, predictor = Local(service_of(path)), vc.load(path)
    sent = {"json": as_json(outputs[:100])}
    binary = Fraction(0.9)  # not 9/10
    for coverage in (binary, 0.9, Fraction(9, 10), binary):
        found = ask("POST", f"/predict?coverage={coverage}", **sent).json()
        check_same(found["answers"], predictor.at(coverage).predict(outputs[:100]))


@pytest.mark.parametrize("kind", ["sets", *(pytest.param(kind, marks=pytest.mark.slow) for kind in KINDS[1:])])
def test_a_client_gets_what_the_predictor_says(models, kind):
    path, outputs, targets = models[kind]
    predictor = vc.load(path)
    with Running(path) as running, running.wait_ready() as client:
        answer = client.predict(outputs)
        regions = predictor.predict(outputs)
        np.testing.assert_array_equal(answer.regions.thresholds, regions.thresholds)
        if isinstance(regions, vc.PredictionSets):
            np.testing.assert_array_equal(answer.sets.members, regions.members)
            assert answer.sets.labels() == regions.labels()
            with pytest.raises(vc.Incompatible, match=r"use \.sets"):
                _ = answer.intervals
        else:
            np.testing.assert_array_equal(answer.intervals.lower, regions.lower)
            np.testing.assert_array_equal(answer.intervals.upper, regions.upper)
        assert client.predict(outputs[:2], 0.7).coverage == 0.7
        told = client.feedback(answer.row_ids[:50], targets[:50])
        monitor = vc.DriftMonitor(predictor)
        assert told.drift == monitor.observe(outputs[:50], targets[:50]) == client.drift()
        why = client.explain(outputs, 3)
        assert number(why["threshold"]) == predictor.explain(outputs, 3).threshold
        with pytest.raises(vc.ServiceRefused, match="is known") as caught:
            client.feedback(answer.row_ids[:1], targets[:1])
        assert caught.value.status == 409
    with pytest.raises(vc.ServiceUnreachable, match="Is vicinal serve running"):
        client.model()


def test_a_client_is_a_value(monkeypatch):
    client = vc.Client("http://127.0.0.1:1", token="a-long-enough-secret")
    again = pickle.loads(pickle.dumps(client))
    assert repr(again) == repr(client) == "Client('http://127.0.0.1:1')"
    monkeypatch.setenv("VICINAL_TOKEN", "not ascii: ä")
    with pytest.raises(vc.InvalidValue, match="visible ASCII"):
        vc.Client()
    for url in ("http://127.0.0.1:99999", "nowhere", "http://"):
        with pytest.raises(vc.InvalidArgument, match="such as http"):
            vc.Client(url)
    with pytest.raises(vc.Incompatible, match="must be ModelOutputs"):
        client.predict(np.zeros((1, 3)))
    with pytest.raises(vc.ServiceUnreachable, match="was not ready within"):
        client.wait(0.1)


def test_threads_share_a_client(models):
    path, outputs, _ = models["sets"]
    expected = vc.load(path).predict(outputs)
    wrong = []
    with Running(path) as running, running.wait_ready() as client:

        def go(first):
            for row in range(first, 200, 8):
                found = client.predict(outputs[row : row + 1]).sets
                if not np.array_equal(found.members[0], expected.members[row]):
                    wrong.append(row)

        threads = [threading.Thread(target=go, args=(first,)) for first in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert wrong == []


def test_truths_move_coverage_and_drift(models):
    path, outputs, labels = models["sets"]
    ask, predictor = Local(service_of(path)), vc.load(path)
    assert ask("GET", "/drift").json()["coverage"] is None
    ids = [f"row {number_}" for number_ in range(len(outputs))]
    with_ids = vc.ModelOutputs.from_logits(outputs.logits, outputs.representations, row_ids=ids)
    answers = ask("POST", "/predict", json=as_json(with_ids)).json()["answers"]
    assert [one["row_id"] for one in answers] == ids
    names = [predictor.class_names[label] for label in labels]
    first = ask("POST", "/feedback", json={"row_ids": ids[:100], "labels": names[:100]}).json()
    covered = predictor.predict(with_ids).covers(labels)
    assert first["accepted"] == 100
    assert first["drift"]["coverage"] == covered[:100].mean()
    mixed = {
        "row_ids": [ids[0], "who", *ids[100:200], ids[100]],
        "labels": labels[[0, 0, *range(100, 200), 100]].tolist(),
    }
    second = ask("POST", "/feedback", json=mixed).json()
    assert second["accepted"] == 100
    assert second["unknown"] == ["who"]
    assert second["repeated"] == [ids[0], ids[100]]
    again = ask("POST", "/predict", json=as_json(with_ids[:1])).json()["answers"][0]["row_id"]
    assert ask("POST", "/feedback", json={"row_ids": [again], "labels": [0]}).status_code == 409
    assert ask("POST", "/feedback", json={"row_ids": ["who"], "labels": [0]}).status_code == 404
    wrong = {"row_ids": ids[200:], "labels": ((labels[200:] + 1) % 100).tolist()}
    last = ask("POST", "/feedback", json=wrong).json()["drift"]
    assert last["alarm"] > 200
    text = ask("GET", "/metrics").text
    assert "vicinal_drift_alarm 1.0" in text
    assert f"vicinal_feedback_rows {len(outputs)}.0" in text
    assert 'vicinal_requests_total{route="/feedback",status="409"} 1.0' in text
    assert f"vicinal_set_size_count {len(outputs) + 1}.0" in text
    assert len(ask("GET", "/drift").json()["history"]) == 3
    assert "vicinal_info{" in text
    assert 'vicinal_feedback_refused_total{why="repeated"}' in text


def test_what_is_not_to_be_remembered_is_not(models):
    path, outputs, labels = models["sets"]
    service = service_of(path)
    ask = Local(service)
    found = ask("POST", "/predict?remember=false", json={**as_json(outputs[:5]), "labels": labels[:5].tolist()}).json()
    assert [one["row_id"] for one in found["answers"]] == ["0", "1", "2", "3", "4"]
    assert [one["truth"] for one in found["answers"]] == [outputs.class_names[label] for label in labels[:5]]
    assert len(service.ledger) == 0
    one = ask("POST", "/predict?row=3&id=mine", json=as_json(outputs[:5])).json()["answers"]
    check_same(one, vc.load(path).predict(outputs[3:4]))
    assert one[0]["row_id"] == "mine"
    assert ask("POST", "/feedback", json={"row_ids": ["mine"], "labels": [labels[3].item()]}).status_code == 200
    assert ask("POST", "/predict?row=3&id=mine", json=as_json(outputs[:5])).status_code == 200
    assert ask("POST", "/feedback", json={"row_ids": ["mine"], "labels": [0]}).status_code == 409


def test_calibration_rows_are_no_news(models, rows):
    path = models["sets"][0]
    ask = Local(service_of(path))
    known = rows[slice(0, 100)]
    answers = ask("POST", "/predict", json=as_json(known.outputs)).json()["answers"]
    told = {"row_ids": [one["row_id"] for one in answers], "labels": known.labels.tolist()}
    reply = ask("POST", "/feedback", json=told)
    assert (reply.status_code, "was calibrated on" in reply.json()["detail"]) == (422, True)
    assert ask("GET", "/drift").json()["rows"] == 0


def test_only_the_last_answers_are_remembered(models):
    path, outputs, labels = models["sets"]
    ask = Local(service_of(path, remember=20))
    for start in range(0, 60, 15):
        ids = list(range(start, start + 15))
        given = {**as_json(outputs[start : start + 15]), "row_ids": ids}
        assert ask("POST", "/predict", json=given).status_code == 200
    told = ask("POST", "/feedback", json={"row_ids": list(range(60)), "labels": labels[:60].tolist()}).json()
    assert told["accepted"] == 20
    assert told["unknown"] == [str(row) for row in range(40)]


@pytest.mark.parametrize("kind", KINDS)
def test_an_explanation_says_why(models, kind):
    path, outputs, _ = models[kind]
    ask, predictor = Local(service_of(path)), vc.load(path)
    found = ask("POST", "/explain?row=2&coverage=0.7&neighbors=5", json=as_json(outputs[:4])).json()
    expected = predictor.at(0.7).explain(outputs, 2)
    assert number(found["threshold"]) == expected.threshold
    if kind in ("sets", "intervals", "hard"):
        assert found["words"] == str(expected)
        assert [one["row"] for one in found["neighbors"]] == expected.neighbors.rows[:5].tolist()
        assert found["scores_near"][-1][1] == pytest.approx(1)
    else:
        assert found["words"].startswith("Every row has the same threshold")
    regions = predictor.at(0.7).predict(outputs[2:3])
    if isinstance(regions, vc.PredictionSets):
        assert found["set"] == regions.labels()[0]
        p = predictor.p_values(outputs[2:3])[0]
        for one in found["labels"]:
            label = predictor.class_names.index(one["label"])
            assert one["p_value"] == p[label]
            assert one["in_set"] == regions.members[0, label]
    else:
        assert (number(found["lower"]), number(found["upper"])) == (regions.lower[0], regions.upper[0])


REFUSED = {
    "not json": ({"content": b"{", "headers": {"content-type": "application/json"}}, 400, "must be JSON"),
    "a list": ({"json": [1, 2]}, 422, "must be a JSON object; got a list"),
    "nothing": ({"json": {}}, 422, "must have one of logits"),
    "unknown key": ({"json": {"logit": [[1, 2]]}}, 422, "did you mean logits"),
    "no kind": ({"content": b"x"}, 415, "Content-Type must be one of"),
    "text": ({"json": {"logits": [["a"] * 100]}}, 422, "must hold numbers"),
    "true": ({"json": {"logits": [[True] * 100]}}, 422, "got true or false"),
    "ragged": ({"json": {"logits": [[1.0] * 100, [1.0] * 99]}}, 422, "equal length"),
    "narrow": ({"json": {"logits": [[1.0] * 3]}}, 422, "must have 100 numbers in each row"),
    "huge": (
        {"content": b'{"logits": [[1e400' + b", 1" * 99 + b"]]}", "headers": {"content-type": "application/json"}},
        422,
        "finite",
    ),
    "NaN": ({"content": b'{"logits": [[NaN]]}', "headers": {"content-type": "application/json"}}, 400, "must be JSON"),
    "coverage": ({"json": {"logits": [[1.0] * 100], "coverage": 90}}, 422, "0.9, not 90"),
    "twice": (
        {"params": {"coverage": 0.8}, "json": {"logits": [[1.0] * 100], "coverage": 0.9}},
        422,
        "different values",
    ),
    "text coverage": ({"json": {"logits": [[1.0] * 100], "coverage": "0.9"}}, 422, "not a string"),
    "ids": ({"json": {"logits": [[1.0] * 100] * 2, "row_ids": ["a", "a"]}}, 422, "occurs twice"),
    "NUL": ({"json": {"logits": [[1.0] * 100], "row_ids": ["a\0"]}}, 422, "without NUL"),
    "an id for two": ({"params": {"id": "a"}, "json": {"logits": [[1.0] * 100] * 2}}, 422, "id is for a single row"),
    "short": ({"json": {"probabilities": [[0.5, 0.4]]}}, 422, "must have 100 numbers in each row"),
    "option": ({"params": {"covrage": 1}, "json": {"logits": [[1.0] * 100]}}, 422, "unknown option"),
    "not npz": ({"content": b"PK\3\4no", "headers": {"content-type": "application/x-npz"}}, 422, "the file is damaged"),
    "zipped": (
        {"content": b"x", "headers": {"content-type": "application/json", "content-encoding": "gzip"}},
        415,
        "with",
    ),
}


@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.parametrize("content", [b"x", b"PK\3\4no", b"PAR1no", b"ARROW1\0\0no", b'{"logits": 1', b"\xff\xfe"])
def test_a_damaged_file_is_not_called_by_a_temporary_name(models, kind, content):
    reply = Local(service_of(models["sets"][0]))("POST", "/predict", content=content, headers={"content-type": kind})
    assert reply.status_code == 422
    assert "the file" in reply.json()["detail"]
    assert "vicinal-" not in reply.json()["detail"]  # the name of a temporary file


@pytest.mark.parametrize("wrong", [100, -1, 1.5, 1e300, "no such class"])
def test_labels_that_are_no_classes_are_refused_by_their_name(models, wrong):
    path, outputs, _ = models["sets"]
    ask = Local(service_of(path))
    ids = [one["row_id"] for one in ask("POST", "/predict", json=as_json(outputs[:2])).json()["answers"]]
    reply = ask("POST", "/feedback", json={"row_ids": ids, "labels": [wrong, wrong]})
    assert reply.status_code == 422
    assert reply.json()["detail"].startswith(
        "labels must be whole numbers from 0 to 99, or class names of the model; row"
    )


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_says_why(models, name):
    given, status, words = REFUSED[name]
    reply = Local(service_of(models["sets"][0]))("POST", "/predict", **given)
    assert reply.status_code == status, reply.text
    assert words in reply.json()["detail"]
    assert reply.json()["request_id"] == reply.headers["x-request-id"]


def test_sizes_are_limited(models):
    path, outputs, _ = models["sets"]
    ask = Local(service_of(path, max_body="0.2 MB", max_rows=50))
    many = ask("POST", "/predict", content=as_npz(outputs[:51]), headers={"content-type": "application/x-npz"})
    assert many.status_code == 413
    long = ask("POST", "/predict", content=b"x" * 300_000, headers={"content-type": "application/json"})
    assert (long.status_code, "200000 bytes" in long.json()["detail"]) == (413, True)
    packed = io.BytesIO()
    np.savez_compressed(packed, logits=np.zeros((50, 100_000), np.float32))
    bomb = ask("POST", "/predict", content=packed.getvalue(), headers={"content-type": "application/x-npz"})
    assert (bomb.status_code, "uncompressed" in bomb.json()["detail"]) == (413, True)


def test_a_token_is_asked_for(models):
    path, outputs, _ = models["sets"]
    token = "a-long-enough-secret"
    ask = Local(service_of(path, token=token))
    for where in ("/model", "/metrics", "/examples", "/drift"):
        assert ask("GET", where).status_code == 401
        assert ask("GET", where, headers={"authorization": f"Bearer {token}"}).status_code == 200
    assert ask("POST", "/predict", json=as_json(outputs[:1])).status_code == 401
    assert ask("GET", "/model", headers={"authorization": f"Bearer {token}x"}).status_code == 401
    for where in ("/", "/page.js", "/healthz", "/docs", "/openapi.json"):
        assert ask("GET", where).status_code == 200
    assert outputs.class_names[0] not in ask("GET", "/openapi.json").text
    assert outputs.class_names[0] in Local(service_of(path))("GET", "/openapi.json").text
    for wrong in ("short", "a long secret with spaces", "ein langes Passwört", "sixteen or more\n"):
        with pytest.raises(vc.InvalidValue, match="visible ASCII"):
            Settings(token=wrong)
    with Running(path, environment={"VICINAL_TOKEN": token}) as running:
        running.wait_ready().close()
        with pytest.raises(vc.ServiceRefused, match="Bearer TOKEN"), vc.Client(running.url) as stranger:
            stranger.model()
        with vc.Client(running.url, token=token) as client:
            assert client.predict(outputs[:1]).sets.sizes[0] >= 1


def test_other_names_for_this_machine_are_refused(models):
    path = models["sets"][0]
    for host in ("evil.example", "evil.example:8000", "127.0.0.1.evil.example"):
        assert Local(service_of(path))("GET", "/model", headers={"host": host}).status_code == 400
    for host in ("localhost:1", "127.0.0.1", "[::1]:8000", "[::1]", "LOCALHOST"):
        assert Local(service_of(path))("GET", "/model", headers={"host": host}).status_code == 200
    for settings in ({"host": "0.0.0.0"}, {"token": "a-long-enough-secret"}):
        reply = Local(service_of(path, **settings))("GET", "/healthz", headers={"host": "mine.example"})
        assert reply.status_code == 200


def test_too_many_at_a_time_are_told_to_come_back(models):
    path, outputs, _ = models["sets"]
    service = service_of(path, concurrency=3)
    app = Local(service)
    given = {"content": as_npz(outputs), "headers": {"content-type": "application/x-npz"}}
    statuses = [reply.status_code for reply in app.many([given] * 12)]
    assert statuses.count(200) == 3
    assert statuses.count(429) == 9


def test_it_is_ready_when_compiled(models, monkeypatch):
    service = service_of(models["sets"][0])
    ask = Local(service)
    assert ask("GET", "/healthz").status_code == 200
    assert ask("HEAD", "/healthz").status_code == 200
    assert ask("GET", "/readyz").status_code == 503
    service.warm_up()
    assert ask("GET", "/readyz").status_code == 200
    broken = service_of(models["sets"][0])
    monkeypatch.setattr(type(broken.predictor), "predict", None)
    broken.warm_up()
    reply = Local(broken)("GET", "/readyz")
    assert (reply.status_code, reply.text) == (503, "failed to compile; see the log\n")


def test_replies_are_limited(models, monkeypatch):
    path, outputs, _ = models["sets"]
    monkeypatch.setattr("vicinal.service.replies.MOST_LABELS", 50)
    ask = Local(service_of(path))
    sent = {"content": as_npz(outputs), "headers": {"content-type": "application/x-npz"}}
    reply = ask("POST", "/predict", **sent)
    assert (reply.status_code, "Send fewer rows" in reply.json()["detail"]) == (413, True)
    sent["headers"]["accept"] = "application/json;q=0, application/x-npz"
    assert ask("POST", "/predict", **sent).status_code == 200


def test_what_takes_too_long_is_refused(models, monkeypatch):
    path, outputs, _ = models["sets"]
    ask = Local(service_of(path, timeout=0.3))
    slow = type(vc.load(path)).predict
    monkeypatch.setattr(type(vc.load(path)), "predict", lambda *given, **more: (time.sleep(1), slow(*given, **more))[1])
    for where, some in (("/predict", outputs[:40]), ("/explain", outputs[:1])):
        reply = ask("POST", where, json=as_json(some))
        assert (reply.status_code, reply.headers["retry-after"]) == (503, "1")


def test_logits_that_look_like_probabilities_are_noted(models):
    path, outputs, _ = models["sets"]
    ask, given = Local(service_of(path)), as_json(outputs[:1])
    assert "note" not in ask("POST", "/predict", json=given).json()
    uniform = {**given, "logits": [[0.01] * 100]}
    assert "look like probabilities" in ask("POST", "/predict", json=uniform).json()["note"]


def test_empty_answers_say_why(tmp_path):
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 900)
    logits = rng.normal(size=(900, 3)) + 4 * np.eye(3)[labels]
    outputs = vc.ModelOutputs.from_logits(logits)
    predictor = vc.calibrate(outputs[:400], labels[:400], 0.7, score=vc.LAC(), method=vc.Split())
    predictor.save(tmp_path / "sets.vicinal")
    empty = np.flatnonzero(predictor.predict(outputs[400:]).sizes == 0) + 400
    ask = Local(service_of(tmp_path / "sets.vicinal"))
    said = ask("POST", "/predict", json=as_json(outputs[400:])).json()["remark"]
    assert said.startswith(f"{len(empty)} sets are empty: no label scores at or below the threshold.")
    cure = "With a model calibrated with score=NeverEmpty(LAC()) no set is ever empty."
    assert said.endswith(cure)
    one = ask("POST", "/explain", json=as_json(outputs[empty[:1]])).json()
    assert one["remark"].startswith("1 set is empty")
    assert one["remark"].endswith(cure)
    schemas.ExplainedSet.model_validate(one)
    full = np.setdiff1d(np.arange(400, 900), empty)[:2]
    assert "remark" not in ask("POST", "/predict", json=as_json(outputs[full])).json()
    accept = {"accept": "application/x-npz"}
    assert ask("POST", "/predict", json=as_json(outputs[400:]), headers=accept).status_code == 200


@pytest.mark.parametrize("kind", KINDS)
def test_replies_are_what_the_schema_says(models, kind):
    path, outputs, truths = models[kind]
    sets = isinstance(vc.load(path), vc.SetPredictor)
    ask = Local(service_of(path, examples=load_bundled(vc.load(path))))
    truth = {"labels" if sets else "targets": truths[:3].tolist()}
    answered = ask("POST", "/predict", json={**as_json(outputs[:3]), **truth})
    ids = [one["row_id"] for one in answered.json()["answers"]]
    told = ask("POST", "/feedback", json={"row_ids": ids, **truth})
    found = {
        schemas.Sets if sets else schemas.Intervals: answered,
        schemas.ExplainedSet if sets else schemas.ExplainedInterval: ask("POST", "/explain", json=as_json(outputs[:1])),
        schemas.FeedbackReply: told,
        schemas.DriftHistory: ask("GET", "/drift"),
        schemas.Served: ask("GET", "/model"),
        schemas.ExampleRows: ask("GET", "/examples"),
        schemas.Refusal: ask("POST", "/predict", json={}),
    }
    for model, reply in found.items():
        model.model_validate_json(reply.content, strict=True)


@pytest.mark.parametrize("kind", KINDS)
def test_openapi_describes_it_with_an_example_that_works(models, kind):
    ask = Local(service_of(models[kind][0]))
    described = ask("GET", "/openapi.json").json()
    assert {"/predict", "/explain", "/feedback", "/model", "/metrics", "/healthz", "/readyz"} <= set(described["paths"])
    for path in ("/predict", "/explain"):
        content = described["paths"][path]["post"]["requestBody"]["content"]
        example = content["application/json"]["examples"]["one row"]["value"]
        assert ask("POST", path, json=example).status_code == 200
        assert "application/x-npz" in content
        assert "coverage" in {one["name"] for one in described["paths"][path]["post"]["parameters"]}


def test_examples_are_new_to_the_model(models, rows, tmp_path):
    path, outputs, labels = models["sets"]
    found = load_bundled(vc.load(path))
    assert len(found) == 200
    marks = {tuple(row) for row in rows.outputs.logits[:600].tolist()}
    assert not any(tuple(row) in marks for row in found.outputs.logits.tolist())
    ask = Local(service_of(path, examples=found))
    assert len(ask("GET", "/examples").json()["rows"]) == 200
    row = ask("GET", "/examples/7").json()
    assert ask("POST", "/predict", json=row).status_code == 200
    for wrong in ("200", "-1", "x", "9" * 30):
        assert ask("GET", f"/examples/{wrong}").status_code == 404
    np.savez(tmp_path / "rows.npz", logits=outputs.logits, representations=outputs.representations, labels=labels)
    given = from_file(str(tmp_path / "rows.npz"), vc.load(path))
    assert given.truths[3] == outputs.class_names[labels[3]]
    assert len(load_bundled(vc.load(models["intervals"][0]))) == 0
    assert from_file_of_values(models, tmp_path).truths[0] == models["intervals"][2][0]


def from_file_of_values(models, tmp_path):
    path, outputs, values = models["intervals"]
    arrays = {"predictions": outputs.predictions, "representations": outputs.representations, "targets": values}
    np.savez(tmp_path / "values.npz", **arrays)
    return from_file(str(tmp_path / "values.npz"), vc.load(path))


def test_it_stops_after_what_was_accepted(models):
    path, outputs, _ = models["sets"]
    many = vc.ModelOutputs.from_logits(np.tile(outputs.logits, (30, 1)), np.tile(outputs.representations, (30, 1)))
    answers = []
    with Running(path) as running:
        client = running.wait_ready()
        thread = threading.Thread(target=lambda: answers.append(client.predict(many)))
        thread.start()
        while not answers and "vicinal_requests_in_flight 1.0" not in _metrics(running):
            time.sleep(0.001)
        assert running.stop() == 0
        thread.join()
        client.close()
        assert len(answers[0].sets) == 9_000
        assert [event["event"] for event in running.events()][-1] == "stopped"
        seen = next(event for event in running.events() if event.get("path") == "/predict")
        assert (seen["status"], seen["rows"]) == (200, 9_000)


def _metrics(running):
    return httpx.get(f"{running.url}/metrics", timeout=30).text


def test_the_command_refuses_in_one_line(models, tmp_path):
    path = models["sets"][0]
    with socket.create_server(("127.0.0.1", 0)) as taken:
        wrong = {
            "address already in use. Choose another": [path, "--port", taken.getsockname()[1]],
            "there is no such file": [tmp_path / "no.vicinal"],
            "port must be": [path, "--port", 70_000],
            "must be a whole number": [path, "--max-rows", 0],
            "cannot listen": [path, "--host", "no.such.host.invalid"],
        }
        for words, arguments in wrong.items():
            assert words in refused("serve", *arguments)
    assert "it is a folder" in refused("serve", path, "--journal", tmp_path, code=4)


def test_the_limit_of_rows_holds_for_every_format(models):
    path, outputs, _ = models["sets"]
    ask, some = Local(service_of(path, max_rows=5)), outputs[:6]
    lists = as_json(some)
    names = [f"{name}_{at}" for name, column in lists.items() for at in range(len(column[0]))]
    table = [",".join(names), *(",".join(map(repr, [*a, *b])) for a, b in zip(*lists.values(), strict=True))]
    lines = [json.dumps(dict(zip(lists, row, strict=True))) for row in zip(*lists.values(), strict=True)]
    for rows, status in ((5, 200), (6, 413)):
        bodies = {
            "application/json": json.dumps({name: column[:rows] for name, column in lists.items()}).encode(),
            "application/x-npz": as_npz(some[:rows]),
            "text/csv": "\n".join(table[: rows + 1]).encode(),
            "application/x-ndjson": "\n".join(lines[:rows]).encode(),
        }
        for kind, body in bodies.items():
            reply = ask("POST", "/predict", content=body, headers={"content-type": kind})
            assert reply.status_code == status, (kind, reply.text)
            assert status == 200 or "Send them in parts" in reply.json()["detail"]
    empty = b'{"logits": [' + b"[]," * 5000 + b"[]]}\n"
    assert ask("POST", "/predict", content=empty, headers={"content-type": "application/x-ndjson"}).status_code == 413
