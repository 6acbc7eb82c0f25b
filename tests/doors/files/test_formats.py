"""Every format that was ever written is read, and answers as it did."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import vicinal as vc
from tests.doors.files.formats.write import rows, values
from vicinal.persistence.artifact import FORMAT, READERS

FOLDER = Path(__file__).parent / "formats"
FORMATS = sorted(int(path.name) for path in FOLDER.iterdir() if path.name.isdigit())


def test_there_are_files_of_every_format():
    assert sorted(READERS) == FORMATS
    assert max(FORMATS) == FORMAT


@pytest.mark.parametrize("number", FORMATS)
def test_old_files_answer_as_they_did(number):
    folder = FOLDER / str(number)
    test, inputs = rows(25, 9)[0], values(25, 9)[0]
    with np.load(folder / "answers.npz", allow_pickle=False) as answers:
        assert {path.stem for path in folder.glob("*.vicinal")} == set(answers.files)
        for name in set(answers.files) - {"tuning"}:
            predictor = vc.load(folder / f"{name}.vicinal")
            assert vc.inspect(folder / f"{name}.vicinal").format == number
            if isinstance(predictor, vc.SetPredictor):
                assert np.array_equal(predictor.predict(test).members, answers[name])
                assert predictor.class_names == ("a", "b", "c", "d")
            else:
                found = predictor.predict(inputs)
                assert np.allclose([found.lower, found.upper], answers[name], rtol=1e-9)
        report = vc.load_tuning(folder / "tuning.vicinal")
        assert np.array_equal([[one.size, one.coverage, one.saving] for one in report.candidates], answers["tuning"])
        assert report.winner in report.candidates
