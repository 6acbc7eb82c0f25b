"""What `vicinal predict` is told about a cluster."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import dataclass, fields
from enum import StrEnum
from pathlib import Path
from typing import Any

from vicinal._util.files import same_file
from vicinal.cli.parts import IMPORTED
from vicinal.errors import CannotWrite, Incompatible
from vicinal.tables.batch import Wanted
from vicinal.tables.batch.job import Done
from vicinal.tables.rows import Rows


class WorkPlace(StrEnum):
    """Where work is done."""

    LOCAL = "local"
    RAY = "ray"


@dataclass(frozen=True)
class Cluster:
    """Which cluster, and how much of it; None is as `predict_partitions` has it."""

    address: str | None
    workers: int | None
    partition_rows: int | None
    patience: float | None

    def check_unused(self) -> None:
        """Refuse what is said of a cluster where none is asked for."""
        said = next((one.name for one in fields(self) if getattr(self, one.name) is not None), None)
        if said is not None:
            msg = f"--{said.replace('_', '-')} is for --engine ray; the work is done here."
            raise Incompatible(msg)

    def predict(
        self,
        model: Path,
        rows: Rows,
        out: str,
        *,
        coverage: float | None,
        wanted: Wanted,
        memory: str | None,
        advance: Callable[[int], object],
    ) -> Done:
        """Predict on the cluster."""
        from vicinal.distributed import predict_partitions

        said: dict[str, Any] = {one.name: getattr(self, one.name) for one in fields(self)}
        with redirect_stdout(sys.stderr):  # Ray prints warnings of its own there; ours is the answer alone
            return predict_partitions(
                model,
                rows,
                out,
                coverage=coverage,
                p_values=wanted.p_values,
                neighbors=wanted.neighbors,
                memory=memory,
                advance=advance,
                imports=tuple(IMPORTED),
                **{name: value for name, value in said.items() if value is not None},
            )


def check_folder(out: str, model: Path) -> None:
    """Refuse what a cluster cannot write partitions to."""
    if out == "-":
        msg = "a cluster writes a folder of .parquet files: name one with --out."
        raise CannotWrite(msg)
    if same_file(out, model):
        msg = f"cannot write {out}: it is the model itself. Name a folder."
        raise CannotWrite(msg)
