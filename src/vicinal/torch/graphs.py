"""Export a conformal module to ONNX, which runs without this library."""

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
"""Most bytes of an ONNX file, whose format counts them with 31 bits."""


def write_onnx(module: nn.Module, path: str | Path, batch: Tensor, *, randomized: bool) -> Path:
    """Trace a conformal module on a batch, for any number of rows, and write one complete ONNX file."""
    if not isinstance(batch, Tensor):
        msg = (
            f"an ONNX graph is traced on a batch that is one tensor; got {type(batch).__name__}. Wrap a network with "
            "several inputs in a network with one input, and calibrate that."
        )
        raise Incompatible(msg)
    with needs("onnx", "onnx"), needs("onnxscript", "onnx"):
        import onnx  # noqa: F401
        import onnxscript  # noqa: F401
    rows = torch.export.Dim("rows", min=1)
    # With a batch of one row, the exporter would treat the number of rows as constant.
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
        msg = f"the network cannot be exported as a graph: {type(error).__name__}: {said}"
        raise ModelFailed(msg) from error
    assert program is not None  # noqa: S101  with dynamo=True it is a program
    data = program.model_proto
    if data.ByteSize() > MOST_BYTES:
        msg = (
            f"the graph has {data.ByteSize():,} bytes; an ONNX file may have at most {MOST_BYTES:,}. Use fewer "
            "reference rows."
        )
        raise Incompatible(msg)
    with replacing(path) as file:
        file.write(data.SerializeToString())
    return Path(path)


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence the messages of the exporter, which are not about this graph."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
