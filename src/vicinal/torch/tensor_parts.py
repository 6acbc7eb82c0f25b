"""Parts of a predictor on tensors: the same formulas, with arrays that move to a device."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from typing import Any, Self

import array_api_compat.numpy
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from vicinal.errors import InvalidValue
from vicinal.kernels._jit import COMPILED
from vicinal.neighbors.localizers import BoundLocalizer
from vicinal.neighbors.reference import Reference
from vicinal.outputs import ClassificationOutputs
from vicinal.probability_models.chain import ProbabilityChain
from vicinal.probability_models.model import (
    SMALLEST_PROBABILITY,
    ProbabilityModel,
    VotingModel,
    read_probabilities,
    softmax,
)
from vicinal.representations import RowArrays, RowMap
from vicinal.torch.blocks import Cost
from vicinal.torch.distances import Arithmetic, DeviceRows, Distances, distances, squared_norms
from vicinal.torch.namespace import xp
from vicinal.torch.neighborhoods import NearRows, neighborhood

EQUAL, COARSELY_EQUAL = 2.0**-40, 2.0**-20
"""Scores that differ by less are equal; the second value applies if float32 distances enter the scores."""

MAPPED_BYTES = 64
"""Bytes per number that a map keeps and compares a row with, with all temporary results."""


def at_least_single(rows: Tensor) -> Tensor:
    """Return half precision as float32, and other types unchanged."""
    return rows.float() if rows.dtype in (torch.float16, torch.bfloat16) else rows


def on_cpu(rows: Tensor) -> bool:
    """Return whether rows are on the CPU and not part of a graph."""
    return rows.device.type == "cpu" and not torch.compiler.is_compiling()


def as_tensor(array: NDArray[Any]) -> Tensor:
    """Return a copy of an array as a tensor."""
    return torch.from_numpy(np.array(array, order="C"))


class TensorModule(nn.Module):
    """A module whose tensors move between devices but keep their types: `.half()` does not change them."""

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:  # noqa: FBT001, FBT002
        def move(tensor: Tensor) -> Tensor:
            found = fn(tensor)
            return found if found.dtype == tensor.dtype else tensor.to(found.device)

        super()._apply(move, recurse)
        return self

    def keep(self, **tensors: Tensor) -> None:
        """Register tensors that are derived from the stored arrays and not stored themselves."""
        for name, tensor in tensors.items():
            self.register_buffer(name, tensor, persistent=False)


class TensorPart(TensorModule):
    """A part whose formula runs on tensors: `bound` is a copy of the part with tensors in place of its arrays."""

    bound: Any

    def __init__(self, part: Any) -> None:
        super().__init__()
        self.part = part
        self.keep(**{f"array{number}": as_tensor(array) for number, array in enumerate(_arrays(part))})
        self._bind()

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:  # noqa: FBT001, FBT002
        super()._apply(fn, recurse)
        self._bind()
        return self

    def _bind(self) -> None:
        # Set directly, so that torch does not register it as a module or tensor.
        object.__setattr__(self, "bound", _with_tensors(self.part, iter(self._buffers.values())))


def _arrays(part: Any) -> Iterator[NDArray[Any]]:
    """Yield the arrays of a part and of the parts inside it."""
    if isinstance(part, np.ndarray):
        yield part
    elif isinstance(part, tuple):
        for item in part:
            yield from _arrays(item)
    elif is_dataclass(part):
        for one in fields(part):
            yield from _arrays(getattr(part, one.name))


def _with_tensors(part: Any, tensors: Iterator[Tensor | None]) -> Any:
    """Return a copy of a part with the next tensors in place of its arrays."""
    if isinstance(part, np.ndarray):
        return next(tensors)
    if isinstance(part, tuple):
        return tuple(_with_tensors(item, tensors) for item in part)
    if not is_dataclass(part):
        return part
    found = copy.copy(part)
    for one in fields(part):
        object.__setattr__(found, one.name, _with_tensors(getattr(part, one.name), tensors))
    return found


class TensorMap(TensorPart):
    """A map of rows; on a CPU numpy applies it, so that results are equal to the bit; None changes nothing.

    Maps that read outputs of the model have compiled loops in numpy; without numba, their formulas run on a CPU too.
    """

    part: RowMap | None

    def forward(self, representations: Tensor, probabilities: Tensor | None = None) -> Tensor:
        """Return the mapped rows, (n, new width)."""
        if self.part is None:
            return representations
        rows = RowArrays(representations, probabilities if self.part.reads_outputs else None)
        if on_cpu(representations) and self.in_numpy:
            arrays = RowArrays(*(None if one is None else one.numpy() for one in rows))
            found = self.part.map_rows(array_api_compat.numpy, arrays)
            return torch.from_numpy(np.ascontiguousarray(found))
        mapped: Tensor = self.bound.map_rows(xp, rows)
        if not torch.compiler.is_compiling() and not bool(mapped.isfinite().all()):
            msg = f"{self.part!r} must leave representations finite; scale them down first."
            raise InvalidValue(msg)
        return mapped

    @property
    def in_numpy(self) -> bool:
        """Whether numpy applies the map on a CPU."""
        return COMPILED or not self.reads_outputs

    @property
    def same_bits(self) -> bool:
        """Whether a GPU returns the same bits as the CPU."""
        return self.part is None or self.part.elementwise

    @property
    def reads_outputs(self) -> bool:
        """Whether the map reads more than representations."""
        return self.part is not None and self.part.reads_outputs

    @property
    def cost(self) -> Cost:
        """Memory for a row: a map that reads outputs compares it with all numbers that it keeps."""
        numbers = sum(len(array) for array in _arrays(self.part)) if self.reads_outputs else 0
        return Cost(MAPPED_BYTES * numbers, MAPPED_BYTES * numbers)

    @property
    def reads_representations(self) -> bool:
        """Whether the map reads representations; without a map, they are used as they are."""
        return self.part is None or self.part.reads_representations

    def input_width(self, width: int) -> int | None:
        """Return the width of rows that are mapped to `width` columns; None if it is not known."""
        return width if self.part is None else self.part.input_width(width)


class TensorReference(TensorModule):
    """Reference rows, and the rule for which of them are neighbors."""

    rows: Tensor
    norms: Tensor

    def __init__(self, reference: Reference, near: BoundLocalizer, mapping: TensorMap, arithmetic: Precision) -> None:
        super().__init__()
        rows = as_tensor(reference.rows)
        rows = rows if arithmetic.dtype is None else rows.to(arithmetic.dtype)
        self.n, self.near, self.tf32, self.same_bits = reference.n, near, arithmetic.tf32, mapping.same_bits
        self.same_on_cpu = mapping.in_numpy
        self.rule = near.rule_in(xp)
        self.keep(rows=rows, norms=squared_norms(rows[: reference.n]))

    @property
    def width(self) -> int:
        """Number of columns."""
        return int(self.rows.shape[1])

    @property
    def cost(self) -> Cost:
        """Memory for the neighbors of a row."""
        return Cost.of(self.rule, self.n)

    def distances(self, representations: Tensor) -> Distances:
        """Return the distances of representations, (q, d)."""
        queries, known = representations.to(self.rows.dtype), DeviceRows(self.rows, self.norms, self.n)
        same = self.same_bits or (self.same_on_cpu and self.rows.device.type == "cpu")
        return distances(queries, known, Arithmetic(self.tf32), same_bits=same)

    def forward(self, representations: Tensor, *, listed: bool) -> NearRows:
        """Return the neighbors of each row."""
        return neighborhood(self.distances(representations), self.rule, listed=listed)

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the rule, which contains a function."""
        return {name: value for name, value in self.__dict__.items() if name != "rule"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Create the rule again."""
        super().__setstate__(state)
        self.rule = self.near.rule_in(xp)


class Precision:
    """The type of distances, and whether a GPU may round the factors of products."""

    def __init__(self, dtype: torch.dtype | None, *, tf32: bool) -> None:
        self.dtype, self.tf32 = dtype, tf32


class TensorProbabilities(TensorModule):
    """From outputs of a network to class probabilities; with `normalized`, the outputs are probabilities already."""

    labels: Tensor

    def __init__(
        self, model: ProbabilityModel | None, precision: Precision, *, normalized: bool, in_numpy: bool
    ) -> None:
        super().__init__()
        self.model, self.normalized, self.in_numpy = model, normalized, in_numpy and COMPILED
        self.voters: TensorReference | None = None
        self.chain = nn.ModuleList()
        if isinstance(model, ProbabilityChain):
            for number, part in enumerate(model.parts):
                self.chain.append(
                    TensorProbabilities(part, precision, normalized=normalized or number > 0, in_numpy=False)
                )
        elif isinstance(model, VotingModel):
            voters = model.voters
            self.mapping = TensorMap(voters.representation_map)
            near = BoundLocalizer(voters.localizer, len(voters) - 1)
            self.voters = TensorReference(voters.reference, near, self.mapping, precision)
            self.keep(labels=as_tensor(model.labels))
        elif model is not None:
            self.part = TensorPart(model)

    @property
    def _parts(self) -> list[TensorProbabilities]:
        """The models of a chain; empty without one."""
        return [part for part in self.chain if isinstance(part, TensorProbabilities)]

    @property
    def equal(self) -> float:
        """How much scores may differ between devices."""
        if self.chain:
            return max(part.equal for part in self._parts)
        if self.voters is None:
            return EQUAL
        rows = self.voters.rows
        rounded = rows.device.type != "cpu" or torch.compiler.is_compiling()
        return COARSELY_EQUAL if rows.dtype == torch.float32 and rounded else EQUAL

    @property
    def cost(self) -> Cost:
        """Memory for a row, besides its labels."""
        found = Cost(0, 0) if self.voters is None else self.voters.cost
        for part in self._parts:
            found |= part.cost
        return found

    @property
    def width(self) -> int | None:
        """The width of representations: 0 if none are read, None if it is not known."""
        if self.chain:
            widths = [part.width for part in self._parts]
            return None if None in widths else max(width for width in widths if width is not None)
        if self.voters is not None:
            return self.mapping.input_width(self.voters.width)
        return None if self.model is not None and self.model.reads_representations else 0

    def forward(self, outputs: Tensor, representations: Tensor, *, listed: bool) -> Tensor:
        """Return the probabilities of each row, (q, classes), from outputs of (q, classes) or (q, views, classes)."""
        if outputs.ndim > 2 and (self.model is None or not self.model.reads_views):  # noqa: PLR2004  view 0
            outputs = outputs[:, 0]
        if self.in_numpy and on_cpu(outputs):
            return self._compute_in_numpy(outputs, representations)
        for part in self._parts:
            outputs = part(outputs, representations, listed=listed)
        if self.chain:
            return outputs
        if self.model is None:
            return at_least_single(outputs) if self.normalized else softmax(xp, outputs.double())
        logits = outputs.double()
        if self.normalized:
            logits = at_least_single(outputs).clamp_min(SMALLEST_PROBABILITY).log().double()
        if self.voters is not None:
            near = self.voters(self.mapping(representations), listed=listed)
            return self.model.blend(xp, logits, self._shares(near, outputs.shape[1]))  # type: ignore[attr-defined, no-any-return]
        found: Tensor = self.part.bound.formula(xp, logits, representations if representations.shape[1] else None)
        return found

    def _compute_in_numpy(self, outputs: Tensor, representations: Tensor) -> Tensor:
        """Return the probabilities that equal those of numpy to the bit, for a map that reads them."""
        given, rows = at_least_single(outputs).numpy(), representations.numpy() if representations.shape[1] else None
        logits, probabilities = (None, given) if self.normalized else (given, None)
        found = ClassificationOutputs(
            representations=rows,
            row_ids=None,
            uniforms=None,
            logits=logits,
            probabilities=probabilities,
            class_names=None,
        )
        return torch.from_numpy(read_probabilities(found, self.model))

    def _shares(self, near: NearRows, classes: int) -> Tensor:
        """Return the weighted share of the neighbors with each label, (q, classes)."""
        if near.columns is None:
            # A product with zeros and ones, which graphs support.
            ballots = (self.labels[:, None] == torch.arange(classes, device=self.labels.device)).double()
            return near.weights @ ballots / near.total[:, None]
        shares = near.weights.new_zeros((len(near.weights), classes))
        return shares.scatter_add_(1, self.labels[near.columns], near.weights) / near.total[:, None]
