"""The studies: how each is divided into pieces, which are kept and combined into tables."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from experiments import paper
from experiments.classification import Cut, bandwidth_ways, difficulty_ways, every_way, tuned_way
from experiments.clusters import silhouette
from experiments.embedding import embed
from experiments.images import cifar_images
from experiments.pieces import Advance, Piece
from experiments.regression import difficulty_interval, every_interval
from experiments.runtime import prediction_seconds
from experiments.sources import Folders, digest, read_outputs, read_runs
from experiments.specs import Network, Plan, TableSpec
from vicinal._util.arrays import Ints, is_number
from vicinal.errors import InvalidFile
from vicinal.outputs import ClassificationOutputs

BANDWIDTH_RUNS = 5
BANDWIDTH_SHARE = 0.1
LOCALIZED = "CIFAR-100"
DRAWN = ("CIFAR-10", "ResNet-50")
EPOCHS = "epochs-cifar100_resnet50.json"
INFERENCE = "inference.json"

REVISIONS = {"sets": 2, "tuned": 1, "bandwidths": 1, "intervals": 2, "silhouettes": 2, "drawings": 1, "times": 2}
"""Raised whenever the work of a study changes: pieces made before are then made anew."""


class Lab:
    """A plan and the folders of its data; the outputs that were read last are kept."""

    def __init__(self, plan: Plan, folders: Folders) -> None:
        self.plan, self.folders = plan, folders
        self._read: tuple[Path, tuple[ClassificationOutputs, Ints]] | None = None
        self._digests: dict[Path, str] = {}

    def pieces(self, study: str) -> Iterator[Piece]:
        """Yield the pieces of a study for which the data is there."""
        for piece in STUDIES[study](self):
            yield replace(piece, settings=f"revision {REVISIONS.get(study, 1)}, {piece.settings}")

    def there(self, dataset: str | None = None) -> Iterator[tuple[Network, Path]]:
        """Yield the networks whose outputs are there, of one data set or of all."""
        for network in self.plan.networks:
            path = self.folders.find(network.file)
            if path is not None and dataset in (None, network.dataset):
                yield network, path

    def outputs(self, network: Network, path: Path) -> tuple[ClassificationOutputs, Ints]:
        """Return outputs and labels of a network."""
        if self._read is None or self._read[0] != path:
            self._read = path, read_outputs(path, network)
        return self._read[1]

    def cut(self, network: Network, path: Path, run: int) -> Cut:
        """Return the rows of one run."""
        return Cut.of(self.outputs(network, path), network.parts, network.coverage, run)

    def marks(self, *paths: Path) -> dict[str, str]:
        """Return the fingerprints of files, by name."""
        for path in paths:
            if path not in self._digests:
                self._digests[path] = digest(path)
        return {path.name: self._digests[path] for path in paths}

    def images(self, network: Network) -> Path | None:
        """Return the folder of a network's images, where it is there."""
        folder = self.folders.data / network.images
        return folder if network.images and folder.is_dir() else None


def _of_network(network: Network) -> str:
    return f"parts {dict(network.parts)}, coverage {network.coverage}"


def _sets(lab: Lab) -> Iterator[Piece]:
    for network, path in lab.there():
        for run in range(network.runs):

            def work(advance: Advance, network: Network = network, path: Path = path, run: int = run) -> Any:
                return every_way(lab.cut(network, path, run), lab.plan.lists, advance)

            settings = f"{_of_network(network)}, {lab.plan.lists}"
            yield Piece("sets", network.key, run, lab.marks(path), settings, work)


def _difficulty(lab: Lab) -> Iterator[Piece]:
    for network, path in lab.there():
        for run in range(network.runs):

            def work(advance: Advance, network: Network = network, path: Path = path, run: int = run) -> Any:
                return difficulty_ways(lab.cut(network, path, run), lab.plan.lists, advance)

            settings = f"{_of_network(network)}, {lab.plan.lists}"
            yield Piece("difficulty", network.key, run, lab.marks(path), settings, work)


def _tune(lab: Lab) -> Iterator[Piece]:
    for network, path in lab.there():
        for run in range(network.tuned_runs):

            def work(advance: Advance, network: Network = network, path: Path = path, run: int = run) -> Any:
                advance("tuning")
                return tuned_way(lab.cut(network, path, run))

            yield Piece("tuned", network.key, run, lab.marks(path), _of_network(network), work)


def _bandwidths(lab: Lab) -> Iterator[Piece]:
    for network, path in lab.there(LOCALIZED):
        for run in range(min(network.runs, BANDWIDTH_RUNS)):

            def work(advance: Advance, network: Network = network, path: Path = path, run: int = run) -> Any:
                advance("bandwidths")
                return bandwidth_ways(lab.cut(network, path, run), lab.plan.widths, BANDWIDTH_SHARE)

            settings = f"{_of_network(network)}, {lab.plan.widths}, {BANDWIDTH_SHARE}"
            yield Piece("bandwidths", network.key, run, lab.marks(path), settings, work)


def _intervals(lab: Lab) -> Iterator[Piece]:
    for table in lab.plan.tables:
        path = lab.folders.find(table.file)
        for run in range(table.runs if path is not None else 0):
            assert path is not None
            settings = f"parts {dict(table.parts)}, coverage {table.coverage}, {lab.plan.lists}"
            work = partial(_interval, lab, table, path, run)
            yield Piece("intervals", table.key, run, lab.marks(path), settings, work)


def _interval(lab: Lab, table: TableSpec, path: Path, run: int, advance: Advance) -> Any:
    advance("intervals")
    reached = paper.interval(table.record.name)["CP coverage"].mean
    data = read_runs(path, run + 1)[run]
    return every_interval(data, table.parts, table.coverage, reached, lab.plan.lists, run)


def _difficulty_intervals(lab: Lab) -> Iterator[Piece]:
    for table in lab.plan.tables:
        path = lab.folders.find(table.file)
        for run in range(table.runs if path is not None else 0):
            assert path is not None
            settings = f"parts {dict(table.parts)}, coverage {table.coverage}"
            work = partial(_difficulty_interval, table, path, run)
            yield Piece("difficulty-intervals", table.key, run, lab.marks(path), settings, work)


def _difficulty_interval(table: TableSpec, path: Path, run: int, advance: Advance) -> Any:
    advance("intervals")
    return difficulty_interval(read_runs(path, run + 1)[run], table.parts, table.coverage, run)


def _silhouettes(lab: Lab) -> Iterator[Piece]:
    for network, path in lab.there():
        folder = lab.images(network)

        def work(advance: Advance, network: Network = network, path: Path = path, folder: Path | None = folder) -> Any:
            outputs, labels = lab.outputs(network, path)
            assert outputs.representations is not None
            advance("representations")
            found = {"rows": len(labels), "representation": silhouette(outputs.representations, labels)}
            assert outputs.logits is not None
            found["accuracy"] = float((outputs.logits.argmax(axis=1) == labels).mean())
            if folder is None:
                return {**found, "raw": None}
            advance("raw pixels")
            images, truth = cifar_images(folder, "test", len(labels))
            check_order(truth, labels, folder, path)
            raw = silhouette(images.reshape(len(images), -1), truth)
            same = silhouette(outputs.representations[: len(images)], truth) if len(images) < len(labels) else None
            return {**found, "raw": raw, "raw_rows": len(images), "representation_of_raw_rows": same}

        marks = lab.marks(path, *image_files(folder))
        yield Piece("silhouettes", network.key, 0, marks, "all rows", work)


def image_files(folder: Path | None) -> list[Path]:
    """Return the files of the test images and their labels."""
    return [] if folder is None else sorted([*folder.glob("test-*.webp"), *folder.glob("labels.npz")])


def check_order(truth: Ints, labels: Ints, folder: Path, path: Path) -> None:
    """Raise an error if the images are not those of the outputs, because their labels differ."""
    if not (truth == labels[: len(truth)]).all():
        msg = f"the images in {folder} should be those of {path}, in its order; their labels differ."
        raise InvalidFile(msg)


def _drawings(lab: Lab) -> Iterator[Piece]:
    for network, path in lab.there(DRAWN[0]):
        folder = lab.images(network)
        if network.name == DRAWN[1] and folder is not None:

            def work(advance: Advance, network: Network = network, path: Path = path, folder: Path = folder) -> Any:
                outputs, labels = lab.outputs(network, path)
                images, truth = cifar_images(folder, "test", lab.plan.drawn)
                check_order(truth, labels, folder, path)
                assert outputs.representations is not None
                found = {"labels": truth.tolist()}
                rows = {"raw pixels": images.reshape(len(images), -1), "representation": outputs.representations}
                for name, table in rows.items():
                    advance(f"t-SNE of {name}")
                    found[name] = embed(table[: len(images)]).round(3).tolist()
                return found

            marks = lab.marks(path, *image_files(folder))
            yield Piece("drawings", network.key, 0, marks, f"{lab.plan.drawn} images, seed 0", work)


def _times(lab: Lab) -> Iterator[Piece]:
    for network, path in lab.there():

        def work(advance: Advance, network: Network = network, path: Path = path) -> Any:
            advance("timing")
            return prediction_seconds(lab.cut(network, path, 0))

        yield Piece("times", network.key, 0, lab.marks(path), _of_network(network), work)


def _read_piece(study: str, file: str, field: str, lab: Lab) -> Iterator[Piece]:
    """Yield what was measured where the network was trained, as it stands in a file."""
    path = lab.folders.find(file)
    if path is not None:
        work = partial(_read_json, path, READERS[field])
        yield Piece(study, path.stem, 0, lab.marks(path), "as read", work)


def _read_json(path: Path, check: Callable[[Any], object], advance: Advance) -> Any:
    advance(path.name)
    try:
        found = json.loads(path.read_bytes())
        check(found)
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, ZeroDivisionError) as error:
        msg = f"{path} should hold JSON as its script writes it ({type(error).__name__}: {error}). Make it anew."
        raise InvalidFile(msg) from error
    return found


def _check_epochs(found: Any) -> None:
    """Look at all that is drawn."""
    for epoch, one in sorted(found["statistics"].items(), key=lambda pair: int(pair[0])):
        numbers = [run[what] for runs in one["sets"].values() for run in runs for what in ("size", "coverage", "seed")]
        _check_positive(int(epoch), 1 + one["silhouette"], 1 + one["accuracy"], *(1 + number for number in numbers))
        _check_positive(*map(len, one["sets"].values()), len(one["sets"]))
    _check_positive(len(found["statistics"]))


def _check_seconds(found: Any) -> None:
    for networks in found["seconds"].values():
        _check_positive(*networks.values())
    _check_positive(found["threads"], found["rows"])


def _check_positive(*numbers: float) -> None:
    wrong = [number for number in numbers if not (is_number(number) and number > 0)]
    if wrong:
        msg = f"{wrong[0]!r} where a positive number should be"
        raise ValueError(msg)


READERS: Mapping[str, Callable[[Any], object]] = {"statistics": _check_epochs, "seconds": _check_seconds}

STUDIES: Mapping[str, Callable[[Lab], Iterator[Piece]]] = {
    "sets": _sets,
    "difficulty": _difficulty,
    "tuned": _tune,
    "bandwidths": _bandwidths,
    "intervals": _intervals,
    "difficulty-intervals": _difficulty_intervals,
    "silhouettes": _silhouettes,
    "drawings": _drawings,
    "times": _times,
    "inference": partial(_read_piece, "inference", INFERENCE, "seconds"),
    "epochs": partial(_read_piece, "epochs", EPOCHS, "statistics"),
}
