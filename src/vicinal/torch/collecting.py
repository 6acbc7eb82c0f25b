"""From a network and a loader to outputs that can be tuned and calibrated on; nothing is learned, no gradient kept."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence, Sized
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, overload

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from vicinal._arrays import PROPER
from vicinal._progress import bar
from vicinal.errors import Incompatible, InvalidLevel, InvalidValue, ShapeMismatch, TooFewRows
from vicinal.outputs import (
    ClassificationOutputs,
    ModelOutputs,
    RegressionOutputs,
    as_class_names,
    check_classes,
)
from vicinal.torch.batches import Unpack, batches, sent, target_column
from vicinal.torch.layers import Layer, Representations
from vicinal.torch.running import first_weight, ran
from vicinal.torch.storing import Columns, columns

T = TypeVar("T", bound=ModelOutputs)

AUTOCAST = (torch.float16, torch.bfloat16)
"""Types that autocast may run in."""

ON_THEIR_WAY = 2
"""Batches that may be on their way while the network works on others."""


@overload
def collect(
    model: nn.Module,
    loader: Iterable[Any],
    layer: Layer = ...,
    device: str | torch.device | None = ...,
    dtype: torch.dtype | None = ...,
    store: str | Path | None = ...,
    *,
    unpack: Unpack | None = ...,
    normalized: bool = ...,
    class_names: Sequence[str] | None = ...,
    progress: bool = ...,
) -> tuple[ClassificationOutputs, NDArray[np.int64]]: ...
@overload
def collect(
    model: nn.Module,
    loader: Iterable[Any],
    layer: Layer = ...,
    device: str | torch.device | None = ...,
    dtype: torch.dtype | None = ...,
    store: str | Path | None = ...,
    *,
    kind: type[T],
    unpack: Unpack | None = ...,
    normalized: bool = ...,
    class_names: Sequence[str] | None = ...,
    progress: bool = ...,
) -> tuple[T, NDArray[Any]]: ...
def collect(
    model: nn.Module,
    loader: Iterable[Any],
    layer: Layer = "avgpool",
    device: str | torch.device | None = None,
    dtype: torch.dtype | None = None,
    store: str | Path | None = None,
    *,
    kind: type[ModelOutputs] = ClassificationOutputs,
    unpack: Unpack | None = None,
    normalized: bool = False,
    class_names: Sequence[str] | None = None,
    progress: bool = True,
) -> tuple[ModelOutputs, NDArray[Any]]:
    """Run a network over a loader; return its outputs with representations, and the targets, (n,).

    `layer` is a layer's name, a layer, or a function of the inputs, whose activations are the representations: averaged
    over height and width where they have four axes, flattened otherwise; None collects none. Batches are pairs (inputs,
    targets), or dicts with the targets under "labels", "label", "targets", "target" or "y"; for others, `unpack` makes
    a pair of a batch. The network may return a tensor, a tuple, a dict or an object with `.logits`. With `kind` set to
    `RegressionOutputs`, it returns one number a row, or a lower and an upper quantile. `device` is where it runs, by
    default where it is; `dtype` runs it in autocast of torch.float16 or torch.bfloat16; `store` is a folder to write
    .npy files to instead of memory. `normalized` says that the network returns probabilities. The bar shows on a
    terminal only. Modes, hooks and devices are put back whatever happens.

    Examples
    --------
    >>> network = nn.Sequential(nn.Flatten(), nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    >>> loader = [(torch.randn(5, 2, 2), torch.tensor([0, 1, 2, 0, 1])) for _ in range(3)]
    >>> outputs, labels = collect(network, loader, layer="2")
    >>> outputs.logits.shape, outputs.representations.shape, labels.shape
    ((15, 3), (15, 8), (15,))
    """
    if not isinstance(model, nn.Module):
        msg = f"model must be an nn.Module; got {type(model).__name__}."
        raise Incompatible(msg)
    if kind not in (ClassificationOutputs, RegressionOutputs):
        raise InvalidLevel("kind", kind, "ClassificationOutputs or RegressionOutputs")
    source = Representations(model, layer)
    place = _place(model, device)
    half = _half(dtype, place)
    with ExitStack() as stack:
        stack.enter_context(as_it_was(model, place))
        stack.callback(source.attach())
        found = stack.enter_context(columns(store))
        stack.enter_context(torch.inference_mode())
        stack.enter_context(torch.autocast(place.type, dtype=half, enabled=half is not None))
        arriving = stack.enter_context(Arriving.into(found, kind, normalized=normalized))
        total = len(loader) if isinstance(loader, Sized) else None
        for inputs, targets in bar(batches(loader, model, unpack), total, "collect", "batch", shown=progress):
            outputs, rows = ran(model, sent(inputs, place), source)
            arriving.send(Batch(outputs, rows, targets))
        arriving.finish()
        if found.n_rows == 0:
            msg = "the loader gave no rows."
            raise TooFewRows(msg, rows=0, needed=1)
    return _outputs(found, normalized=normalized, class_names=class_names)


class Batch(NamedTuple):
    """What the network said of a batch, and the targets."""

    outputs: Tensor
    rows: Tensor | None
    targets: Any


@dataclass
class Arriving:
    """Batches on their way from the device: a thread checks and keeps them while the network works on others."""

    columns: Columns
    kind: type[ModelOutputs]
    normalized: bool
    keeper: ThreadPoolExecutor
    waiting: deque[Future[None]] = field(default_factory=deque)

    @classmethod
    @contextmanager
    def into(cls, columns: Columns, kind: type[ModelOutputs], *, normalized: bool) -> Iterator[Arriving]:
        """Yield the way into columns; the thread is gone afterwards, whatever happens."""
        with ThreadPoolExecutor(1) as keeper:
            try:
                yield cls(columns, kind, normalized, keeper)
            finally:
                keeper.shutdown(cancel_futures=True)

    def send(self, batch: Batch) -> None:
        """Begin to copy a batch from the device; wait for an earlier one where several are on their way."""
        outputs, rows = _copied(batch.outputs), None if batch.rows is None else _copied(batch.rows)
        event = None
        if batch.outputs.device.type == "cuda":
            event = torch.cuda.Event()
            event.record()

        def arrived() -> None:
            if event is not None:
                event.synchronize()
            self.columns.add(self._checked(outputs, rows, batch))

        self.waiting.append(self.keeper.submit(arrived))
        if len(self.waiting) > ON_THEIR_WAY:
            self.waiting.popleft().result()

    def finish(self) -> None:
        """Wait for all batches that are on their way."""
        while self.waiting:
            self.waiting.popleft().result()

    def _checked(self, outputs: Tensor, rows: Tensor | None, batch: Batch) -> dict[str, NDArray[Any]]:
        """Return the columns of a batch; refuse NaN, infinities, and what are no outputs."""
        if outputs.ndim not in (1, 2) or not outputs.is_floating_point():
            msg = f"the model must return floats of shape (rows, classes); got {outputs.dtype} {tuple(outputs.shape)}."
            raise ShapeMismatch(msg)
        given, known = outputs.numpy().reshape(len(outputs), -1), target_column(batch.targets, len(outputs))
        name = "outputs" if self.kind is RegressionOutputs else "probabilities" if self.normalized else "logits"
        self._check_finite(name, given)
        if self.kind is RegressionOutputs:
            return {**_predicted(given), **self._rows(rows), "targets": known.astype(np.float64)}
        if given.shape[1] == 1:
            msg = (
                "the model returns one number a row. For a regression pass kind=vc.RegressionOutputs; a classifier of "
                "two classes must return two logits, such as torch.stack([-z, z], 1) / 2."
            )
            raise ShapeMismatch(msg)
        check_classes(given, name)
        self._check_labels(known, given.shape[1])
        if self.normalized:
            _check_proper(given, PROPER[batch.outputs.dtype.itemsize])
        return {name: given, **self._rows(rows), "labels": known.astype(np.int64)}

    def _rows(self, rows: Tensor | None) -> dict[str, NDArray[Any]]:
        if rows is None:
            return {}
        self._check_finite("representations", rows.numpy())
        return {"representations": rows.numpy()}

    def _check_finite(self, name: str, array: NDArray[Any]) -> None:
        bad = ~np.isfinite(array)
        if bad.any():
            row = self.columns.n_rows + int(np.argwhere(bad)[0][0])
            msg = f"{name} must be finite; row {row} of the loader holds NaN or an infinity. Look at that input."
            raise InvalidValue(msg)

    def _check_labels(self, labels: NDArray[Any], n_classes: int) -> None:
        bad = ~((labels >= 0) & (labels < n_classes) & (labels == np.floor(labels)))
        if bad.any():
            place = int(np.argmax(bad))
            msg = (
                f"targets must be class numbers from 0 to {n_classes - 1}; row {self.columns.n_rows + place} of the "
                f"loader has {labels[place]}."
            )
            raise InvalidValue(msg)


def _check_proper(given: NDArray[Any], tolerance: float) -> None:
    """Refuse rows that are no probabilities; how far a sum may be off depends on what the network computed in."""
    off = np.abs(given.sum(1, dtype=np.float64) - 1.0) > tolerance
    if off.any() or given.min() < 0:
        msg = "normalized=True says that the network returns probabilities; these rows do not sum to one."
        raise InvalidValue(msg)


def _predicted(given: NDArray[Any]) -> dict[str, NDArray[np.float64]]:
    """Return the columns of a regression: predictions, or a lower and an upper quantile."""
    names = {1: ("predictions",), 2: ("lower", "upper")}.get(given.shape[1])
    if names is None:
        msg = f"a regression returns one number a row, or a lower and an upper quantile; got shape {given.shape}."
        raise ShapeMismatch(msg)
    return {name: given[:, place].astype(np.float64) for place, name in enumerate(names)}


@contextmanager
def as_it_was(model: nn.Module, place: torch.device) -> Iterator[None]:
    """Put the model in evaluation mode on a device, and every layer's mode and the device back afterwards."""
    modes = [(module, module.training) for module in model.modules()]
    weight = first_weight(model)
    home = place if weight is None or weight.device == place else weight.device
    try:
        model.eval()
        if home != place:
            model.to(place)
        yield
    finally:
        if home != place:
            model.to(home)
        for module, training in modes:
            module.training = training


def _place(model: nn.Module, device: str | torch.device | None) -> torch.device:
    """Return where the model is to run: where it is, if nothing is said."""
    weight = first_weight(model)
    if device is None:
        return torch.device("cpu") if weight is None else weight.device
    try:
        return torch.empty(0, device=device).device
    except (RuntimeError, AssertionError, TypeError) as error:
        expected = "a device that this torch can use, such as 'cpu' or 'cuda'"
        raise InvalidLevel("device", str(device), expected) from error


def _half(dtype: torch.dtype | None, place: torch.device) -> torch.dtype | None:
    """Return the type of autocast, or None for none; refuse what a device cannot do."""
    if dtype in (None, torch.float32):
        return None
    if dtype not in AUTOCAST:
        raise InvalidLevel("dtype", dtype, "torch.float16, torch.bfloat16, torch.float32 or None")
    if dtype == torch.float16 and place.type == "cpu":
        raise InvalidLevel("dtype", dtype, "torch.bfloat16, or None, on a CPU: it has no float16 arithmetic")
    return dtype


def _copied(tensor: Tensor) -> Tensor:
    """Return a tensor in memory, from a GPU without waiting for it; bfloat16, which numpy lacks, as float32."""
    found = tensor.detach()
    found = found.float() if found.dtype == torch.bfloat16 else found
    if found.device.type != "cuda":
        return found.cpu()
    room = torch.empty(found.shape, dtype=found.dtype, pin_memory=True)
    return room.copy_(found, non_blocking=True)


def _outputs(
    found: Columns, *, normalized: bool, class_names: Sequence[str] | None
) -> tuple[ModelOutputs, NDArray[Any]]:
    """Return what was collected; every row of it was checked as it came."""
    rows = found.column("representations") if "representations" in found.like else None
    if "targets" in found.like:
        names = ("predictions", "lower", "upper")
        columns = {name: found.column(name) if name in found.like else None for name in names}
        values = RegressionOutputs(**columns, scales=None, representations=rows, row_ids=None, uniforms=None)
        return values, found.column("targets")
    given = found.column("probabilities" if normalized else "logits")
    outputs = ClassificationOutputs(
        logits=None if normalized else given,
        probabilities=given if normalized else None,
        class_names=as_class_names(class_names, given.shape[1]),
        representations=rows,
        row_ids=None,
        uniforms=None,
    )
    return outputs, found.column("labels")
