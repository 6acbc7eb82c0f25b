"""A network with its calibration: an nn.Module that answers a batch with sets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self
from weakref import finalize

import numpy as np
import torch
from torch import Tensor, nn

from vicinal._arrays import PROPER, positive
from vicinal.calibration.promises import Guarantee, tied_rows
from vicinal.errors import (
    CorruptArtifact,
    Incompatible,
    InvalidLevel,
    InvalidValue,
    ShapeMismatch,
    UnsupportedArtifact,
)
from vicinal.quantiles import Coverage, exact_coverage, read_coverage, written_coverage
from vicinal.regions import PredictionSets
from vicinal.torch.batches import inputs_of
from vicinal.torch.blocks import MEGABYTES, over_blocks
from vicinal.torch.conformal import PARTS, Conformal
from vicinal.torch.facts import Facts
from vicinal.torch.graphs import write_onnx
from vicinal.torch.layers import Layer, Representations, layer_name, plain
from vicinal.torch.parts import from_text, restored, to_text
from vicinal.torch.running import check_normalized, evaluating, first_weight, ran
from vicinal.torch.uniforms import hashed, row_id_words

if TYPE_CHECKING:
    from vicinal.predictor import SetPredictor


class ConformalSets(NamedTuple):
    """What a conformal module answers for a batch of b rows."""

    mask: Tensor  # (b, classes) bool: which labels belong
    sizes: Tensor  # (b,) int64
    thresholds: Tensor  # (b,) float64: a label belongs where its score is at most this
    logits: Tensor  # (b, classes) as the network gave them


class ConformalModule(nn.Module):
    """A network that answers a batch with sets of labels: `module(batch).mask`, calibrated as `predictor` is.

    `layer` is what `collect` was given: the name of a layer, a layer, or a function of the inputs. The calibration is
    held in buffers, so `.to(device)` moves it and `state_dict()` saves it; in a fresh process,
    `ConformalModule(model)` followed by `load_state_dict(state)` restores both. The network is put in evaluation mode.
    `normalized` says that it returns probabilities, not logits. `dtype` is the type in which distances are taken, by
    default that of the calibration rows; `tf32` lets a GPU round the factors of float32 products. `megabytes` bounds
    the memory of a block of rows.

    Examples
    --------
    >>> import vicinal as vc
    >>> network = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 3))
    >>> rows = torch.randn(100, 2)
    >>> outputs, labels = vc.torch.collect(network, [(rows, torch.arange(100) % 3)], layer="1")
    >>> predictor = vc.calibrate(outputs, labels, 0.9, localizer=vc.Uniform(20))
    >>> module = ConformalModule(network, predictor, layer="1")
    >>> module(rows).mask.shape
    torch.Size([100, 3])
    """

    settings: Tensor
    conformal: Conformal
    _source: Representations
    _layer: tuple[Layer]  # not an attribute of its own: a layer would become a child

    def __init__(
        self,
        model: nn.Module,
        predictor: SetPredictor | None = None,
        layer: Layer = "avgpool",
        *,
        normalized: bool = False,
        dtype: torch.dtype | None = None,
        tf32: bool = False,
        megabytes: float = MEGABYTES,
    ) -> None:
        super().__init__()
        network = plain(model)
        if dtype not in (None, torch.float32, torch.float64):
            raise InvalidLevel("dtype", dtype, "torch.float32, torch.float64, or None for the type of the rows")
        self.megabytes = positive("megabytes", megabytes)
        named = layer_name(network, layer) if isinstance(layer, nn.Module) else None
        self._layer = (layer if named is None else named,)
        self._untap: Callable[[], object] = int
        conformal = None
        if predictor is not None:
            conformal = _translated(predictor, normalized=normalized, dtype=dtype, tf32=tf32)
            _check_layer(network, self.layer, conformal)
        self.model = network
        self.register_buffer("settings", torch.zeros(0, dtype=torch.uint8))
        self.eval()
        if predictor is not None and conformal is not None:
            self._hold(conformal, Facts.of(predictor))

    @property
    def layer(self) -> Layer:
        """Where representations come from: the name of a layer, or a function of the inputs."""
        return self._layer[0]

    def train(self, mode: bool = True) -> Self:  # noqa: FBT001, FBT002
        """Stay in evaluation mode: sets hold for the network as it was calibrated; train `module.model` itself."""
        del mode
        return super().train(mode=False)

    @property
    def coverage(self) -> Coverage:
        """The coverage that was asked for."""
        return read_coverage(self._facts.coverage)

    @property
    def guarantee(self) -> Guarantee:
        """What is promised, in numbers and, as `str`, in words."""
        scores = self._held().thresholds.ranked_scores.cpu().numpy()
        found = self._facts.promise.guarantee(self.coverage, len(scores), tied_rows(scores))
        return replace(found, words=f"{found.words} {self._facts.remark}".strip())

    @property
    def class_names(self) -> tuple[str, ...] | None:
        """The names of the classes, where they were given."""
        return self._facts.class_names

    def forward(
        self, batch: Any, uniforms: Tensor | None = None, row_ids: Tensor | Sequence[int] | Sequence[str] | None = None
    ) -> ConformalSets:
        """Return sets for a batch: a tensor, a tuple of arguments, or a dict of named ones, whose targets are left out.

        A randomized score takes its U from `uniforms` (b,) in [0, 1], or from `row_ids`, which give the same U on every
        device; without either, from the bits of the logits.
        """
        logits, rows = self._ran(batch)
        return self._answer(logits, rows, uniforms, row_ids)

    def predict(
        self, batch: Any, uniforms: Tensor | None = None, row_ids: Tensor | Sequence[int] | Sequence[str] | None = None
    ) -> PredictionSets:
        """Return the same sets in memory, with class names where they were given: for `evaluate` and `.labels()`."""
        logits, rows = self._ran(batch)
        _check_shapes(self.conformal, logits, rows)
        with torch.no_grad():
            found = self._in_blocks(logits.detach(), rows, uniforms, row_ids)
        members, thresholds, confidences = (one.cpu().numpy() for one in found)
        names, coverage = self.class_names, float(exact_coverage(self.coverage))
        return PredictionSets(members, thresholds, confidences.astype(np.float64), names, coverage)

    def sets_of(
        self,
        logits: Tensor,
        representations: Tensor | None = None,
        uniforms: Tensor | None = None,
        row_ids: Tensor | Sequence[int] | Sequence[str] | None = None,
    ) -> ConformalSets:
        """Return sets for what the network said before: logits (b, classes) and representations (b, d)."""
        for name, table in (("logits", logits), ("representations", representations)):
            if not (isinstance(table, Tensor) or (table is None and name == "representations")):
                msg = f"{name} must be a tensor; got {type(table).__name__}. Use torch.from_numpy(...)."
                raise Incompatible(msg)
        return self._answer(logits, representations, uniforms, row_ids)

    def at(self, coverage: Coverage) -> ConformalModule:
        """Return a module for another coverage; it shares the network."""
        conformal, facts = self._held(), self._facts
        described = conformal.described()
        ranked = len(conformal.thresholds.ranked_scores)
        described["parts"]["thresholds"]["numbers"] = {"order": facts.promise.order(coverage, ranked)}
        again = restored(described, conformal.state_dict(), "", PARTS)
        assert isinstance(again, Conformal)  # noqa: S101  a description of one
        found = ConformalModule(self.model, layer=self.layer, megabytes=self.megabytes)
        found._hold(again, replace(facts, coverage=written_coverage(coverage)))
        return found

    def to_onnx(self, path: str | Path, batch: Tensor) -> Path:
        """Write network and calibration as one ONNX graph, traced on a batch, for any number of rows.

        Its outputs are mask, sizes, thresholds and logits; its inputs are batch and, for a randomized score, uniforms.
        """
        return write_onnx(self, path, batch, randomized=self._held().randomized)

    def extra_repr(self) -> str:
        """Return layer and coverage."""
        return f"layer={self.layer!r}, " + (f"coverage={self.coverage}" if len(self.settings) else "no calibration")

    @property
    def _facts(self) -> Facts:
        self._held()
        return Facts.read(from_text(self.settings))

    def _held(self) -> Conformal:
        if "conformal" not in self._modules:
            msg = "this module has no calibration yet: give it a predictor, or call load_state_dict first."
            raise Incompatible(msg)
        return self.conformal

    def _ran(self, batch: Any) -> tuple[Tensor, Tensor | None]:
        """Return what the network says of a batch in evaluation mode, and the representations of its rows."""
        self._held()
        if torch.compiler.is_compiling():
            return ran(self.model, inputs_of(batch, self.model), self._source)
        with evaluating(self.model, self._source.apart):
            return ran(self.model, inputs_of(batch, self.model), self._source)

    def _hold(self, conformal: Conformal, facts: Facts) -> None:
        """Take the parts, write down what they are, and tap the layer."""
        weight = first_weight(self.model)
        # A network without weights yet is given them, and a device with them, later.
        moved = weight is not None and weight.device.type != "meta"
        self.conformal = conformal.to(weight.device) if weight is not None and moved else conformal
        self.conformal.eval()
        # A function cannot be kept: that there was one is said, so that it is asked for again.
        function = callable(self.layer) and bool(conformal.widths)
        named = {"layer": self.layer if isinstance(self.layer, str) else None, "function": function}
        described = {**asdict(facts), **named, "conformal": conformal.described()}
        self.settings = to_text(described).to(self.conformal.output_keys.device)
        self._tap()

    def _tap(self) -> None:
        """Put a tap on the layer; it stays, since a hook that comes and goes cannot be compiled."""
        self._untap()
        self._source = Representations(self.model, self.layer if self.conformal.widths else None)
        if self._source.apart is not None:
            self._source.apart.eval()
        self._untap = finalize(self, self._source.attach())

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the tap, which belongs to this module alone."""
        return {name: value for name, value in self.__dict__.items() if name not in ("_source", "_untap")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Put a tap on the layer of this copy."""
        super().__setstate__(state)
        self._untap = int
        if "conformal" in self._modules:
            self._tap()

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *arguments: Any) -> None:
        """Make the parts that the state describes, so that torch finds room for every array."""
        settings = state_dict.get(f"{prefix}settings")
        if settings is None and "conformal" not in self._modules:
            msg = "the state dict holds no calibration: it is a network's alone. Give this module a predictor."
            raise UnsupportedArtifact(msg)
        if settings is not None and len(settings):
            described = from_text(settings)
            found = restored(described.get("conformal"), state_dict, f"{prefix}conformal.", PARTS)
            if not isinstance(found, Conformal):
                msg = "the state dict is damaged: it does not describe a calibration."
                raise CorruptArtifact(msg)
            facts, layer = Facts.read(described), described.get("layer")
            facts.check_classes(found.n_classes)
            if described.get("function") and not callable(self.layer):
                msg = (
                    "this calibration took its representations from a function, which a state dict cannot hold: give "
                    "it again, as in ConformalModule(model, layer=function)."
                )
                raise Incompatible(msg)
            layer = self.layer if layer is None else layer
            _check_layer(self.model, layer, found)
            self._layer = (layer,)
            self._hold(found, facts)
            self.settings = settings.detach().clone().to(self.settings.device)
        super()._load_from_state_dict(state_dict, prefix, *arguments)

    def _answer(self, logits: Tensor, rows: Tensor | None, uniforms: Tensor | None, row_ids: Any) -> ConformalSets:
        """Return sets, block by block of as many rows as fit the memory; a graph takes all rows at once."""
        conformal, outputs = self._held(), logits.detach()
        with torch.no_grad():
            _check_shapes(conformal, outputs, rows)
            if not torch.compiler.is_compiling():
                mask, thresholds, _ = self._in_blocks(outputs, rows, uniforms, row_ids)
            elif conformal.thresholds.traceable or torch.compiler.is_exporting():
                given = _chosen_uniforms(conformal, outputs, uniforms, row_ids)
                mask, thresholds, _ = conformal(outputs, rows, given)
            else:
                # The network is compiled, its calibration not. Said here: a decorator would import the compiler.
                mask, thresholds, _ = torch.compiler.disable(self._in_blocks)(outputs, rows, uniforms, row_ids)
            return ConformalSets(mask, mask.sum(1), thresholds, logits)

    def _in_blocks(
        self, outputs: Tensor, rows: Tensor | None, uniforms: Tensor | None, row_ids: Any
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return members, thresholds, and the probability of each row's top label."""
        conformal = self._held()
        _check_values(conformal, outputs, rows)
        given = _chosen_uniforms(conformal, outputs, uniforms, row_ids)

        def answer(block: slice, *, listed: bool) -> tuple[Tensor, Tensor, Tensor]:
            tables = (None if one is None else one[block] for one in (outputs, rows, given))
            return conformal(*tables, listed=listed)  # type: ignore[no-any-return]

        found = over_blocks(len(outputs), conformal.cost, self.megabytes, answer)
        mask, thresholds, confidences = (torch.cat(parts) for parts in zip(*found, strict=True))
        return mask, thresholds, confidences


def _chosen_uniforms(conformal: Conformal, outputs: Tensor, uniforms: Tensor | None, row_ids: Any) -> Tensor | None:
    """Return U as passed, or hashed from row ids; None where the score uses none, or hashes the outputs."""
    if not conformal.randomized:
        return None
    if uniforms is None and row_ids is not None:
        uniforms = hashed(row_id_words(row_ids, outputs.device), conformal.id_keys)
    if uniforms is None and torch.compiler.is_exporting():
        msg = "a graph of a randomized score takes uniforms: export with (batch, torch.rand(len(batch)))."
        raise Incompatible(msg)
    if uniforms is None or torch.compiler.is_compiling():
        return uniforms
    uniforms = torch.as_tensor(uniforms)
    if uniforms.shape != outputs.shape[:1]:
        msg = f"uniforms and row_ids must be one for each of the {len(outputs)} rows; got {tuple(uniforms.shape)}."
        raise ShapeMismatch(msg)
    if not bool(((uniforms >= 0) & (uniforms <= 1)).all()):
        msg = "uniforms must lie in [0, 1]."
        raise InvalidValue(msg)
    return uniforms.to(outputs.device)


def _check_shapes(conformal: Conformal, outputs: Tensor, rows: Tensor | None) -> None:
    """Refuse outputs of another shape than was calibrated, or on another device."""
    classes, home = conformal.n_classes, conformal.output_keys.device
    if outputs.ndim != 2 or outputs.shape[1] != classes or not outputs.is_floating_point():  # noqa: PLR2004
        msg = (
            f"the network must give {classes} logits a row, as it did when the predictor was calibrated; "
            f"got {outputs.dtype} {tuple(outputs.shape)}."
        )
        raise ShapeMismatch(msg)
    if outputs.device != home:
        msg = f"the calibration is on {home} and the network answers on {outputs.device}; use module.to(...)."
        raise Incompatible(msg)
    for width in conformal.widths:
        if rows is None or rows.ndim != 2 or rows.shape[1] != width or rows.shape[0] != outputs.shape[0]:  # noqa: PLR2004
            came = "none" if rows is None else f"shape {tuple(rows.shape)}"
            msg = (
                f"the layer must give representations of {width} columns, one for each row, as in calibration; got "
                f"{came}. Is it the same layer?"
            )
            raise ShapeMismatch(msg)


def _check_values(conformal: Conformal, outputs: Tensor, rows: Tensor | None) -> None:
    """Refuse NaN, infinities, and logits that should be probabilities or the other way round."""
    named = {name: table for name, table in (("logits", outputs), ("representations", rows)) if table is not None}
    # The smallest and the largest tell in one pass whether all are finite; one look at the device is enough for both.
    ends = [end.double() for table in named.values() if table.numel() for end in table.aminmax()]
    if ends and not bool(torch.stack(ends).isfinite().all()):
        name, table = next((name, table) for name, table in named.items() if not bool(table.isfinite().all()))
        row = int((~table.isfinite().all(1)).nonzero()[0])
        msg = f"{name} must be finite; row {row} of the batch holds NaN or an infinity. Remove or repair it."
        raise InvalidValue(msg)
    if len(outputs):
        check_normalized(outputs, PROPER[outputs.dtype.itemsize], normalized=conformal.probabilities.normalized)


def _check_layer(model: nn.Module, layer: Layer, conformal: Conformal) -> None:
    """Refuse a layer that the model does not have, and none where one is needed."""
    if conformal.widths and layer is None:
        msg = "this predictor looks at representations: name the layer that they come from."
        raise Incompatible(msg)
    if conformal.widths:
        Representations(model, layer)


def _translated(predictor: object, *, normalized: bool, dtype: torch.dtype | None, tf32: bool) -> Conformal:
    """Return the parts of a predictor on tensors; refuse what is no predictor of sets."""
    # Here and not above: the predictor's side of the library needs more than torch and numpy to be imported.
    from vicinal.predictor import IntervalPredictor, SetPredictor
    from vicinal.torch.translating import map_part, probability_part, reference_part, score_part, threshold_part

    if not isinstance(predictor, SetPredictor):
        hint = " For intervals, give what collect returns to predictor.predict."
        hint = hint if isinstance(predictor, IntervalPredictor) else ""
        msg = f"predictor must be a SetPredictor, made by calibrate or load; got {type(predictor).__name__}.{hint}"
        raise Incompatible(msg)
    located = partial(reference_part, dtype=dtype, tf32=tf32)
    return Conformal(
        n_classes=predictor.n_classes,
        seed=None if predictor.nonconformity.seed is None else int(predictor.nonconformity.seed),
        score=score_part(predictor.nonconformity),
        probabilities=probability_part(predictor.probabilities, located, normalized=normalized),
        representation=map_part(predictor.representation),
        thresholds=threshold_part(predictor, located),
    )
