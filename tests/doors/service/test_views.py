"""Several views of each row over HTTP."""

from __future__ import annotations

import json

import numpy as np
import pytest

import vicinal as vc
from tests.instances import view_rows

pytest.importorskip("fastapi", reason="the extra serve is not installed")

from tests.doors.service.test_service import Local, check_same, service_of


@pytest.fixture(scope="module")
def ask(tmp_path_factory):
    path = tmp_path_factory.mktemp("views") / "model.vicinal"
    fitting, outputs = view_rows(300, 1), view_rows(200, 2)
    model = vc.ViewAverage.fit(*fitting)
    predictor = vc.calibrate(*outputs, 0.8, probability_model=model, method=vc.Split())
    predictor.save(path)
    return Local(service_of(path)), predictor


def test_views_are_answered_like_arrays(ask):
    local, predictor = ask
    outputs, _ = view_rows(20, 3)
    reply = local("POST", "/predict", json={"logits": outputs.logits.tolist()})
    assert reply.status_code == 200
    check_same(reply.json()["answers"], predictor.predict(outputs))


def test_a_row_without_its_views_is_refused(ask):
    local, _ = ask
    outputs, _ = view_rows(20, 3)
    reply = local("POST", "/predict", json={"logits": outputs.given.tolist()})
    assert reply.status_code == 422
    assert "4 views of each row" in reply.json()["detail"]


def test_the_description_has_an_example_with_views(ask):
    local, _ = ask
    described = local("GET", "/openapi.json").json()
    content = described["paths"]["/predict"]["post"]["requestBody"]["content"]["application/json"]
    example = content["examples"]["one row"]["value"]
    assert np.shape(example["logits"]) == (1, 4, 5)
    assert local("POST", "/predict", content=json.dumps(example)).status_code in (200, 415)
    views = content["schema"]["anyOf"][0]["properties"]["logits"]["items"]
    assert (views["minItems"], views["maxItems"], views["items"]["minItems"]) == (4, 4, 5)
