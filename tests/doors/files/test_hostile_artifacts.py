"""Damaged and hostile artifacts: one of two errors, at once, in little memory; never a crash or another predictor."""

from __future__ import annotations

import contextlib
import copy
import functools
import hashlib
import json
import operator
import os
import subprocess
import sys
import time
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

import vicinal as vc
from tests.instances import classification_rows, regression_rows
from vicinal._util.stored_arrays import StoredArrays
from vicinal.persistence.container import BEGIN, DIGITS, MOST_HEADER, PLACE

REFUSED = (vc.UnsupportedArtifact, vc.CorruptArtifact)
ROWS, LABELS = classification_rows(60, seed=1)
TEST, _ = classification_rows(5, seed=2)


def saved(folder):
    """Save one predictor of each kind and a report of tuning; return the paths."""
    other, names = classification_rows(80, seed=3)
    votes = vc.NeighborVotes.fit(other, names)
    fitted = vc.Chain(vc.Standardize(), vc.PrincipalComponents(2)).fit(other)
    near = vc.Exponential(7, 0.7)
    sets = vc.calibrate(ROWS, LABELS, 0.8, localizer=near, probability_model=votes, representation_map=fitted)
    tuned = vc.calibrate(*classification_rows(400, seed=4), 0.8)
    outputs, targets = regression_rows(60, seed=5)
    scale = vc.NeighborScales.fit(*(part[:30] for part in (outputs["AbsoluteResidual"], targets)))
    intervals = vc.calibrate(
        outputs["AbsoluteResidual"][30:],
        targets[30:],
        0.8,
        score=vc.ScaledResidual(scale),
        localizer=vc.Ball(1.0),
        method=vc.SplitReference(0.5),
    )
    plain = vc.calibrate(ROWS, LABELS, 0.8, score=vc.NeverEmpty(vc.RAPS(0.1, 1)), method=vc.Split())
    difficulty = vc.DifficultyMap(vc.Entropy(), vc.NeighborError())
    hard = vc.calibrate(
        ROWS,
        LABELS,
        0.8,
        localizer=vc.Uniform(7),
        representation_map=vc.Join([vc.UnitLength(), difficulty]).fit(other, names),
    )
    found = {"sets": sets, "tuned": tuned, "intervals": intervals, "plain": plain, "hard": hard}
    for name, predictor in found.items():
        predictor.save(folder / name)
    vc.save_tuning(tuned.tuning, folder / "tuning")
    return {name: folder / name for name in (*found, "tuning")}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return saved(tmp_path_factory.mktemp("whole"))


def open_rows(path):
    """Load a predictor or a report of tuning, and use it."""
    try:
        predictor = vc.load(path)
    except vc.UnsupportedArtifact as error:
        if "holds a report of tuning" not in str(error):
            raise
        return str(vc.load_tuning(path))
    if isinstance(predictor, vc.SetPredictor):
        if predictor.n_classes != TEST.n_classes:
            return None
        return predictor.predict(TEST).members
    outputs, _ = regression_rows(5, seed=6)
    return predictor.predict(outputs["AbsoluteResidual"]).lower


def refused(path):
    """Assert that a file is refused, in one line and quickly."""
    started = time.perf_counter()
    with pytest.raises(REFUSED) as caught:
        open_rows(path)
    assert time.perf_counter() - started < 2
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 1500


def damaged(raw, rng):
    """Return the bytes with a bit flipped, cut off, filled up, doubled, moved or with another length of header."""
    out = bytearray(raw)
    kind = rng.integers(8)
    place = int(rng.integers(len(raw)))
    if kind <= 2:
        out[place] ^= 1 << rng.integers(8)
    elif kind == 3:
        out = out[:place]
    elif kind == 4:
        out += bytes(rng.integers(256, size=int(rng.integers(1, 200)), dtype=np.uint8))
    elif kind == 5:
        out[:8] = [0, 1, place, 2**31, 2**63, 2**64 - 1][rng.integers(6)].to_bytes(8, "little")
    elif kind == 6:
        stop = place + int(rng.integers(1, 100))
        out[place:stop] = rng.integers(256, size=len(out[place:stop]), dtype=np.uint8).tobytes()
    else:
        other = int(rng.integers(len(raw)))
        out[place : place + 64], out[other : other + 64] = out[other : other + 64], out[place : place + 64]
    return bytes(out)


def test_two_thousand_damaged_files_are_refused(files, tmp_path):
    rng = np.random.default_rng(0)
    sources = [path.read_bytes() for path in files.values()]
    for number in range(2000):
        source = sources[number % len(sources)]
        changed = damaged(source, rng)
        if changed == source:
            continue
        (tmp_path / "a").write_bytes(changed)
        refused(tmp_path / "a")


def test_every_bit_counts(files, tmp_path):
    raw = files["plain"].read_bytes()
    for place in range(0, len(raw), 7):
        changed = bytearray(raw)
        changed[place] ^= 1 << (place % 8)
        (tmp_path / "a").write_bytes(bytes(changed))
        refused(tmp_path / "a")


def read(path):
    """Return the entries of safetensors, our own header, and the bytes of the arrays."""
    raw = path.read_bytes()
    size = int.from_bytes(raw[:8], "little")
    entries = json.loads(raw[8 : 8 + size])
    return entries, json.loads(entries["__metadata__"]["vicinal"]), raw[8 + size :]


def signed(entries, header, data, path, text=None):
    """Write a file whose checksum is right, whatever it holds."""
    metadata = {"sha256": "0" * DIGITS, "vicinal": header if isinstance(header, str) else json.dumps(header)}
    rest = {name: entry for name, entry in entries.items() if name != "__metadata__"}
    body = json.dumps({"__metadata__": metadata, **rest}, separators=(",", ":")).encode() if text is None else text
    whole = bytearray(len(body).to_bytes(8, "little") + body + data)
    whole[PLACE : PLACE + DIGITS] = b"0" * DIGITS
    whole[PLACE : PLACE + DIGITS] = hashlib.sha256(whole).hexdigest().encode()
    path.write_bytes(bytes(whole))


HOSTILE = [
    "",
    "LAC",
    "../../etc/passwd",
    "os.system",
    "__class__",
    "Reference",
    "\x00",
    "a" * 5000,
    "{}",
    "builtins.eval",
]
NUMBERS = [0, -1, 1, 2**31, 2**63, 10**30, 1e308, -1e308, 0.5, 1e-300]
OTHERS = [
    *HOSTILE,
    *NUMBERS,
    None,
    True,
    False,
    [],
    {},
    [[]],
    {"part": 0},
    {"part": 10**9},
    {"array": "x"},
    {"list": [1]},
]


def places(value, path=()):
    """Yield the path to everything inside JSON."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from places(inner, (*path, key))


def put(value, path, new):
    """Change what stands at a path."""
    for key in path[:-1]:
        value = value[key]
    value[path[-1]] = new


def signed_changes(source, rng):
    """Return entries and header with something else in some place, or without it, or with arrays exchanged."""
    entries, header, data = copy.deepcopy(source)
    kind = rng.integers(5)
    names = [name for name in entries if name != "__metadata__"]
    if kind <= 1:
        found = [path for path in places(header) if path]
        put(header, found[rng.integers(len(found))], OTHERS[rng.integers(len(OTHERS))])
    elif kind == 2:
        found = [path for path in places(header) if path]
        path = found[rng.integers(len(found))]
        inner = header
        for key in path[:-1]:
            inner = inner[key]
        del inner[path[-1]]
    elif kind == 3:
        one, other = (names[rng.integers(len(names))] for _ in range(2))
        entries[one], entries[other] = entries[other], entries[one]
    else:
        entry = entries[names[rng.integers(len(names))]]
        key = ("dtype", "shape", "data_offsets")[rng.integers(3)]
        entry[key] = [["F64", "I64", "F16", "BOOL", "U8", "C128", None][rng.integers(7)], [2**62, 2**62], [0, 2**70]][
            rng.integers(3)
        ]
    return entries, header, data


@pytest.mark.parametrize("count", [200, pytest.param(2000, marks=pytest.mark.slow)])
def test_hostile_files_with_a_right_checksum_do_no_harm(files, tmp_path, count):
    rng = np.random.default_rng(1)
    sources = [read(path) for path in files.values()]
    harmless, said = 0, []
    for number in range(count):
        changed = signed_changes(sources[number % len(sources)], rng)
        signed(*changed, tmp_path / "a")
        started = time.process_time()
        try:
            open_rows(tmp_path / "a")
            harmless += 1  # another model's name, a smaller rank penalty: a predictor, if another
        except (vc.ShapeMismatch, vc.Incompatible):
            harmless += 1  # another map or other votes: it refuses rows that do not fit
        except REFUSED as error:
            said.append(str(error))
        assert time.process_time() - started < 2
    assert harmless < count / 2
    assert not any("\n" in words for words in said)


def test_the_same_file_signed_again_is_read(files, tmp_path):
    for path in files.values():
        signed(*read(path), tmp_path / "a")
        assert np.array_equal(open_rows(tmp_path / "a"), open_rows(path))


def test_unknown_names_and_formats_are_said_to_be_unsupported(files, tmp_path):
    entries, header, data = read(files["plain"])
    for change, words in (
        ({"format": 2}, "format 2"),
        ({"format": "1"}, "format 1 "),
        ({"kind": "magic"}, "it holds 'magic'"),
        ({"parts": [{"name": "os.system", "fields": {}}, *header["parts"]]}, "os.system"),
    ):
        signed(entries, {**header, **change}, data, tmp_path / "a")
        with pytest.raises(vc.UnsupportedArtifact, match=words):
            vc.load(tmp_path / "a")


@pytest.mark.parametrize(
    "raw",
    [b"", b"x", b"\x80\x04N.", b"PK\x03\x04" + b"0" * 100, b"\x89PNG" * 30, (8).to_bytes(8, "little") + b'{"a":{}}'],
    ids=["empty", "short", "pickle", "zip", "picture", "safetensors"],
)
def test_files_of_others_are_said_to_be_unsupported(raw, tmp_path):
    (tmp_path / "a").write_bytes(raw)
    with pytest.raises(vc.UnsupportedArtifact, match="is not a file that vicinal saved"):
        vc.load(tmp_path / "a")


def test_a_promise_that_the_rows_do_not_make_is_damage(files, tmp_path):
    entries, header, data = read(files["plain"])
    for change in ({"coverage": "0.9"}, {"guarantee": {**header["guarantee"], "probability": 1.0}}):
        signed(entries, {**header, **change}, data, tmp_path / "a")
        with pytest.raises(vc.CorruptArtifact, match="its saved guarantee is not the one"):
            vc.load(tmp_path / "a")


BOMBS = {
    "huge header": b'{"a":' + b" " * (MOST_HEADER + 10),
    "deep": BEGIN + b"0" * DIGITS + b'","vicinal":"{}"},"a":' + b"[" * 2_000_000,
    "many": BEGIN + b"0" * DIGITS + b'","vicinal":"{}"},"a":[' + b"{}," * 1_300_000 + b"0]}",
    "long number": BEGIN + b"0" * DIGITS + b'","vicinal":"{}"},"a":' + b"9" * 3_000_000 + b"}",
    "twice": BEGIN + b"0" * DIGITS + b'","vicinal":"{}"},"a":1,"a":2}',
    "nan": BEGIN + b"0" * DIGITS + b'","vicinal":"{}"},"a":NaN}',
    "not utf-8": BEGIN + b"0" * DIGITS + b'","vicinal":"\xff\xfe"}}',
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_headers_that_would_explode(bomb, tmp_path):
    signed({}, "", b"", tmp_path / "a", text=BOMBS[bomb])
    refused(tmp_path / "a")
    inner = {"deep": "[" * 1_000_000, "many": "[" + "{}," * 600_000 + "0]", "nan": "NaN", "list": "[]", "text": '"x"'}
    for text in inner.values():
        signed({}, text, b"", tmp_path / "a")
        refused(tmp_path / "a")


def test_a_coverage_that_would_take_forever_to_read(files, tmp_path):
    entries, header, data = read(files["plain"])
    for text in ("1e-999999999", "9" * 100_000 + "/1", "nan", "inf", "-0.5", "2", "0.9\n", "", "1/0", "0/5"):
        signed(entries, {**header, "coverage": text}, data, tmp_path / "a")
        refused(tmp_path / "a")


def test_memory_stays_near_the_size_of_the_file(files, tmp_path):
    """Peak memory of loading hostile files, in a process of its own."""
    rng = np.random.default_rng(2)
    sources = [read(path) for path in files.values()]
    for number in range(60):
        signed(*signed_changes(sources[number % len(sources)], rng), tmp_path / f"{number}.a")
    for name, text in BOMBS.items():
        signed({}, "", b"", tmp_path / f"{name}.a", text=text)
    program = (
        "import sys, resource, vicinal as vc\n"
        "from pathlib import Path\n"
        "vc.load(sys.argv[1])\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "largest = 0\n"
        "for path in Path(sys.argv[2]).glob('*.a'):\n"
        "    largest = max(largest, path.stat().st_size)\n"
        "    try:\n"
        "        vc.load(path)\n"
        "    except (vc.UnsupportedArtifact, vc.CorruptArtifact):\n"
        "        pass\n"
        "print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 - largest)\n"
    )
    arguments = [sys.executable, "-c", program, str(files["sets"]), str(tmp_path)]
    found = subprocess.run(arguments, capture_output=True, text=True, check=True)
    assert int(found.stdout) < 200e6


def test_missing_files_folders_and_forbidden_ones_are_one_line(tmp_path):
    with pytest.raises(vc.MissingFile, match="there is no such file"):
        vc.load(tmp_path / "none")
    with pytest.raises(FileNotFoundError):
        vc.load(tmp_path / "none")
    with pytest.raises(vc.UnsupportedArtifact, match="is a directory"):
        vc.load(tmp_path)


def with_parts(header, parts, roles):
    return {**header, "parts": parts, "roles": {**header["roles"], **roles}}


def test_a_short_file_cannot_ask_for_endless_work(files, tmp_path):
    entries, header, data = read(files["plain"])
    first = len(header["parts"])
    doubled = [{"name": "Identity", "fields": {}}]
    for place in range(40):
        inner = {"part": first + place}
        doubled.append({"name": "Chained", "fields": {"parts": {"list": [inner, inner]}}})
    changed = with_parts(header, header["parts"] + doubled, {"representation_map": first + len(doubled) - 1})
    signed(entries, changed, data, tmp_path / "a")
    refused(tmp_path / "a")
    signed(entries, with_parts(header, [*header["parts"], *doubled[:1] * 30_000], {}), data, tmp_path / "a")
    started = time.perf_counter()
    open_rows(tmp_path / "a")
    assert time.perf_counter() - started < 2
    name = next(name for name in entries if name != "__metadata__")
    for shape in ([int("9" * 4000)] * 900, [99999999999999] * 200_000, [-1], [1.5], ["x"], [True]):
        signed({**entries, name: {**entries[name], "shape": shape}}, header, data, tmp_path / "a")
        refused(tmp_path / "a")


def find_part(parts, name):
    """Return the place of a part."""
    return next(place for place, part in enumerate(parts) if part["name"] == name)


RANKS = {
    "not ascending": lambda numbers: numbers[::-1],
    "equal": lambda numbers: np.full_like(numbers, numbers[0]),
    "nan": lambda numbers: np.where(np.arange(len(numbers)) == 3, np.nan, numbers),
    "infinite": lambda numbers: np.where(np.arange(len(numbers)) == len(numbers) - 1, np.inf, numbers),
}


@pytest.mark.parametrize("name", ["values", "ranks"])
@pytest.mark.parametrize("change", RANKS)
def test_ranks_that_cannot_be_are_damage(files, tmp_path, name, change):
    entries, header, data = read(files["hard"])
    fields = header["parts"][find_part(header["parts"], "DifficultyRanks")]["fields"]
    start, stop = entries[fields[name]["list"][1]["array"]]["data_offsets"]
    changed = RANKS[change](np.frombuffer(data[start:stop], "<f8").copy())
    signed(entries, header, data[:start] + changed.tobytes() + data[stop:], tmp_path / "a")
    with pytest.raises(vc.CorruptArtifact, match="DifficultyRanks has invalid values"):
        vc.load(tmp_path / "a")


@pytest.mark.parametrize("name", ["coordinates", "values", "ranks"])
@pytest.mark.parametrize("keep", [0, 1], ids=["none", "one"])
def test_a_difficulty_map_of_unequal_lengths_is_damage(files, tmp_path, name, keep):
    entries, header, data = copy.deepcopy(read(files["hard"]))
    fields = header["parts"][find_part(header["parts"], "DifficultyRanks")]["fields"]
    fields[name]["list"] = fields[name]["list"][:keep]
    signed(entries, header, data, tmp_path / "a")
    with pytest.raises(vc.CorruptArtifact):
        vc.load(tmp_path / "a")


NESTED = {
    "joined in joined": ("JoinedMaps", lambda one: {"maps": {"list": [one, one]}, "scales": {"list": [1.0, 1.0]}}),
    "chained": ("Chained", lambda one: {"parts": {"list": [one]}}),
}


@pytest.mark.parametrize("outer", NESTED)
def test_joined_maps_cannot_be_nested(files, tmp_path, outer):
    """Forty maps, each of them the one before it twice, would take endless time."""
    entries, header, data = copy.deepcopy(read(files["hard"]))
    parts, (name, fields) = header["parts"], NESTED[outer]
    place = find_part(parts, "JoinedMaps")
    for _ in range(40):
        parts.append({"name": name, "fields": fields({"part": place})})
        place = len(parts) - 1
        parts.append({"name": "JoinedMaps", "fields": NESTED["joined in joined"][1]({"part": place})})
        place = len(parts) - 1
    signed(entries, with_parts(header, parts, {"representation_map": place}), data, tmp_path / "a")
    refused(tmp_path / "a")


@pytest.mark.parametrize("scales", [[0.0, 1.0], [-1.0, 1.0], [1.0], [1.0, "x"], []], ids=repr)
def test_scales_that_cannot_be_are_damage(files, tmp_path, scales):
    entries, header, data = copy.deepcopy(read(files["hard"]))
    header["parts"][find_part(header["parts"], "JoinedMaps")]["fields"]["scales"] = {"list": scales}
    signed(entries, header, data, tmp_path / "a")
    with pytest.raises(vc.CorruptArtifact):
        vc.load(tmp_path / "a")


@pytest.mark.parametrize("number", [2**63, 10**30, 10**400], ids=["2**63", "10**30", "10**400"])
def test_whole_numbers_where_floats_stand_are_floats(files, number, tmp_path):
    """Of any length: nothing is handed on that a kernel could not take. Each field of each kind of part once."""
    changed = set()
    for path in files.values():
        source = read(path)
        for place in [one for one in places(source[1]["parts"]) if one]:
            held = functools.reduce(operator.getitem, place, source[1]["parts"])
            field = source[1]["parts"][place[0]]["name"], *place[1:]
            if isinstance(held, float) and field not in changed:
                entries, header, data = copy.deepcopy(source)
                put(header["parts"], place, number)
                signed(entries, header, data, tmp_path / "a")
                with contextlib.suppress(*REFUSED):
                    open_rows(tmp_path / "a")
                changed.add(field)
    assert len(changed) >= 3


NEVER = {
    **dict.fromkeys(("near_below", "shell_above"), (np.nan, -1.0, np.inf)),
    **dict.fromkeys(("reach2", "nearest"), (np.nan, -1.0)),
    **dict.fromkeys(("scores", "rows"), (np.nan, np.inf)),
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in NEVER.items() for value in values])
def test_numbers_that_cannot_be_are_damage(name, value, tmp_path):
    predictor = vc.calibrate(ROWS, LABELS, 0.8, localizer=vc.Uniform(7))
    kept = dict(predictor.calibration.to_arrays().arrays)
    kept[name] = kept[name].copy()
    kept[name].reshape(-1)[3] = value
    with pytest.raises((vc.CorruptArtifact, vc.InvalidValue)):  # load says of both that the file is damaged
        vc.Exact().restore(StoredArrays(kept), predictor.localizer, vc.ExactSearch())


def test_arrays_that_nobody_asked_for_are_damage(files, tmp_path):
    entries, header, data = read(files["plain"])
    more = {**header, "arrays": {**header["arrays"], "extra": header["arrays"]["scores"]}}
    signed(entries, more, data, tmp_path / "a")
    with pytest.raises(vc.CorruptArtifact, match="are not those of"):
        vc.load(tmp_path / "a")


def test_what_a_terminal_would_obey_is_not_printed(tmp_path):
    predictor = vc.calibrate(ROWS, LABELS, 0.8, localizer=vc.Uniform(7))
    info = predictor.save(tmp_path / "a", model="\x1b]0;title\x07\nnet")
    assert info.model == "\x1b]0;title\x07\nnet"
    assert "model               ?]0;title??net" in str(vc.inspect(tmp_path / "a"))


@pytest.mark.unix
def test_a_pipe_is_refused_and_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    refused(tmp_path / "pipe")
    with pytest.raises(vc.CannotWrite, match="not a regular file"):
        vc.calibrate(ROWS, LABELS, 0.8, method=vc.Split()).save(tmp_path / "pipe")
    assert (tmp_path / "pipe").is_fifo()


@pytest.mark.unix
def test_a_link_beside_the_file_is_not_followed(tmp_path):
    (tmp_path / "victim").write_text("precious")
    (tmp_path / ".a.part").symlink_to(tmp_path / "victim")
    vc.calibrate(ROWS, LABELS, 0.8, method=vc.Split()).save(tmp_path / "a")
    assert (tmp_path / "victim").read_text() == "precious"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "victim"]
    vc.load(tmp_path / "a")


def test_a_coverage_too_long_to_be_read_is_not_saved(tmp_path):
    for coverage in (Decimal("0.9" + "1" * 50), Fraction(10**45 - 10**44, 10**45 + 1)):
        predictor = vc.calibrate(ROWS, LABELS, coverage, method=vc.Split())
        with pytest.raises(vc.InvalidArgument, match="at most 40 digits"):
            predictor.save(tmp_path / "a")
