"""A network with its calibration: an nn.Module that returns prediction sets for a batch."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self
from weakref import finalize

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from vicinal._util.arrays import PROPER, positive
from vicinal._util.text import one_line, strict_json
from vicinal.calibration.guarantees import Guarantee
from vicinal.calibration.levels import Coverage, exact_coverage
from vicinal.errors import (
    CorruptArtifact,
    Incompatible,
    InvalidArgument,
    InvalidValue,
    Option,
    ShapeMismatch,
    UnsupportedArtifact,
    VicinalError,
)
from vicinal.persistence.artifact import read_header, write_header
from vicinal.persistence.load import make_predictor
from vicinal.persistence.parts import Writer
from vicinal.predictor import IntervalPredictor, SetPredictor
from vicinal.regions import PredictionSets
from vicinal.torch.batches import inputs_of
from vicinal.torch.blocks import MEGABYTES, over_blocks
from vicinal.torch.conformal import Conformal
from vicinal.torch.graphs import write_onnx
from vicinal.torch.layers import Layer, Representations, layer_name, plain
from vicinal.torch.running import check_normalized, evaluating, first_weight, run_network
from vicinal.torch.tensor_parts import Precision, TensorModule, as_tensor
from vicinal.torch.uniforms import hash_words, row_id_words
from vicinal.torch.views import Views, check_views, run_views

FORMAT = 1
"""The format of the settings in a state dict; parts and arrays are those of a saved predictor."""

DTYPES = {None: None, "float32": torch.float32, "float64": torch.float64}
"""Types in which distances may be computed, by their name; None is the type of the calibration rows."""


class ModuleOptions(NamedTuple):
    """Options of a module that are not part of its predictor."""

    normalized: bool
    dtype: str | None
    tf32: bool


class Stored(TensorModule):
    """The arrays of a predictor, as a state dict stores them; all other tensors are derived from these."""

    def __init__(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        super().__init__()
        self.names = list(arrays)
        for number, array in enumerate(arrays.values()):
            self.register_buffer(f"array{number}", as_tensor(array))


class ConformalSets(NamedTuple):
    """Prediction sets of a `ConformalModule` for a batch of b rows, as tensors on its device.

    Parameters
    ----------
    mask : tensor of bool, shape (b, classes)
        Whether each label is in the set.
    sizes : tensor of int64, shape (b,)
        Number of labels in each set.
    thresholds : tensor of float64, shape (b,)
        Threshold of each row: the set holds the labels whose score is at most this.
    logits : tensor of shape (b, classes)
        Logits of the network; with views, those of the input itself.

    Examples
    --------
    >>> import torch
    >>> from vicinal.torch import ConformalSets
    >>> mask = torch.tensor([[True, False], [True, True]])
    >>> ConformalSets(mask, mask.sum(1), torch.ones(2), torch.zeros(2, 2)).sizes
    tensor([1, 2])
    """

    mask: Tensor
    sizes: Tensor
    thresholds: Tensor
    logits: Tensor


class ConformalModule(nn.Module):
    """A network and its calibration as one module: `module(batch).mask` are prediction sets.

    The calibration is stored in buffers: `.to(device)` moves it and `state_dict()` saves it. To restore both in a new
    process, call `ConformalModule(model)` and then `load_state_dict(state)`. The module stays in evaluation mode.

    Parameters
    ----------
    model : torch.nn.Module
        The network.
    predictor : SetPredictor, optional
        Its calibrated predictor. Without one, the module needs `load_state_dict` before it can be used.
    layer : str, torch.nn.Module, callable or None, default "avgpool"
        The layer that `collect` was given: its name, the layer, or a function of the inputs.
    views : Views, optional
        The views that `collect` was given. The network runs on all of them in one pass or a few, or only on those with
        weight if the predictor reads no representations. A state dict does not hold them.
    normalized : bool, default False
        Whether the network returns probabilities instead of logits.
    dtype : torch.dtype, optional
        Type in which distances are computed, torch.float32 or torch.float64. Default: that of the calibration rows.
    tf32 : bool, default False
        Whether a GPU may round the factors of float32 products to 11 bits: faster, but less precise.
    megabytes : float, default 2048
        Limit on the memory for a block of rows.

    Raises
    ------
    Incompatible
        If the predictor predicts intervals, uses an approximate search, or reads representations and the model has no
        such layer.
    InvalidArgument
        If `dtype` or `megabytes` is not valid.

    See Also
    --------
    collect : Run a network over a loader.

    Examples
    --------
    >>> import torch
    >>> import vicinal as vc
    >>> from torch import nn
    >>> from vicinal.torch import ConformalModule
    >>> network = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 3))
    >>> rows = torch.randn(100, 2)
    >>> outputs, labels = vc.torch.collect(network, [(rows, torch.arange(100) % 3)], layer="1")
    >>> predictor = vc.calibrate(outputs, labels, 0.9, localizer=vc.Uniform(20))
    >>> module = ConformalModule(network, predictor, layer="1")
    >>> module(rows).mask.shape
    torch.Size([100, 3])
    """

    settings: Tensor
    stored: Stored
    conformal: Conformal
    _source: Representations
    _layer: tuple[Layer]  # in a tuple, because torch would register a layer as a child module
    _predictor: SetPredictor | None

    def __init__(
        self,
        model: nn.Module,
        predictor: SetPredictor | None = None,
        layer: Layer = "avgpool",
        *,
        views: Views | None = None,
        normalized: bool = False,
        dtype: torch.dtype | None = None,
        tf32: bool = False,
        megabytes: float = MEGABYTES,
    ) -> None:
        super().__init__()
        network = plain(model)
        if dtype not in (None, torch.float32, torch.float64):
            raise InvalidArgument("dtype", dtype, "torch.float32, torch.float64, or None for the type of the rows")
        self.megabytes = positive("megabytes", megabytes)
        named = layer_name(network, layer) if isinstance(layer, nn.Module) else None
        self._layer = (layer if named is None else named,)
        self._views = check_views(views)
        self._untap: Callable[[], object] = int
        self._predictor = None
        self._options = ModuleOptions(normalized, None if dtype is None else str(dtype).removeprefix("torch."), tf32)
        self.model = network
        self.register_buffer("settings", torch.zeros(0, dtype=torch.uint8))
        self.eval()
        if predictor is not None:
            self._hold(_check_predictor(predictor))

    @property
    def layer(self) -> Layer:
        """The source of the representations: the name of a layer, or a function of the inputs."""
        return self._layer[0]

    def train(self, mode: bool = True) -> Self:  # noqa: FBT001, FBT002
        """Stay in evaluation mode; to train the network, call `module.model.train()`.

        The coverage is guaranteed for the network as it was calibrated, which is in evaluation mode.

        Parameters
        ----------
        mode : bool, default True
            Ignored.

        Returns
        -------
        ConformalModule
            The module itself.
        """
        del mode
        return super().train(mode=False)

    @property
    def coverage(self) -> Coverage:
        """The coverage of the sets."""
        return self._get_predictor().coverage

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee, in numbers and, as `str`, in words."""
        return self._get_predictor().guarantee

    @property
    def class_names(self) -> tuple[str, ...] | None:
        """The names of the classes, or None."""
        return self._get_predictor().class_names

    def forward(
        self, batch: Any, uniforms: Tensor | None = None, row_ids: Tensor | Sequence[int] | Sequence[str] | None = None
    ) -> ConformalSets:
        """Return the prediction sets of a batch, as tensors.

        Parameters
        ----------
        batch : tensor, tuple or dict
            Inputs of the network for b rows: one tensor, a tuple of arguments, or a dict of named arguments, whose
            targets are ignored.
        uniforms : tensor of shape (b,), optional
            Numbers in [0, 1] for a randomized score.
        row_ids : tensor or sequence of int or str, of length b, optional
            Ids that determine the random numbers of a randomized score, the same on every device. Default: the random
            numbers are computed from the logits.

        Returns
        -------
        ConformalSets
            The sets, on the device of the module.

        Raises
        ------
        Incompatible
            If the module has no calibration, or batch and network are on different devices.
        ModelFailed
            If the network raises an error.
        ShapeMismatch, InvalidValue
            If logits, representations or uniforms have the wrong shape or are not finite.
        """
        logits, rows = self._run_network(batch)
        return self._answer(logits, rows, uniforms, row_ids)

    def predict(
        self, batch: Any, uniforms: Tensor | None = None, row_ids: Tensor | Sequence[int] | Sequence[str] | None = None
    ) -> PredictionSets:
        """Return the prediction sets of a batch as numpy arrays, for `evaluate` and `.labels()`.

        Parameters
        ----------
        batch : tensor, tuple or dict
            Inputs of the network for b rows: one tensor, a tuple of arguments, or a dict of named arguments, whose
            targets are ignored.
        uniforms : tensor of shape (b,), optional
            Numbers in [0, 1] for a randomized score.
        row_ids : tensor or sequence of int or str, of length b, optional
            Ids that determine the random numbers of a randomized score, the same on every device. Default: the random
            numbers are computed from the logits.

        Returns
        -------
        PredictionSets
            The sets, with class names if there are any.

        Raises
        ------
        Incompatible
            If the module has no calibration, or batch and network are on different devices.
        ModelFailed
            If the network raises an error.
        ShapeMismatch, InvalidValue
            If logits, representations or uniforms have the wrong shape or are not finite.
        """
        logits, rows = self._run_network(batch)
        _check_shapes(self.conformal, logits, rows)
        with torch.no_grad():
            found = self._in_blocks(logits.detach(), rows, uniforms, row_ids)
        members, thresholds, confidences = (one.cpu().numpy() for one in found)
        names, coverage = self.class_names, float(exact_coverage(self.coverage))
        advice = Option("score", f"NeverEmpty({self._get_predictor().score!r})")
        return PredictionSets(members, thresholds, confidences.astype(np.float64), names, coverage, advice=advice)

    def sets_of(
        self,
        logits: Tensor,
        representations: Tensor | None = None,
        uniforms: Tensor | None = None,
        row_ids: Tensor | Sequence[int] | Sequence[str] | None = None,
    ) -> ConformalSets:
        """Return the prediction sets for outputs that the network computed before.

        Parameters
        ----------
        logits : tensor of shape (b, classes) or (b, views, classes)
            Logits of the network.
        representations : tensor of shape (b, d), optional
            Representations, if the predictor reads them.
        uniforms : tensor of shape (b,), optional
            Numbers in [0, 1] for a randomized score.
        row_ids : tensor or sequence of int or str, of length b, optional
            Ids that determine the random numbers of a randomized score, the same on every device. Default: the random
            numbers are computed from the logits.

        Returns
        -------
        ConformalSets
            The sets, on the device of the module.

        Raises
        ------
        Incompatible
            If an argument is not a tensor, or is on another device.
        ShapeMismatch, InvalidValue
            If logits, representations or uniforms have the wrong shape or are not finite.
        """
        for name, table in (("logits", logits), ("representations", representations)):
            if not (isinstance(table, Tensor) or (table is None and name == "representations")):
                msg = f"{name} must be a tensor; got {type(table).__name__}. Use torch.from_numpy(...)."
                raise Incompatible(msg)
        return self._answer(logits, representations, uniforms, row_ids)

    def at(self, coverage: Coverage) -> ConformalModule:
        """Return a module with another coverage, which shares the network.

        Parameters
        ----------
        coverage : float
            The new coverage.

        Returns
        -------
        ConformalModule
            A new module.

        Raises
        ------
        TooFewRows
            If there are too few calibration rows for this coverage.
        """
        found = ConformalModule(self.model, layer=self.layer, views=self._views, megabytes=self.megabytes)
        found._options = self._options
        found._hold(self._get_predictor().at(coverage))
        return found

    def to_onnx(self, path: str | Path, batch: Tensor) -> Path:
        """Export network and calibration as one ONNX graph for any number of rows.

        The graph has the outputs mask, sizes, thresholds and logits, and the inputs batch and, for a randomized score,
        uniforms.

        Parameters
        ----------
        path : str or Path
            File to write.
        batch : tensor
            A batch of inputs to trace the network on.

        Returns
        -------
        Path
            The file.

        Raises
        ------
        Incompatible
            If the method is `Exact`, the batch is not one tensor, or the graph is too large for the format.
        MissingExtra
            If onnx or onnxscript is not installed.
        ModelFailed
            If the network cannot be traced.
        """
        return write_onnx(self, path, batch, randomized=self._get_conformal().randomized)

    def extra_repr(self) -> str:
        """Return the layer and the coverage, for the `repr` of the module.

        Returns
        -------
        str
            A text such as "layer='avgpool', coverage=0.9".
        """
        return f"layer={self.layer!r}, " + (f"coverage={self.coverage}" if len(self.settings) else "no calibration")

    def _get_predictor(self) -> SetPredictor:
        if self._predictor is None:
            msg = "this module has no calibration yet: give it a predictor, or call load_state_dict first."
            raise Incompatible(msg)
        return self._predictor

    def _get_conformal(self) -> Conformal:
        self._get_predictor()
        return self.conformal

    def _run_network(self, batch: Any) -> tuple[Tensor, Tensor | None]:
        """Run the network on a batch in evaluation mode; return its outputs and the representations of the rows."""
        self._get_conformal()
        if torch.compiler.is_compiling():
            return self._run_on(inputs_of(batch, self.model))
        with evaluating(self.model, self._source.apart):
            return self._run_on(inputs_of(batch, self.model))

    def _run_on(self, inputs: Any) -> tuple[Tensor, Tensor | None]:
        if self._views is None:
            return run_network(self.model, inputs, self._source)
        return run_views(self.model, inputs, self._source, self._views, self._get_conformal().needed)

    def _hold(self, predictor: SetPredictor) -> None:
        """Store a predictor: its parts as tensors, its arrays for the state dict, and a hook on the layer."""
        options = self._options
        precision = Precision(DTYPES[options.dtype], tf32=options.tf32)
        conformal = Conformal(predictor, precision, normalized=options.normalized)
        _check_layer(self.model, self.layer, conformal)
        _check_views(self._views, conformal)
        writer = Writer()
        header = write_header(predictor.document(), writer)
        stored = Stored({name: column.array for name, column in writer.columns.items()})
        # A function cannot be stored; a flag says that there was one, so that loading can ask for it.
        function = callable(self.layer) and conformal.reads_representations
        layer = self.layer if isinstance(self.layer, str) else None
        text = {"format": FORMAT, "header": header, "arrays": stored.names, "layer": layer, "function": function}
        weight = first_weight(self.model)
        # A network on the meta device gets its weights, and with them its device, later.
        home = weight.device if weight is not None and weight.device.type != "meta" else torch.device("cpu")
        self._predictor, self.conformal, self.stored = predictor, conformal.to(home), stored.to(home)
        self.settings = _to_bytes({**text, **options._asdict()}).to(home)
        self.eval()
        self._tap()

    def _tap(self) -> None:
        """Put a hook on the layer; it stays, because a hook that is added and removed cannot be compiled."""
        self._untap()
        self._source = Representations(self.model, self.layer if self.conformal.reads_representations else None)
        if self._source.apart is not None:
            self._source.apart.eval()
        self._untap = finalize(self, self._source.attach())

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the hook, which belongs to this module alone."""
        return {name: value for name, value in self.__dict__.items() if name not in ("_source", "_untap")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Put a hook on the layer of this copy."""
        super().__setstate__(state)
        self._untap = int
        if "conformal" in self._modules:
            self._tap()

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *arguments: Any) -> None:
        """Create the parts that the state describes, so that torch can load every array."""
        settings = state_dict.get(f"{prefix}settings")
        if settings is None and self._predictor is None:
            msg = "the state dict holds a network without calibration. Give this module a predictor first."
            raise UnsupportedArtifact(msg)
        if settings is not None and len(settings):
            predictor, options, layer = _from_state(settings, state_dict, f"{prefix}stored.")
            if layer is True and not callable(self.layer):
                msg = (
                    "this calibration computed its representations with a function, which a state dict cannot store. "
                    "Pass the function again: ConformalModule(model, layer=function)."
                )
                raise Incompatible(msg)
            if isinstance(layer, str):
                self._layer = (layer,)
            self._options = options
            self._hold(predictor)
            self.settings = settings.detach().clone().to(self.settings.device)
        super()._load_from_state_dict(state_dict, prefix, *arguments)

    def _answer(self, logits: Tensor, rows: Tensor | None, uniforms: Tensor | None, row_ids: Any) -> ConformalSets:
        """Return sets, in blocks of rows that fit the memory; a graph takes all rows at once."""
        conformal, outputs = self._get_conformal(), logits.detach()
        with torch.no_grad():
            _check_shapes(conformal, outputs, rows)
            if not torch.compiler.is_compiling():
                mask, thresholds, _ = self._in_blocks(outputs, rows, uniforms, row_ids)
            elif conformal.thresholds.traceable or torch.compiler.is_exporting():
                given = _choose_uniforms(conformal, outputs, uniforms, row_ids)
                mask, thresholds, _ = conformal(outputs, rows, given)
            else:
                # The network is compiled, its calibration is not. A decorator would import the compiler.
                mask, thresholds, _ = torch.compiler.disable(self._in_blocks)(outputs, rows, uniforms, row_ids)
            own = logits[:, 0] if logits.ndim > 2 else logits  # noqa: PLR2004  rows, views, classes
            return ConformalSets(mask, mask.sum(1), thresholds, own)

    def _in_blocks(
        self, outputs: Tensor, rows: Tensor | None, uniforms: Tensor | None, row_ids: Any
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return members, thresholds, and the probability of the most likely label of each row."""
        conformal = self._get_conformal()
        _check_values(conformal, outputs, rows)
        given = _choose_uniforms(conformal, outputs, uniforms, row_ids)

        def answer(block: slice, *, listed: bool) -> tuple[Tensor, Tensor, Tensor]:
            tables = (None if one is None else one[block] for one in (outputs, rows, given))
            return conformal(*tables, listed=listed)  # type: ignore[no-any-return]

        found = over_blocks(len(outputs), conformal.cost, self.megabytes, answer)
        mask, thresholds, confidences = (torch.cat(parts) for parts in zip(*found, strict=True))
        return mask, thresholds, confidences


def _choose_uniforms(conformal: Conformal, outputs: Tensor, uniforms: Tensor | None, row_ids: Any) -> Tensor | None:
    """Return the uniforms as passed, or hashed from row ids; None if the score uses none or hashes the outputs."""
    if not conformal.randomized:
        return None
    if uniforms is None and row_ids is not None:
        uniforms = hash_words(row_id_words(row_ids, outputs.device), conformal.id_keys)
    if uniforms is None and torch.compiler.is_exporting():
        msg = "a graph of a randomized score needs uniforms: export it with (batch, torch.rand(len(batch)))."
        raise Incompatible(msg)
    if uniforms is None or torch.compiler.is_compiling():
        return uniforms
    uniforms = torch.as_tensor(uniforms)
    if uniforms.shape != outputs.shape[:1]:
        msg = f"uniforms and row_ids must be one for each of the {len(outputs)} rows; got {tuple(uniforms.shape)}."
        raise ShapeMismatch(msg, argument="uniforms", expected=(len(outputs),), found=tuple(uniforms.shape))
    if not bool(((uniforms >= 0) & (uniforms <= 1)).all()):
        msg = "uniforms must lie in [0, 1]."
        raise InvalidValue(msg)
    return uniforms.to(outputs.device)


def _check_shapes(conformal: Conformal, outputs: Tensor, rows: Tensor | None) -> None:
    """Refuse outputs that do not have the calibrated shape, or are on another device."""
    classes, home = conformal.n_classes, conformal.output_keys.device
    if outputs.ndim not in (2, 3) or outputs.shape[-1] != classes or not outputs.is_floating_point():
        msg = (
            f"the network must return {classes} logits per row, as in calibration; "
            f"got {outputs.dtype} {tuple(outputs.shape)}."
        )
        raise ShapeMismatch(msg, argument="outputs", expected=classes, found=tuple(outputs.shape))
    views = outputs.shape[1] if outputs.ndim > 2 else 1  # noqa: PLR2004  rows, views, classes
    if conformal.views not in (None, views) and not (conformal.views_apart and views == 1):
        msg = f"outputs must have {conformal.views} views of each row, as in calibration; got {views}."
        raise ShapeMismatch(msg, argument="outputs", expected=conformal.views, found=views)
    if outputs.device != home:
        msg = (
            f"the calibration is on {home}, but the outputs of the network are on {outputs.device}. Move the module "
            "with module.to(...)."
        )
        raise Incompatible(msg)
    for width in conformal.widths:
        if rows is None or rows.ndim != 2 or rows.shape[1] != width or rows.shape[0] != outputs.shape[0]:  # noqa: PLR2004
            came = "none" if rows is None else f"shape {tuple(rows.shape)}"
            msg = (
                f"the layer must return one representation of {width} columns for each row, as in calibration; got "
                f"{came}. Check that it is the same layer."
            )
            raise ShapeMismatch(msg, argument="representations", expected=width, found=came)


def _check_values(conformal: Conformal, outputs: Tensor, rows: Tensor | None) -> None:
    """Refuse NaN, infinities, and probabilities in place of logits or the other way round."""
    named = {name: table for name, table in (("logits", outputs), ("representations", rows)) if table is not None}
    # All are finite if the smallest and the largest are; this needs one transfer from the device.
    ends = [end.double() for table in named.values() if table.numel() for end in table.aminmax()]
    if ends and not bool(torch.stack(ends).isfinite().all()):
        name, table = next((name, table) for name, table in named.items() if not bool(table.isfinite().all()))
        row = int((~table.flatten(1).isfinite().all(1)).nonzero()[0])
        msg = f"{name} must be finite; row {{row}} of the batch holds NaN or an infinity. Remove or repair it."
        raise InvalidValue(msg, argument=name, row=row)
    if len(outputs):
        own = outputs[:, 0] if outputs.ndim > 2 else outputs  # noqa: PLR2004  rows, views, classes
        check_normalized(own, PROPER[outputs.dtype.itemsize], normalized=conformal.probabilities.normalized)


def _check_views(views: Views | None, conformal: Conformal) -> None:
    """Refuse another number of views than the predictor was calibrated with."""
    given = 1 if views is None else len(views)
    if conformal.views in (None, given) or (conformal.views_apart and given == 1):
        return
    msg = (
        f"the predictor reads {conformal.views} views of each row; pass the views that collect was given: got {given}."
    )
    raise ShapeMismatch(msg, argument="views", expected=conformal.views, found=given)


def _check_layer(model: nn.Module, layer: Layer, conformal: Conformal) -> None:
    """Refuse a layer that the model does not have, and a missing layer if one is needed."""
    if conformal.reads_representations and layer is None:
        msg = "this predictor reads representations: pass the layer that they come from."
        raise Incompatible(msg)
    if conformal.reads_representations:
        Representations(model, layer)


def _to_bytes(settings: dict[str, Any]) -> Tensor:
    """Return settings as a tensor of bytes, (length,), that a state dict can store."""
    return torch.from_numpy(np.frombuffer(json.dumps(settings).encode(), np.uint8).copy())


def _from_state(
    settings: Tensor, state: Mapping[str, Tensor], prefix: str
) -> tuple[SetPredictor, ModuleOptions, str | bool | None]:
    """Return the predictor, the options and the layer (True: a function) of a state dict."""
    try:
        found = strict_json(settings.detach().cpu().numpy().astype(np.uint8).tobytes().decode())
        if found["format"] != FORMAT:
            msg = f"the state dict has format {found['format']!r}; this vicinal reads {FORMAT}. Update vicinal."
            raise UnsupportedArtifact(msg)  # noqa: TRY301
        arrays = {name: state[f"{prefix}array{number}"].cpu().numpy() for number, name in enumerate(found["arrays"])}
        predictor = make_predictor(read_header(found["header"], arrays), anew=False)
        options = ModuleOptions(found["normalized"], found["dtype"], found["tf32"])
        if not (type(options.normalized) is type(options.tf32) is bool and options.dtype in DTYPES):
            raise TypeError("its options")  # noqa: TRY301
        layer = True if found["function"] else found["layer"]
    except UnsupportedArtifact:
        raise
    except (VicinalError, ValueError, TypeError, LookupError, AttributeError, RuntimeError) as error:
        msg = f"the state dict is damaged, or was cast to other types: {one_line(error)}"
        raise CorruptArtifact(msg) from error
    return _check_predictor(predictor), options, layer


def _check_predictor(predictor: object) -> SetPredictor:
    """Refuse anything but a SetPredictor."""
    if not isinstance(predictor, SetPredictor):
        hint = " For intervals, pass the outputs that collect returns to predictor.predict."
        hint = hint if isinstance(predictor, IntervalPredictor) else ""
        msg = f"predictor must be a SetPredictor, made by calibrate or load; got {type(predictor).__name__}.{hint}"
        raise Incompatible(msg)
    return predictor
