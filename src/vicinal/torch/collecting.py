"""Run a network over a loader and return outputs for tuning and calibration; no gradients are computed."""

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

from vicinal._util.arrays import PROPER
from vicinal._util.progress import track
from vicinal.errors import Incompatible, InvalidArgument, InvalidValue, ShapeMismatch, TooFewRows
from vicinal.outputs import (
    ClassificationOutputs,
    ModelOutputs,
    RegressionOutputs,
    as_class_names,
    check_classes,
)
from vicinal.torch.batches import Unpack, batches, send_to, target_column
from vicinal.torch.layers import Layer, Representations, plain
from vicinal.torch.running import check_normalized, evaluating, first_weight, run_network
from vicinal.torch.storing import Columns, columns
from vicinal.torch.views import Views, check_views, run_views

T = TypeVar("T", bound=ModelOutputs)

AUTOCAST = (torch.float16, torch.bfloat16)
"""Types that autocast accepts."""

ON_THEIR_WAY = 2
"""Number of batches that may be copied from the device while the network runs on others."""


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
    views: Views | None = ...,
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
    views: Views | None = ...,
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
    views: Views | None = None,
    progress: bool = True,
) -> tuple[ModelOutputs, NDArray[Any]]:
    """Run a network over a loader and collect its outputs, representations and targets.

    The network runs in evaluation mode and without gradients. Modes, hooks and devices are restored afterwards, also
    after an error.

    Parameters
    ----------
    model : torch.nn.Module
        The network. It may return a tensor, a tuple, a dict, or an object with `.logits`.
    loader : iterable of batches
        Pairs (inputs, targets), or dicts with the targets under "labels", "label", "targets", "target" or "y"; for
        other batches, see `unpack`.
    layer : str, torch.nn.Module, callable or None, default "avgpool"
        Name of a layer, a layer, or a function of the inputs. Its activations are the representations: averaged over
        height and width if they have four axes, flattened otherwise. None collects no representations.
    device : str or torch.device, optional
        Device to run on. Default: the device of the network.
    dtype : torch.dtype, optional
        Run in autocast of torch.float16 or torch.bfloat16.
    store : str or Path, optional
        Folder to write .npy files to. Default: collect in memory.
    kind : type, default ClassificationOutputs
        ClassificationOutputs or RegressionOutputs. For a regression the network returns one number per row, or a lower
        and an upper quantile.
    unpack : callable, optional
        A function from a batch to (inputs, targets), or to (inputs, None) for rows without targets.
    normalized : bool, default False
        Whether the network returns probabilities instead of logits.
    class_names : sequence of str, optional
        Names of the classes.
    views : Views, optional
        Changed copies of each input on which the network runs too. Logits then have the shape (n, views, classes), and
        representations are means over the views.
    progress : bool, default True
        Show a progress bar if standard error is a terminal.

    Returns
    -------
    outputs : ClassificationOutputs or RegressionOutputs
        Outputs and representations of the n rows.
    targets : ndarray of shape (n,)
        Labels as int64, or values as float64; empty if the loader has no targets.

    Raises
    ------
    Incompatible
        If the model has no such layer, or a batch has a form that is not known.
    InvalidValue
        If outputs, representations or targets hold NaN, infinities or numbers that are not classes.
    ShapeMismatch
        If the network or the layer does not return one row of floats for each input.
    ModelFailed
        If the network or the loader raises an error.
    TooFewRows
        If the loader has no rows.

    Examples
    --------
    >>> import torch
    >>> from torch import nn
    >>> from vicinal.torch import collect
    >>> network = nn.Sequential(nn.Flatten(), nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    >>> loader = [(torch.randn(5, 2, 2), torch.tensor([0, 1, 2, 0, 1])) for _ in range(3)]
    >>> outputs, labels = collect(network, loader, layer="2")
    >>> outputs.logits.shape, outputs.representations.shape, labels.shape
    ((15, 3), (15, 8), (15,))
    """
    model = plain(model)
    if kind not in (ClassificationOutputs, RegressionOutputs):
        raise InvalidArgument("kind", kind, "ClassificationOutputs or RegressionOutputs")
    chosen = check_views(views)
    if chosen is not None and kind is RegressionOutputs:
        msg = "views are for a classifier; for a regression leave views out."
        raise Incompatible(msg)
    source = Representations(model, layer)
    place = _place(model, device)
    half = _half(dtype, place)
    with ExitStack() as stack:
        stack.enter_context(as_it_was(model, source.apart, place))
        stack.callback(source.attach())
        found = stack.enter_context(columns(store))
        stack.enter_context(torch.no_grad())  # not inference mode: what a network keeps of it could not be trained
        if half is not None:
            stack.enter_context(torch.autocast(place.type, dtype=half))
        expected = Expected(kind, normalized, class_names, viewed=chosen is not None)
        arriving = stack.enter_context(Arriving.into(found, expected))
        read = batches(loader, model, unpack)
        for inputs, targets in track(read, "collect", _length(loader), "batch", shown=None if progress else False):
            if chosen is None:
                outputs, rows = run_network(model, send_to(inputs, place), source)
            else:
                outputs, rows = run_views(model, send_to(inputs, place), source, chosen)
            if outputs.ndim == 0 or outputs.shape[0] > 0:
                known = target_column(targets, outputs.shape[0] if outputs.ndim else 1)
                arriving.send(Batch(outputs, rows, known))
        arriving.finish()
        if found.n_rows == 0:
            msg = "the loader returned no rows; at least one is needed."
            raise TooFewRows(msg, rows=0, needed=1)
    return _outputs(found, normalized=normalized, class_names=class_names)


def _length(loader: Iterable[Any]) -> int | None:
    """Return the number of batches of a loader, or None if it is not known."""
    try:
        return len(loader) if isinstance(loader, Sized) else None
    except TypeError:  # a DataLoader of a dataset without a length
        return None


class Batch(NamedTuple):
    """Outputs of the network for a batch, and the targets."""

    outputs: Tensor
    rows: Tensor | None
    targets: NDArray[Any] | None


@dataclass(frozen=True)
class Expected:
    """What the caller says the network returns."""

    kind: type[ModelOutputs]
    normalized: bool
    class_names: Sequence[str] | None
    viewed: bool


@dataclass
class Arriving:
    """Batches that are copied from a GPU: a thread checks and stores them while the network runs on others."""

    columns: Columns
    expected: Expected
    keeper: ThreadPoolExecutor
    waiting: deque[Future[None]] = field(default_factory=deque)

    @classmethod
    @contextmanager
    def into(cls, columns: Columns, expected: Expected) -> Iterator[Arriving]:
        """Yield an object that stores batches in columns; its thread ends afterwards, also after an error."""
        with ThreadPoolExecutor(1) as keeper:
            try:
                yield cls(columns, expected, keeper)
            finally:
                keeper.shutdown(cancel_futures=True)

    def send(self, batch: Batch) -> None:
        """Begin to copy a batch from the device; wait for an earlier one if several are being copied."""
        outputs, rows = _copy(batch.outputs), None if batch.rows is None else _copy(batch.rows)
        event = None
        if batch.outputs.device.type == "cuda":
            event = torch.cuda.Event()
            event.record()

        def keep_arrived() -> None:
            if event is not None:
                event.synchronize()
            self.columns.add(self._check(outputs, rows, batch))

        if event is None:  # on a CPU a thread would compete with the network for cores
            keep_arrived()
            return
        self.waiting.append(self.keeper.submit(keep_arrived))
        if len(self.waiting) > ON_THEIR_WAY:
            self.waiting.popleft().result()

    def finish(self) -> None:
        """Wait until all batches are stored."""
        while self.waiting:
            self.waiting.popleft().result()

    def _check(self, outputs: Tensor, rows: Tensor | None, batch: Batch) -> dict[str, NDArray[Any]]:
        """Return the columns of a batch; refuse NaN, infinities, and outputs of the wrong form."""
        axes = (3,) if self.expected.viewed else (1, 2)
        if outputs.ndim not in axes or not outputs.is_floating_point():
            msg = f"the model must return floats of shape (rows, classes); got {outputs.dtype} {tuple(outputs.shape)}."
            raise ShapeMismatch(msg, argument="outputs", expected="(rows, classes)", found=tuple(outputs.shape))
        given, expected = outputs.numpy(), self.expected
        given = given if expected.viewed else given.reshape(len(outputs), -1)
        if expected.kind is RegressionOutputs:
            self._check_finite("outputs", given)
            return {**_predict(given), **self._rows(rows), **self._values(batch.targets)}
        name = "probabilities" if expected.normalized else "logits"
        self._check_finite(name, given)
        if given.shape[-1] == 1:
            msg = (
                "the model returns one number per row. For a regression pass kind=vc.RegressionOutputs; a classifier "
                "of two classes must return two logits; make them of one logit z by "
                "torch.stack([-z, z], 1).reshape(-1, 2) / 2."
            )
            raise ShapeMismatch(msg, argument="outputs", expected="(rows, classes)", found=given.shape)
        check_classes(given, name)
        if self.columns.n_rows == 0:
            self.columns.label(as_class_names(expected.class_names, given.shape[-1]))
            flat, tolerance = outputs.reshape(-1, given.shape[-1]), PROPER[batch.outputs.dtype.itemsize]
            check_normalized(flat, tolerance, normalized=expected.normalized)
        return {name: given, **self._rows(rows), **self._labels(batch.targets, given.shape[-1])}

    def _rows(self, rows: Tensor | None) -> dict[str, NDArray[Any]]:
        if rows is None:
            return {}
        self._check_finite("representations", rows.numpy())
        return {"representations": rows.numpy()}

    def _check_finite(self, name: str, array: NDArray[Any]) -> None:
        bad = ~np.isfinite(array)
        if bad.any():
            row = self.columns.n_rows + int(np.argwhere(bad)[0][0])
            msg = f"{name} must be finite; row {{row}} of the loader holds NaN or an infinity. Check that input."
            raise InvalidValue(msg, argument=name, row=row)

    def _values(self, targets: NDArray[Any] | None) -> dict[str, NDArray[Any]]:
        if targets is None:
            return {}
        self._check_finite("targets", targets)
        return {"targets": targets.astype(np.float64)}

    def _labels(self, labels: NDArray[Any] | None, n_classes: int) -> dict[str, NDArray[Any]]:
        if labels is None:
            return {}
        bad = ~((labels >= 0) & (labels < n_classes) & (labels == np.floor(labels)))
        if bad.any():
            place = int(np.argmax(bad))
            msg = (
                f"targets must be class numbers from 0 to {n_classes - 1}; row {{row}} of the loader has "
                f"{labels[place]}."
            )
            raise InvalidValue(msg, argument="targets", row=self.columns.n_rows + place)
        return {"labels": labels.astype(np.int64)}


def _predict(given: NDArray[Any]) -> dict[str, NDArray[np.float64]]:
    """Return the columns of a regression: predictions, or a lower and an upper quantile."""
    names = {1: ("predictions",), 2: ("lower", "upper")}.get(given.shape[1])
    if names is None:
        msg = f"a regression needs one number per row, or a lower and an upper quantile; got shape {given.shape}."
        raise ShapeMismatch(msg, argument="outputs", expected="(rows,) or (rows, 2)", found=given.shape)
    return {name: given[:, place].astype(np.float64) for place, name in enumerate(names)}


@contextmanager
def as_it_was(model: nn.Module, apart: nn.Module | None, place: torch.device) -> Iterator[None]:
    """Move the networks to a device in evaluation mode; restore modes and devices afterwards."""
    networks = [one for one in (model, apart) if one is not None]
    homes = [(one, weight.device) for one in networks if (weight := first_weight(one)) is not None]
    away = [(one, home) for one, home in homes if home != place]
    with evaluating(*networks):
        try:
            for network, _ in away:
                network.to(place)
            yield
        finally:
            for network, home in away:
                network.to(home)


def _place(model: nn.Module, device: str | torch.device | None) -> torch.device:
    """Return the device to run on; by default that of the model."""
    weight = first_weight(model)
    if weight is not None and weight.device.type == "meta":
        msg = "the model has no weights yet (it is on the meta device): load them first."
        raise Incompatible(msg)
    if device is None:
        return torch.device("cpu") if weight is None else weight.device
    try:
        return torch.empty(0, device=device).device
    except (RuntimeError, AssertionError, TypeError) as error:
        expected = "a device that this torch can use, such as 'cpu' or 'cuda'"
        raise InvalidArgument("device", str(device), expected) from error


def _half(dtype: torch.dtype | None, place: torch.device) -> torch.dtype | None:
    """Return the type of autocast, or None; refuse a type that the device does not support."""
    if dtype in (None, torch.float32):
        return None
    if dtype not in AUTOCAST:
        raise InvalidArgument("dtype", dtype, "torch.float16, torch.bfloat16, torch.float32 or None")
    if dtype == torch.float16 and place.type == "cpu":
        raise InvalidArgument("dtype", dtype, "torch.bfloat16, or None, on a CPU: it has no float16 arithmetic")
    return dtype


def _copy(tensor: Tensor) -> Tensor:
    """Return a copy on the CPU, from a GPU without waiting; bfloat16, which numpy lacks, becomes float32.

    It is always a copy, because a network or a loader may reuse its memory.
    """
    found = tensor.detach()
    if found.device.type != "cuda":
        return found.to("cpu", torch.float32 if found.dtype == torch.bfloat16 else found.dtype, copy=True)
    found = found.float() if found.dtype == torch.bfloat16 else found
    room = torch.empty(found.shape, dtype=found.dtype, pin_memory=True)
    return room.copy_(found, non_blocking=True)


def _outputs(
    found: Columns, *, normalized: bool, class_names: Sequence[str] | None
) -> tuple[ModelOutputs, NDArray[Any]]:
    """Return the collected columns, whose rows were checked as they arrived."""
    rows = found.column("representations") if "representations" in found.like else None
    if "logits" not in found.like and "probabilities" not in found.like:
        names = ("predictions", "lower", "upper")
        columns = {name: found.column(name) if name in found.like else None for name in names}
        values = RegressionOutputs(**columns, scales=None, representations=rows, row_ids=None, uniforms=None)
        return values, found.column("targets") if "targets" in found.like else np.empty(0)
    given = found.column("probabilities" if normalized else "logits")
    outputs = ClassificationOutputs(
        logits=None if normalized else given,
        probabilities=given if normalized else None,
        class_names=as_class_names(class_names, given.shape[-1]),
        representations=rows,
        row_ids=None,
        uniforms=None,
    )
    return outputs, found.column("labels") if "labels" in found.like else np.empty(0, np.int64)
