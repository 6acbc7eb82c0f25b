"""What is saved and loaded predicts the same, to the bit, whatever its parts; and a file is whole or not there."""

from __future__ import annotations

import itertools
import json
import mmap
import os
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from safetensors.numpy import load_file

import vicinal as vc
from tests.instances import (
    CLASSIFICATION_SCORES,
    LOCALIZERS,
    METHODS,
    REGRESSION_SCORES,
    classification_rows,
    pairwise,
    regression_rows,
)
from vicinal._util.files import replacing
from vicinal.neighbors import reference as search
from vicinal.persistence.parts import PARTS

N = 48
TUNING, LABELS = classification_rows(60, seed=3)
ROWS, TARGETS = classification_rows(N, seed=4)
TEST, _ = classification_rows(11, seed=5)
VALUES, TRUTHS = regression_rows(60, seed=6)
MAPS = [
    None,
    vc.Identity(),
    vc.UnitLength(),
    vc.Rounded(16),
    vc.Standardize().fit(TUNING),
    vc.PrincipalComponents(2).fit(TUNING),
    vc.Chain(vc.Standardize(), vc.UnitLength()).fit(TUNING),
    vc.DifficultyMap(vc.Entropy(), vc.Confidence(), vc.NaiveSetSize(0.8), vc.NeighborError()).fit(TUNING, LABELS),
    vc.Join([vc.UnitLength(), vc.DifficultyMap()], [1.0, 2.0]).fit(TUNING),
    vc.Chain(vc.DifficultyMap(), vc.Rounded(16)).fit(TUNING),
]
PROBABILITIES = [None, vc.TemperatureScaling(1.7), vc.NeighborVotes.fit(TUNING, LABELS)]
SCALED = vc.ScaledResidual(vc.NeighborScales.fit(VALUES["AbsoluteResidual"], TRUTHS))


def same(one, other, test, targets=None):
    """Assert that two predictors are one."""
    for coverage in (one.coverage, 0.6):
        first, second = one.at(coverage).predict(test), other.at(coverage).predict(test)
        names = ("members", "confidences") if isinstance(one, vc.SetPredictor) else ("lower", "upper")
        for name in (*names, "thresholds"):
            assert np.array_equal(getattr(first, name), getattr(second, name))
    assert np.array_equal(one.p_values(test, targets), other.p_values(test, targets))
    assert one.guarantee == other.guarantee
    assert repr(one) == repr(other)
    assert one.coverage == other.coverage
    assert str(one.explain(test, 3)) == str(other.explain(test, 3))


def classification_cases():
    return itertools.product(CLASSIFICATION_SCORES, LOCALIZERS, METHODS, MAPS, PROBABILITIES)


def round_trips(cases, path):
    for number, (score, localizer, method, representation_map, probabilities) in cases:
        predictor = vc.calibrate(
            ROWS,
            TARGETS,
            0.8,
            score=score,
            localizer=localizer if method.local else None,
            method=method,
            representation_map=representation_map,
            probability_model=probabilities,
        )
        predictor.save(path)
        try:
            same(predictor, vc.load(path), TEST)
        except AssertionError as error:
            raise AssertionError(number, score, localizer, method, representation_map, probabilities) from error


def test_round_trips_of_sets(tmp_path):
    lists = CLASSIFICATION_SCORES, LOCALIZERS, METHODS, MAPS, PROBABILITIES
    cases = pairwise(*lists)
    for place, parts in enumerate(lists):
        assert {repr(case[place]) for case in cases} == set(map(repr, parts))
    round_trips(enumerate(cases), tmp_path / "a.vicinal")


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_round_trips_of_every_combination_of_sets(part, tmp_path):
    round_trips(itertools.islice(enumerate(classification_cases()), part, None, 4), tmp_path / "a.vicinal")


@pytest.mark.parametrize("score", [*REGRESSION_SCORES, SCALED], ids=lambda score: repr(score)[:30])
def test_round_trips_of_intervals(score, tmp_path):
    outputs, targets = regression_rows(N, seed=7)
    tests, truths = regression_rows(9, seed=8)
    name = type(score).__name__ if score is not SCALED else "AbsoluteResidual"
    maps = [None, vc.UnitLength(), vc.Standardize().fit(VALUES[name]), vc.DifficultyMap().fit(VALUES[name], TRUTHS)]
    for localizer, method, representation_map in itertools.product(LOCALIZERS, METHODS, maps):
        predictor = vc.calibrate(
            outputs[name],
            targets,
            0.8,
            score=score,
            localizer=localizer if method.local else None,
            method=method,
            representation_map=representation_map,
        )
        predictor.save(tmp_path / "a.vicinal")
        same(predictor, vc.load(tmp_path / "a.vicinal"), tests[name], truths)


@pytest.mark.parametrize("width", [1, 3, 40])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_types_and_widths_of_representations(width, dtype, tmp_path):
    rows, targets = classification_rows(200, seed=1, width=width, dtype=dtype)
    test, _ = classification_rows(70, seed=2, width=width, dtype=dtype)
    predictor = vc.calibrate(rows, targets, 0.9, localizer=vc.Exponential(20, 1.0))
    info = predictor.save(tmp_path / "a.vicinal", model="net")
    loaded = vc.load(tmp_path / "a.vicinal")
    same(predictor, loaded, test)
    assert info.length == (tmp_path / "a.vicinal").stat().st_size
    assert str(info) == str(vc.inspect(tmp_path / "a.vicinal"))
    assert info.model == "net"
    assert info.rows == 200


@pytest.mark.parametrize("method", [vc.Exact(), vc.LeaveOneOut(), vc.PaperLiteral()], ids=repr)
@pytest.mark.parametrize("representation_map", [None, vc.Standardize().fit(TUNING)], ids=["given", "mapped"])
@pytest.mark.parametrize("bits", [16, 32])
def test_rounding_is_part_of_what_is_calibrated(method, representation_map, bits, tmp_path):
    near = vc.Exponential(7, 0.7)
    predictor = vc.calibrate(ROWS, TARGETS, 0.8, localizer=near, method=method, representation_map=representation_map)
    info = predictor.save(tmp_path / "a.vicinal", precision=bits)
    assert info.precision == f"float{bits}"
    parts = [vc.Rounded(bits)] if representation_map is None else [representation_map, vc.Rounded(bits)]
    rounded = vc.Chain(*parts).fit(TUNING)
    direct = vc.calibrate(ROWS, TARGETS, 0.8, localizer=near, method=method, representation_map=rounded)
    same(direct, vc.load(tmp_path / "a.vicinal"), TEST)
    assert vc.load(tmp_path / "a.vicinal").save(tmp_path / "b.vicinal", precision=bits).precision == f"float{bits}"
    same(direct, vc.load(tmp_path / "b.vicinal"), TEST)


def test_rows_that_lose_nothing_are_stored_small_for_any_method(tmp_path):
    method, near = vc.SplitReference(0.4), vc.Uniform(5)
    plain = vc.calibrate(ROWS, TARGETS, 0.8, localizer=near, method=method)
    with pytest.raises(vc.Incompatible, match=r"Calibrate with representation_map=Rounded\(16\)"):
        plain.save(tmp_path / "a.vicinal", precision=16)
    assert not list(tmp_path.iterdir())
    rounded = vc.calibrate(ROWS, TARGETS, 0.8, localizer=near, method=method, representation_map=vc.Rounded(16))
    large, small = (rounded.save(tmp_path / "a.vicinal", precision=bits).length for bits in (None, 16))
    assert small < large
    same(rounded, vc.load(tmp_path / "a.vicinal"), TEST)


@pytest.mark.parametrize("method", METHODS, ids=repr)
@pytest.mark.parametrize("bits", [16, 32])
def test_rows_that_lose_nothing_are_compared_as_before(method, bits, tmp_path):
    whole = replace(ROWS, representations=np.rint(4 * ROWS.representations))
    voting = replace(TUNING, representations=np.rint(4 * TUNING.representations))
    votes = vc.NeighborVotes.fit(voting, LABELS, representation_map=None)
    predictor = vc.calibrate(
        whole,
        TARGETS,
        0.8,
        localizer=vc.Exponential(7, 0.7) if method.local else None,
        method=method,
        probability_model=votes,
    )
    assert predictor.round(bits) is predictor
    predictor.save(tmp_path / "a.vicinal", precision=bits)
    same(predictor, vc.load(tmp_path / "a.vicinal"), TEST)  # whose rows lie between the floats of 16 and 32 bits


def test_a_precision_that_cannot_be(tmp_path):
    predictor = vc.calibrate(ROWS, TARGETS, 0.8, localizer=vc.Uniform(5))
    for wrong in (8, 64, "16", 16.5):
        with pytest.raises(vc.InvalidArgument, match="bits must be 16 or 32"):
            predictor.save(tmp_path / "a.vicinal", precision=wrong)
    far = vc.ModelOutputs.from_logits(ROWS.logits, ROWS.representations * 1e6)
    with pytest.raises(vc.InvalidValue, match="at most 65504"):
        vc.calibrate(far, TARGETS, 0.8, localizer=vc.Uniform(5)).save(tmp_path / "a.vicinal", precision=16)


WRITTEN = [0.9, 0.85, Fraction(5, 7), np.float32(0.7), Decimal("0.80"), Decimal("0.8000000000000000000001")]


@pytest.mark.parametrize("coverage", WRITTEN, ids=str)
def test_any_way_to_write_a_coverage(coverage, tmp_path):
    predictor = vc.calibrate(ROWS, TARGETS, coverage, localizer=vc.Uniform(5))
    predictor.save(tmp_path / "a.vicinal")
    loaded = vc.load(tmp_path / "a.vicinal")
    assert str(loaded.coverage) == str(coverage)
    same(predictor, loaded, TEST)


def test_names_tuning_and_remarks_come_back(tmp_path):
    data = vc.datasets.load_cifar100_resnet18()[:900]
    outputs = replace(data.outputs, class_names=tuple(f'{name} \u00e9\u2603"\\' for name in data.outputs.class_names))
    predictor = vc.calibrate(outputs, data.labels, 0.9)
    assert predictor.tuning is not None
    info = predictor.save(tmp_path / "a.vicinal")
    loaded = vc.load(tmp_path / "a.vicinal")
    same(predictor, loaded, outputs[:20])
    assert loaded.class_names == outputs.class_names == info.class_names
    assert (loaded.remark, loaded.data) == (predictor.remark, predictor.data)
    assert str(loaded.tuning) == str(predictor.tuning)
    assert [one.name for one in loaded.tuning.candidates] == [one.name for one in predictor.tuning.candidates]
    assert repr(loaded.tuning.settings) == repr(predictor.tuning.settings)
    vc.save_tuning(predictor.tuning, tmp_path / "t.vicinal", data="rows")
    again = vc.load_tuning(tmp_path / "t.vicinal")
    assert str(again) == str(predictor.tuning)
    fewer = vc.calibrate(outputs[:400], data.labels[:400], 0.9, localizer=vc.Uniform(9))
    with pytest.raises(vc.UnsupportedArtifact, match="holds a report of tuning"):
        vc.load(tmp_path / "t.vicinal")
    fewer.save(tmp_path / "p.vicinal")
    with pytest.raises(vc.UnsupportedArtifact, match="holds a predictor"):
        vc.load_tuning(tmp_path / "p.vicinal")


def test_reference_rows_given_apart_are_in_the_file(tmp_path):
    near = vc.Uniform(5)
    for rows in ((TUNING, LABELS), [0, 3, 5, 7, 11, 13, 17, 19, 23, 29], np.arange(20)):
        predictor = vc.calibrate(ROWS, TARGETS, 0.8, localizer=near, method=vc.SplitReference(rows=rows))
        predictor.save(tmp_path / "a.vicinal")
        same(predictor, vc.load(tmp_path / "a.vicinal"), TEST)
    apart = vc.calibrate(ROWS, TARGETS, 0.8, localizer=near, method=vc.SplitReference(rows=(TUNING, LABELS)))
    apart.save(tmp_path / "a.vicinal")
    loaded = vc.load(tmp_path / "a.vicinal")
    with pytest.raises(vc.Incompatible, match="does not keep its reference rows"):
        vc.calibrate(ROWS, TARGETS, 0.8, localizer=near, method=loaded.method)


def test_any_reader_of_safetensors_reads_the_arrays(tmp_path):
    predictor = vc.calibrate(ROWS, TARGETS, 0.8, localizer=vc.Uniform(5), probability_model=PROBABILITIES[2])
    info = predictor.save(tmp_path / "a.vicinal")
    arrays = load_file(tmp_path / "a.vicinal")
    assert {name: f"{array.dtype} {array.shape}" for name, array in arrays.items()} == info.arrays
    assert np.array_equal(arrays["calibration.scores"], predictor.calibration.ranked_scores)


def test_large_arrays_stay_in_the_file(tmp_path):
    rows, targets = classification_rows(300, seed=1, width=64, dtype=np.float32)
    vc.calibrate(rows, targets, 0.9, localizer=vc.Uniform(9)).save(tmp_path / "a.vicinal")
    loaded = vc.load(tmp_path / "a.vicinal")
    array = loaded.calibration.reference.rows.rows
    if array.dtype != np.float32:
        pytest.skip("this machine multiplies in float64, and takes a copy")
    while isinstance(array, np.ndarray):
        array = array.base
    assert isinstance(array if isinstance(array, mmap.mmap) else array.obj, mmap.mmap)
    assert loaded.calibration.reference.rows.rows.flags.aligned


def test_a_machine_with_another_arithmetic_calibrates_anew(tmp_path, monkeypatch):
    for method in (vc.Exact(), vc.LeaveOneOut(), vc.PaperLiteral(), vc.SplitReference(0.4)):
        predictor = vc.calibrate(ROWS, TARGETS, 0.8, localizer=vc.Exponential(7, 0.7), method=method)
        predictor.save(tmp_path / "a.vicinal")
        with monkeypatch.context() as patch:
            patch.setattr(search, "_arithmetic", lambda *_: "another")
            loaded = vc.load(tmp_path / "a.vicinal")
            same(predictor, loaded, TEST)
        anew = loaded.calibration.reference.rows.rows.flags.owndata
        assert anew == method.ranks_reference


def test_ids_of_neighbors_come_back(tmp_path):
    texts = np.array([f"patient \u00e9 {number * number}" for number in range(N)])
    for ids in (texts, np.arange(N) * 7 - 20):
        outputs = replace(ROWS, row_ids=ids)
        for method in (vc.Exact(), vc.SplitReference(0.5), vc.Split()):
            near = vc.Uniform(5) if method.local else None
            predictor = vc.calibrate(outputs, TARGETS, 0.8, localizer=near, method=method)
            predictor.save(tmp_path / "a.vicinal")
            loaded = vc.load(tmp_path / "a.vicinal")
            assert np.array_equal(loaded.row_ids, ids)
            assert np.array_equal(loaded.seen, predictor.seen)
    apart = replace(TUNING, row_ids=np.arange(60) + 1000)
    method = vc.SplitReference(rows=(apart, LABELS))
    predictor = vc.calibrate(ROWS, TARGETS, 0.8, localizer=vc.Uniform(5), method=method)
    assert np.array_equal(predictor.row_ids, apart.row_ids)


def test_another_kind_than_expected_is_refused(tmp_path):
    vc.calibrate(ROWS, TARGETS, 0.8, method=vc.Split()).save(tmp_path / "a.vicinal")
    assert isinstance(vc.load(tmp_path / "a.vicinal", vc.SetPredictor), vc.SetPredictor)
    with pytest.raises(vc.Incompatible, match="holds a SetPredictor, not kind=IntervalPredictor"):
        vc.load(tmp_path / "a.vicinal", vc.IntervalPredictor)


def test_a_part_of_ones_own_is_refused(tmp_path):
    class Mine(vc.LAC):
        pass

    predictor = vc.calibrate(ROWS, TARGETS, 0.8, score=Mine(), localizer=vc.Uniform(5))
    with pytest.raises(vc.Incompatible, match="Mine is not registered"):
        predictor.save(tmp_path / "a.vicinal")
    assert not list(tmp_path.iterdir())


def test_every_public_part_can_stand_in_a_file():
    plans = {"Chain", "PrincipalComponents", "Standardize", "Grid", "Bayesian", "Space"}
    roles = (
        vc.LAC.__mro__[1],
        vc.CQR.__mro__[1],
        vc.Ball.__mro__[1],
        vc.Exact.__mro__[1],
        vc.UnitLength.__mro__[1],
        vc.TemperatureScaling.__mro__[1],
        vc.NeighborScales.__mro__[1],
        vc.MeanSize.__mro__[1],
    )
    public = {name for name in vc.__all__ if isinstance(getattr(vc, name), type)}
    parts = {name for name in public if issubclass(getattr(vc, name), roles)} - plans
    assert parts <= set(PARTS)
    assert all(PARTS[name] is getattr(vc, name) for name in parts)


def test_a_file_that_is_read_and_not_mapped_gives_the_same_sets(tmp_path, monkeypatch):
    """As on Windows, where a mapped file cannot be replaced."""
    predictor = vc.calibrate(ROWS, TARGETS, 0.8, localizer=vc.Uniform(5))
    predictor.save(tmp_path / "a")
    monkeypatch.setattr("vicinal.persistence.container.MAPPED", False)
    loaded = vc.load(tmp_path / "a")
    np.testing.assert_array_equal(loaded.predict(ROWS).members, predictor.predict(ROWS).members)
    loaded.save(tmp_path / "a")


@pytest.mark.unix
def test_the_folder_is_made_and_a_link_is_followed(tmp_path):
    predictor = vc.calibrate(ROWS, TARGETS, 0.8, localizer=vc.Uniform(5))
    predictor.save(tmp_path / "new" / "real.vicinal")
    (tmp_path / "link.vicinal").symlink_to(tmp_path / "new" / "real.vicinal")
    os.chmod(tmp_path / "new" / "real.vicinal", 0o640)  # noqa: PTH101
    predictor.at(0.7).save(tmp_path / "link.vicinal")
    assert (tmp_path / "link.vicinal").is_symlink()
    assert vc.load(tmp_path / "new" / "real.vicinal").coverage == 0.7
    assert (tmp_path / "new" / "real.vicinal").stat().st_mode & 0o777 == 0o640
    with pytest.raises(vc.CannotWrite, match="it is a folder"):
        predictor.save(tmp_path)
    with pytest.raises(vc.CannotWrite, match="cannot write"):
        predictor.save("/proc/nowhere/a.vicinal")
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["real.vicinal"]


def test_an_error_while_writing_leaves_the_old_file(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"old")

    def crash():
        with replacing(path) as file:
            file.write(b"half")
            raise RuntimeError("on the way")

    with pytest.raises(RuntimeError, match="on the way"):
        crash()
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]
    (tmp_path / ".a.part").write_bytes(b"left by a crash, and longer than what is written now")
    with replacing(path) as file:
        file.write(b"new")
    assert path.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [path]


def test_two_writers_at_a_time_are_refused(tmp_path):
    with replacing(tmp_path / "a") as file:
        file.write(b"first")
        with pytest.raises(vc.CannotWrite, match="another process is writing it"), replacing(tmp_path / "a"):
            pass
    assert (tmp_path / "a").read_bytes() == b"first"


def test_what_a_file_says_of_itself(tmp_path):
    predictor = vc.calibrate(ROWS, TARGETS, 0.8, localizer=vc.Uniform(5))
    info = predictor.save(tmp_path / "a.vicinal")
    text = (tmp_path / "a.vicinal").read_bytes()
    entries = json.loads(text[8 : 8 + int.from_bytes(text[:8], "little")])
    header = json.loads(entries["__metadata__"]["vicinal"])
    assert header["format"] == 1
    assert header["coverage"] == "0.8"
    assert header["library"] == vc.__version__
    assert header["guarantee"]["words"] == str(predictor.guarantee)
    assert header["data"] == predictor.data == info.data
    assert info.data.startswith("sha256:")
    assert predictor.data == vc.calibrate(ROWS, TARGETS, 0.7, localizer=vc.Uniform(3)).data
    changed = TARGETS.copy()
    changed[0] = (changed[0] + 1) % 5
    assert predictor.data != vc.calibrate(ROWS, changed, 0.7, localizer=vc.Uniform(3)).data


def test_reports_of_tuning_keep_difficulty_maps(tmp_path):
    rows, labels = classification_rows(200, seed=11)
    maps = [None, vc.DifficultyMap(vc.Entropy(), vc.NeighborError()), vc.Join([vc.UnitLength(), vc.DifficultyMap()])]
    space = vc.Space(score=[vc.APS()], probability_model=[None], representation_map=maps, shares=(0.2,))
    report = vc.tune(rows, labels, 0.8, strategy=vc.Grid(space))
    vc.save_tuning(report, tmp_path / "t.vicinal")
    loaded = vc.load_tuning(tmp_path / "t.vicinal")
    assert str(loaded) == str(report)
    assert [one.name for one in loaded.candidates] == [one.name for one in report.candidates]
    assert any("difficulty: entropy, errors of neighbors" in one.name for one in loaded.candidates)
    for one, other in zip(report.candidates, loaded.candidates, strict=True):
        if one.representation_map is not None:
            first, second = (
                vc.calibrate(ROWS, TARGETS, 0.8, **found.settings).map_representations(TEST)[:]
                for found in (one, other)
            )
            assert np.array_equal(first, second)
