"""Answers of every combination of parts on bundled rows: `python -m tests.golden.answers` records them.

A digest tells whether all bits are the same; a few thresholds are kept as numbers, for machines whose arithmetic
differs in the last bits.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

import vicinal as vc

FILE = Path(__file__).parent / "answers.json"

CALIBRATION, TEST, FITTING = slice(0, 110), slice(110, 135), slice(200, 320)
"""Rows of the bundled data that are calibrated on, predicted, and used to fit maps and probability models."""

CLASSES = 20
"""Classes kept: the first ones, so that small sets of rows hold ties and misses."""

METHODS = {
    "Split": vc.Split,
    "Exact": vc.Exact,
    "SplitReference": lambda: vc.SplitReference(fraction=0.4),
    "LeaveOneOut": vc.LeaveOneOut,
    "PaperLiteral": vc.PaperLiteral,
}
SCORES = {
    "LAC": vc.LAC,
    "APS": vc.APS,
    "RAPS": lambda: vc.RAPS(rank_penalty=0.02, free_ranks=2),
    "NeverEmpty-LAC": lambda: vc.NeverEmpty(vc.LAC()),
    "NeverEmpty-RAPS": lambda: vc.NeverEmpty(vc.RAPS(rank_penalty=0.5, free_ranks=0)),
}
LOCALIZERS = {
    "Exponential-15": lambda: vc.Exponential(n_neighbors=15, bandwidth=0.3),
    "Exponential-all": lambda: vc.Exponential(n_neighbors=None, bandwidth=0.5),
    "Uniform-20": lambda: vc.Uniform(n_neighbors=20),
    "Uniform-share": lambda: vc.Uniform(n_neighbors=0.2),
    "Uniform-all": lambda: vc.Uniform(n_neighbors=None),
    "Ball": lambda: vc.Ball(radius=1.2),
}
MAPS: dict[str, Callable[[Any], Any]] = {
    "none": lambda rows: None,
    "UnitLength": lambda rows: vc.UnitLength(),
    "Rounded": lambda rows: vc.Rounded(16),
    "Standardize": lambda rows: vc.Standardize().fit(rows),
    "Components": lambda rows: vc.PrincipalComponents(6).fit(rows),
    "Chain": lambda rows: vc.Chain(vc.UnitLength(), vc.PrincipalComponents(30)).fit(rows),
}
MODELS: dict[str, Callable[[Any, Any], Any]] = {
    "none": lambda rows, labels: None,
    "Temperature": vc.TemperatureScaling.fit,
    "Votes": vc.NeighborVotes.fit,
}
REGRESSIONS = {
    "AbsoluteResidual": lambda scale: vc.AbsoluteResidual(),
    "ScaledResidual": lambda scale: vc.ScaledResidual(),
    "ScaledResidual-neighbors": vc.ScaledResidual,
    "CQR": lambda scale: vc.CQR(),
}


def digest(*arrays: np.ndarray) -> str:
    """Return a short digest of all bits; -0 and 0 are the same number."""
    found = hashlib.sha256()
    for array in arrays:
        found.update(np.ascontiguousarray(array + 0.0 if array.dtype.kind == "f" else array).tobytes())
    return found.hexdigest()[:12]


class World:
    """Bundled rows of both tasks, and the parts fitted on some of them."""

    def __init__(self) -> None:
        data = vc.datasets.load_cifar100_resnet18()
        few = data.labels < CLASSES
        logits = data.outputs.logits[few][:, :CLASSES].astype(np.float32)
        rows = data.outputs.representations[few].astype(np.float32)
        self.labels = data.labels[few]
        self.sets = vc.ModelOutputs.from_logits(logits, rows)
        near = rows[:, :40].astype(np.float64)
        predictions, spread = near @ np.linspace(-1, 1, 40), 0.2 + near[:, 0]
        self.targets = predictions + spread * np.sin(np.arange(len(near)) * 12.9898)
        self.values = {
            "AbsoluteResidual": vc.ModelOutputs.from_predictions(predictions, near),
            "ScaledResidual": vc.ModelOutputs.from_predictions(predictions, near, scales=spread),
            "CQR": vc.ModelOutputs.from_quantiles(predictions - spread, predictions + spread, near),
        }
        self.values["ScaledResidual-neighbors"] = self.values["AbsoluteResidual"]
        plain = self.values["AbsoluteResidual"][FITTING]
        self.scale = vc.NeighborScales.fit(plain, self.targets[FITTING])
        self.maps = {name: fit(self.sets[FITTING]) for name, fit in MAPS.items()}
        self.value_maps = {name: fit(plain) for name, fit in MAPS.items()}
        self.models = {name: fit(self.sets[FITTING], self.labels[FITTING]) for name, fit in MODELS.items()}


def set_keys() -> Iterator[tuple[str, str, str, str, str]]:
    """Yield method, score, localizer, map and probability model; what a method does not read is not varied."""
    for method, score, model in product(METHODS, SCORES, MODELS):
        if method == "Split":
            yield method, score, "none", "none", model
            continue
        for localizer, named in product(LOCALIZERS, MAPS):
            if localizer != "Uniform-all" or named == "none":
                yield method, score, localizer, named, model


def value_keys() -> Iterator[tuple[str, str, str, str]]:
    """Yield method, score, localizer and map."""
    for method, score in product(METHODS, REGRESSIONS):
        if method == "Split":
            yield method, score, "none", "none"
            continue
        for localizer, named in product(LOCALIZERS, MAPS):
            if localizer != "Uniform-all" or named == "none":
                yield method, score, localizer, named


def calibrated_sets(world: World, key: tuple[str, str, str, str, str], search: Any = None) -> vc.SetPredictor:
    """Return the predictor of sets of a key."""
    method, score, localizer, named, model = key
    return vc.calibrate(
        world.sets[CALIBRATION],
        world.labels[CALIBRATION],
        0.8,
        score=SCORES[score](),
        localizer=None if localizer == "none" else LOCALIZERS[localizer](),
        probability_model=world.models[model],
        representation_map=world.maps[named],
        method=METHODS[method](),
        search=search,
    )


def set_answer(world: World, key: tuple[str, str, str, str, str], search: Any = None) -> list[Any]:
    """Return digests of sets, thresholds and p-values, and a few thresholds."""
    predictor, test = calibrated_sets(world, key, search), world.sets[TEST]
    found = predictor.predict(test)
    other = predictor.at(0.55).predict(test)
    p_values = predictor.p_values(test[:8])
    return [
        digest(found.members, other.members),
        digest(found.thresholds, other.thresholds, p_values),
        [float(value) for value in found.thresholds[:3]],
    ]


def value_answer(world: World, key: tuple[str, str, str, str]) -> list[Any]:
    """Return the same for intervals; what stands for sets are the targets that are covered."""
    method, score, localizer, named = key
    outputs = world.values[score]
    predictor = vc.calibrate(
        outputs[CALIBRATION],
        world.targets[CALIBRATION],
        0.8,
        score=REGRESSIONS[score](world.scale),
        localizer=None if localizer == "none" else LOCALIZERS[localizer](),
        representation_map=world.value_maps[named],
        method=METHODS[method](),
    )
    found = predictor.predict(outputs[TEST])
    p_values = predictor.p_values(outputs[TEST], world.targets[TEST])
    return [
        digest(found.covers(world.targets[TEST])),
        digest(found.thresholds, found.lower, found.upper, p_values),
        [float(value) for value in found.thresholds[:3]],
    ]


def module_keys() -> Iterator[tuple[str, str, str, str, str]]:
    """Yield the keys that a module on tensors answers; the paper to the letter has no twin there."""
    return (key for key in set_keys() if key[0] != "PaperLiteral")


def module_answer(world: World, key: tuple[str, str, str, str, str]) -> list[Any]:
    """Return the answer of a `ConformalModule` on a CPU, given what the network said."""
    import torch

    from vicinal.torch import ConformalModule

    module = ConformalModule(torch.nn.Identity(), calibrated_sets(world, key), layer="")
    test = world.sets[TEST]
    found = module.sets_of(torch.from_numpy(test.logits), torch.from_numpy(test.representations))
    thresholds = found.thresholds.numpy()
    return [digest(found.mask.numpy()), digest(thresholds), [float(value) for value in thresholds[:3]]]


def search_keys() -> Iterator[tuple[str, str, str, str, str]]:
    """Yield the keys that a search on tensors is tried on."""
    for method, localizer in product(METHODS, LOCALIZERS):
        if method not in ("Split", "PaperLiteral"):
            yield method, "APS", localizer, "none", "none"


def search_answer(world: World, key: tuple[str, str, str, str, str]) -> list[Any]:
    """Return the answer of a predictor whose neighbors are found on tensors."""
    from vicinal.torch import TorchSearch

    return set_answer(world, key, TorchSearch("cpu"))


KINDS: dict[str, tuple[Callable[[], Iterator[Any]], Callable[[World, Any], list[Any]]]] = {
    "sets": (set_keys, set_answer),
    "intervals": (value_keys, value_answer),
    "modules": (module_keys, module_answer),
    "searches": (search_keys, search_answer),
}


def arithmetic(world: World) -> str:
    """Return words that are the same on machines whose distances and weights have the same bits."""
    predictor = calibrated_sets(world, ("Exact", "LAC", "Exponential-15", "none", "none"))
    return predictor.calibration.arithmetic


def record(path: Path) -> None:
    """Write the answers of every key."""
    world = World()
    found: dict[str, Any] = {"arithmetic": arithmetic(world)}
    for kind, (keys, answer) in KINDS.items():
        found[kind] = {" ".join(key): answer(world, key) for key in keys()}
        print(kind, len(found[kind]))
    lines = [f'"arithmetic": {json.dumps(found.pop("arithmetic"))}']
    for kind, answers in found.items():
        entries = ",\n".join(f"{json.dumps(key)}: {json.dumps(one)}" for key, one in answers.items())
        lines.append(f'"{kind}": {{\n{entries}\n}}')
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    record(Path(sys.argv[1]) if len(sys.argv) > 1 else FILE)
