"""`kill -9` with requests in flight: answers were right, and the journal tells the state that was acknowledged."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import vicinal as vc
from tests.doors.service.running import Running, saved_model

pytest.importorskip("fastapi", reason="the service needs vicinal[serve]")

KILLS, CLIENTS = 20, 4


@pytest.fixture(scope="module")
def rows():
    return vc.datasets.load_cifar100_resnet18()


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return saved_model(tmp_path_factory.mktemp("model"), known=500)


class Asking(threading.Thread):
    """Asks for rows and tells their truth, again and again, until the service is gone; remembers what it was told."""

    def __init__(self, url, rows, numbers, expected):
        super().__init__()
        self.client, self.rows, self.numbers, self.expected = vc.Client(url), rows, numbers, expected
        self.answered, self.told, self.trying, self.wrong = [], [], [], []
        self.began = threading.Event()

    def run(self):
        try:
            for number in self.numbers:
                row = self.rows.outputs[number : number + 1]
                ids = [f"row {number}"]
                given = vc.ModelOutputs.from_logits(row.logits, row.representations, row_ids=ids)
                found = self.client.predict(given).sets
                if not np.array_equal(found.members[0], self.expected.members[number - 500]):
                    self.wrong.append(number)
                self.answered.append(ids[0])
                self.trying = ids
                self.client.feedback(ids, self.rows.labels[number : number + 1])
                self.told.append(ids[0])
                self.trying = []
                self.began.set()
        except (vc.ServiceUnreachable, vc.ServiceRefused):
            pass
        finally:
            self.began.set()
            self.client.close()


@pytest.mark.slow
def test_killed_twenty_times_it_comes_back_to_what_was_acknowledged(model, rows, tmp_path):
    predictor = vc.load(model)
    ids = [f"row {number}" for number in range(500, 4000)]
    named = vc.ModelOutputs.from_logits(rows.outputs.logits[500:], rows.outputs.representations[500:], row_ids=ids)
    expected = predictor.predict(named)
    journal, rng = tmp_path / "journal", np.random.default_rng(0)
    told, first = 0, 500
    for kill in range(KILLS):
        running = Running(model, "--journal", journal)
        client = running.wait_ready()
        before = client.drift()
        assert before.rows == told  # it comes back the same once more
        asking = [
            Asking(running.url, rows, range(first + place, first + 140, CLIENTS), expected) for place in range(CLIENTS)
        ]
        for one in asking:
            one.start()
        for one in asking:
            one.began.wait(30)
        threading.Event().wait(float(rng.uniform(0, 0.05)))
        running.kill()
        for one in asking:
            one.join()
        client.close()
        running.stop()
        assert [one.wrong for one in asking] == [[]] * CLIENTS
        acknowledged = [row_id for one in asking for row_id in one.told]
        assert acknowledged, kill
        in_flight = sum(len(one.trying) for one in asking)
        with Running(model, "--journal", journal) as again, again.wait_ready() as client:
            drift = client.drift()
            assert before.rows + len(acknowledged) <= drift.rows <= before.rows + len(acknowledged) + in_flight
            labels = [int(rows.labels[int(row_id.split()[1])]) for row_id in acknowledged]
            with pytest.raises(vc.ServiceRefused, match="is known"):  # they count, and count once
                client.feedback(acknowledged, labels)
            waiting = {row_id for one in asking for row_id in one.answered} - set(acknowledged)
            for row_id in sorted(waiting):  # answered, so remembered: the truth may come now
                with_truth = int(rows.labels[int(row_id.split()[1])])
                try:
                    assert client.feedback([row_id], [with_truth]).accepted == 1
                except vc.ServiceRefused as error:
                    assert error.status == 409  # noqa: PT017  it was in flight, and taken in
            told = client.drift().rows
            assert client.drift().alarm is None
        first += 140
