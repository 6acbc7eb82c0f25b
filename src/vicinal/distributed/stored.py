"""A predictor in shards on disk: a folder with a head, which says what it is, and a file for each shard.

    head.vicinal             parts, coverage, promise; rows, ranked rows and empty balls of each shard
    shard-00000.vicinal ...  rows that can be neighbors, their scores, and what was found for them

Files are of the container that saved predictors use, with their checksums; the head is written last.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vicinal._util.files import replacing
from vicinal._util.stored import StoredArrays
from vicinal._util.text import one_line, strict_json
from vicinal.calibration.exact import LENGTHS, SUMS
from vicinal.calibration.plug_in import restore_pairs
from vicinal.calibration.rows import ReferenceRows
from vicinal.distributed.shard import Shard
from vicinal.errors import CorruptArtifact, MissingFile, UnsupportedArtifact, VicinalError
from vicinal.kernels.exact import Joined
from vicinal.neighbors import Reference
from vicinal.persistence.artifact import HEAD, SHARDED, ArtifactInfo, Document
from vicinal.persistence.artifact import load as load_document
from vicinal.persistence.container import StoredColumn, read, write

SHARD = re.compile(r"shard-[0-9]{5}\.vicinal|\.shard-[0-9]{5}\.vicinal(\.[0-9]+)?\.part")
"""Names of a shard, and of one that was being written."""


@dataclass(frozen=True)
class ShardNote:
    """What the file of a shard says of itself."""

    job: str  # digest of what was calibrated, on what
    number: int
    empty: int  # rows whose ball was empty
    own: bool  # the ranked rows are those that can be neighbors
    joins: bool  # sums for a point that joins are kept
    arithmetic: str  # what distances were like where its rows were ranked


def shard_path(folder: str | Path, number: int) -> Path:
    """Return where a shard is stored."""
    return Path(folder) / f"shard-{number:05d}.vicinal"


def write_shard(folder: str | Path, shard: Shard, note: ShardNote, apart: str = "") -> None:
    """Write a shard to its file, whole or not at all."""
    arrays: dict[str, NDArray[Any]] = {**shard.reference.to_arrays(), "ranks": shard.ranks, "values": shard.values}
    arrays["empty"] = np.array([note.empty])
    if shard.joined is not None:
        arrays |= {name: getattr(shard.joined, name) for name in (*LENGTHS, *SUMS, "near_count", "alone")}
    columns = {name: StoredColumn(array, array.dtype) for name, array in arrays.items()}
    with replacing(shard_path(folder, note.number), apart) as file:
        write(file, json.dumps({"kind": "shard", **note.__dict__}), columns)


def read_shard(path: str | Path) -> tuple[Shard, ShardNote]:
    """Return a shard, its arrays where they lie in the file; every byte is checked first."""
    contents = read(path)
    try:
        said = strict_json(contents.header)
        if said.pop("kind", None) != "shard":
            msg = f"{path} is not a shard of a predictor."
            raise UnsupportedArtifact(msg)  # noqa: TRY301
        note = ShardNote(**said)
        return _restore_shard(StoredArrays(contents.arrays), note), note
    except UnsupportedArtifact:
        raise
    except (VicinalError, ValueError, TypeError, LookupError, AttributeError) as error:
        msg = f"{path} is damaged: {one_line(error)}"
        raise CorruptArtifact(msg) from error


def _restore_shard(kept: StoredArrays, note: ShardNote) -> Shard:
    n = len(kept.floats("scores"))
    reference = ReferenceRows.restore(kept) if n else _nobody(kept)
    ranks, values = kept.arrays["ranks"], kept.arrays["values"]
    if len(ranks):
        ranks, values, _ = restore_pairs(kept)
    own_scores = reference.scores if note.own else np.sort(values)
    shard = Shard(reference, ranks, values, own_scores)
    if not note.joins:
        return shard
    sums: dict[str, Any] = {name: kept.sums(name, n) for name in SUMS}
    sums |= {name: kept.lengths(name, n) for name in LENGTHS}
    sums |= {"near_count": kept.counts("near_count", n, most=2**62), "alone": kept.flags("alone", n)}
    return shard.joining(Joined.empty(np.zeros(n, np.int64))._replace(**sums))


def _nobody(kept: StoredArrays) -> ReferenceRows:
    """Return the rows of a shard whose rows are all ranked, none of them a neighbor."""
    nothing = np.empty(0, np.int64)
    rows = Reference.of(kept.table("rows")[:0], nothing)
    return ReferenceRows(rows, np.empty(0), kept.arrays["targets"], nothing)


def read_head(folder: str | Path) -> tuple[ArtifactInfo, Document]:
    """Return what the head of a predictor in shards says."""
    path = Path(folder).expanduser()
    if not path.is_dir():
        more = "it is a file: use vicinal.load" if path.exists() else "there is no such folder"
        msg = f"{folder} holds no predictor in shards: {more}."
        raise MissingFile(msg)
    if not (path / HEAD).exists():
        msg = f"{folder} holds no predictor in shards: it has no {HEAD}, which is written when all shards are ready."
        raise MissingFile(msg)
    info, document = load_document(path / HEAD)
    if document.kind not in SHARDED:
        msg = f"{path / HEAD} is not the head of a predictor in shards."
        raise UnsupportedArtifact(msg)
    return info, document


def is_sharded(path: object) -> bool:
    """Return whether a path leads to a predictor in shards."""
    return isinstance(path, (str, Path)) and Path(path).expanduser().is_dir()
