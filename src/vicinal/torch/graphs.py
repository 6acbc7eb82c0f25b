"""Graphs of a conformal module that run without this library: ONNX."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import Tensor, nn

from vicinal._util.extras import needs
from vicinal._util.files import replacing
from vicinal.errors import Incompatible, ModelFailed, VicinalError

OUTPUTS = ["mask", "sizes", "thresholds", "logits"]
"""Names of a graph's outputs."""

MOST_BYTES = 2**31 - 2**20
"""Bytes of an ONNX file: its format counts them with 31 bits."""


def write_onnx(module: nn.Module, path: str | Path, batch: Tensor, *, randomized: bool) -> Path:
    """Trace a conformal module on a batch, for any number of rows, and write one ONNX file, whole or not at all."""
    if not isinstance(batch, Tensor):
        msg = (
            f"an ONNX graph is traced on a batch that is one tensor; got {type(batch).__name__}. Wrap a network of "
            "several inputs in one that takes a single tensor, and calibrate that."
        )
        raise Incompatible(msg)
    with needs("onnx", "onnx"), needs("onnxscript", "onnx"):
        import onnx  # noqa: F401
        import onnxscript  # noqa: F401
    rows = torch.export.Dim("rows", min=1)
    # A batch of one would be taken for a number that never changes.
    given = batch if batch.shape[0] > 1 else torch.cat([batch, batch])
    inputs = (given, torch.full((given.shape[0],), 0.5, dtype=torch.float64)) if randomized else (given,)
    names = ["batch", "uniforms"][: len(inputs)]
    try:
        with _quiet():
            traced = torch.export.export(module, inputs, dynamic_shapes=tuple({0: rows} for _ in inputs))
            program = torch.onnx.export(traced, dynamo=True, input_names=names, output_names=OUTPUTS, verbose=False)
    except VicinalError:
        raise
    except Exception as error:
        said = next(iter(str(error).strip().splitlines()), "")
        msg = f"the network cannot be written as a graph: {type(error).__name__}: {said}"
        raise ModelFailed(msg) from error
    assert program is not None  # noqa: S101  with dynamo=True it is a program
    data = program.model_proto
    if data.ByteSize() > MOST_BYTES:
        msg = (
            f"the graph takes {data.ByteSize():,} bytes, an ONNX file at most {MOST_BYTES:,}: use fewer reference rows."
        )
        raise Incompatible(msg)
    with replacing(path) as file:
        file.write(data.SerializeToString())
    return Path(path)


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep what the exporter says of itself from the user: none of it is about this graph."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
