"""Options of `vicinal predict` for a Ray cluster."""

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
    """Where the prediction runs."""

    LOCAL = "local"
    RAY = "ray"


@dataclass(frozen=True)
class Cluster:
    """Options for the cluster; None means the default of `predict_partitions`."""

    address: str | None
    workers: int | None
    partition_rows: int | None
    patience: float | None

    def check_unused(self) -> None:
        """Refuse options for a cluster without --engine ray."""
        said = next((one.name for one in fields(self) if getattr(self, one.name) is not None), None)
        if said is not None:
            msg = f"--{said.replace('_', '-')} is an option for --engine ray: add --engine ray, or leave it out."
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
        with redirect_stdout(sys.stderr):  # Ray prints warnings there
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
    """Refuse an output that cannot be a folder of partitions."""
    if out == "-":
        msg = "--engine ray writes a folder of .parquet files: name the folder with --out."
        raise CannotWrite(msg)
    if same_file(out, model):
        msg = f"cannot write {out}: it is the model file. Name a folder."
        raise CannotWrite(msg)
