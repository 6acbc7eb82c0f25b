"""From named columns to model outputs and targets: which columns are needed, and errors for missing ones."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import cached_property
from typing import Any, TypeVar

from numpy.typing import NDArray

from vicinal.errors import InvalidArgument, InvalidFile, Option, TooLittleMemory, VicinalError
from vicinal.outputs import ModelOutputs
from vicinal.tables.files import KNOWN, STANDARD_INPUT, join_names
from vicinal.tables.table import Columns, Table

OUTPUTS = {
    "logits": ("logits",),
    "probabilities": ("probabilities",),
    "predictions": ("predictions",),
    "quantiles": ("lower", "upper"),
}
"""Kinds of model outputs, and the columns that each needs."""

COMPANIONS = {"predictions": ("representations", "scales", "row_ids"), "quantiles": ("representations", "row_ids")}
CLASSIFIED = ("representations", "row_ids", "uniforms")
"""Optional columns for each kind of outputs."""

STEMS = ("logit", "probability", "representation")
"""Names of columns that are split into one column for each number, name_0, name_1, ..."""

TARGETS = ("labels", "targets")
"""Names of the column of targets."""

ANSWERS = (
    *("row_id", "set", "size", "lower", "upper", "length", "threshold", "confidence", "members", "p_values"),
    *("neighbors", "neighbor_distances", "neighbor_weights", "class_names", "about"),
)
"""Names of all columns of an output file."""

MOST_COMPARED = 10_000
"""Most names of columns among which a misspelled one is looked for: each comparison takes some microseconds."""

GUESSED_WIDTH = 2**12
"""Estimated number of numbers in a row of standard input."""

Result = TypeVar("Result")


@dataclass(frozen=True, eq=False)
class RowChunk:
    """Consecutive rows of a table."""

    first: int  # number of the first row
    outputs: ModelOutputs
    targets: NDArray[Any] | None
    kept: Columns


@dataclass(frozen=True)
class Rows:
    """A table whose columns are recognized as outputs of a model, with or without targets."""

    table: Table
    kind: str
    columns: Mapping[str, str]  # known name -> name in the table
    truth: str | None
    class_names: Sequence[str] | None
    kept: tuple[str, ...] = ()  # columns that are copied to the answers

    @cached_property
    def width(self) -> int:
        """Numbers in a row, taken from the first row; for standard input, which is read only once, an estimate."""
        if self.table.identity()["path"] == STANDARD_INPUT:
            return GUESSED_WIDTH
        with closing(self.table.chunks(list(dict.fromkeys(self.columns.values())), 1)) as chunks:  # type: ignore[type-var]
            first = next(chunks, {})
        return sum(math.prod(column.shape[1:]) for column in first.values())

    @property
    def carried(self) -> tuple[str, ...]:
        """Columns that are kept and mean nothing else, so that they may hold anything."""
        return tuple(name for name in self.kept if name not in {*self.columns.values(), self.truth})

    def without(self, meaning: str) -> Rows:
        """Return the rows without one of their columns, which is then not read."""
        return replace(self, columns={name: column for name, column in self.columns.items() if name != meaning})

    def each(
        self,
        work: Callable[[RowChunk], Result],
        rows: int,
        start: int = 0,
        stop: int | None = None,
    ) -> Iterator[Result]:
        """Yield `work(chunk)` for chunks of `rows` rows, from row `start` up to but not including `stop`.

        Errors name the table, and count rows from the beginning of the whole table.
        """
        wanted, first = self._columns_to_read(), start
        with closing(self.table.carry(self.carried).chunks(wanted, rows, start)) as chunks:  # type: ignore[type-var]
            for whole in chunks:
                chunk = whole if stop is None else {name: column[: stop - first] for name, column in whole.items()}
                with self._name_place(first):
                    truth = None if self.truth is None else chunk[self.truth]
                    kept = self._kept_columns(chunk)
                    found = work(RowChunk(first, self._outputs(chunk), truth, kept))
                yield found
                first += len(chunk[wanted[0]])
                if first == stop:
                    return
        if first == start == 0:
            raise self._no_rows()

    def _columns_to_read(self) -> list[str]:
        """Return the columns to read."""
        truth = () if self.truth is None else (self.truth,)
        return list(dict.fromkeys([*self.columns.values(), *truth, *self.kept]))

    def _no_rows(self) -> InvalidFile:
        return InvalidFile(f"{self.table.name} must have at least one row; it has none.")

    def whole(self) -> tuple[ModelOutputs, NDArray[Any] | None]:
        """Return outputs and targets of all rows."""
        chunk = self.read_all()
        return chunk.outputs, chunk.targets

    def read_all(self) -> RowChunk:
        """Return all rows at once."""
        found = self.table.whole(self._columns_to_read())
        if not found:
            raise self._no_rows()
        with self._name_place(0):
            truth = None if self.truth is None else found[self.truth]
            return RowChunk(0, self._outputs(found), truth, self._kept_columns(found))

    def _kept_columns(self, chunk: Columns) -> Columns:
        kept = {name: chunk[name] for name in self.kept}
        views = next((name for name, column in kept.items() if getattr(column, "ndim", 1) > 2), None)  # noqa: PLR2004
        if views is not None:
            msg = f"the column {views!r} cannot be kept: it has several views of each row."
            raise InvalidFile(msg)
        return kept

    @contextmanager
    def _name_place(self, first: int) -> Iterator[None]:
        """Add the name of the table to errors, and number rows from its beginning, not from that of the chunk."""
        try:
            yield
        except (TooLittleMemory, InvalidArgument):  # they concern the call, not the rows
            raise
        except VicinalError as error:
            placed = error.with_row(lambda row: row + first)
            raise InvalidFile(f"{self.table.name}: {placed.message}", **placed.facts) from error

    def _outputs(self, chunk: Columns) -> ModelOutputs:
        found: dict[str, Any] = {meaning: chunk[name] for meaning, name in self.columns.items()}
        if self.kind in ("logits", "probabilities"):
            found["class_names"] = self.class_names
        made = {
            "logits": ModelOutputs.from_logits,
            "probabilities": ModelOutputs.from_probabilities,
            "predictions": ModelOutputs.from_predictions,
            "quantiles": ModelOutputs.from_quantiles,
        }[self.kind]
        return made(**found)  # type: ignore[no-any-return, operator]


def recognize_columns(
    table: Table,
    *,
    truth: bool = False,
    names: Mapping[str, str] | None = None,
    class_names: Sequence[str] | None = None,
    keep: Sequence[str] = (),
) -> Rows:
    """Find the columns of a table that hold outputs of a model, and its targets.

    Parameters
    ----------
    table : Table
        An open table.
    truth : bool
        Whether targets are needed.
    names : mapping of str to str, optional
        For columns with another name than expected: {"logits": "my_scores"} reads the column my_scores as logits.
    class_names : sequence of str, optional
        Names of the classes. Default: those in the file, if any.
    keep : sequence of str
        Columns that are copied to the answers.

    Returns
    -------
    Rows
        The table with its recognized columns.

    Raises
    ------
    InvalidFile
        If columns are missing or ambiguous.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from vicinal.tables import open_table
    >>> path = Path(tempfile.mkdtemp()) / "rows.npz"
    >>> np.savez(path, logits=np.zeros((3, 2)), labels=[0, 1, 1])
    >>> recognize_columns(open_table([str(path)]), truth=True).kind
    'logits'
    """
    called = _name_columns(table, names or {})
    kinds = [kind for kind, columns in OUTPUTS.items() if all(name in called for name in columns)]
    if len(kinds) != 1:
        expected = "one of logits, probabilities, predictions, or lower and upper"
        raise _describe_missing(table, expected, kinds, ("logits", "probabilities", "predictions"))
    targets = [name for name in TARGETS if name in called]
    if truth and len(targets) != 1:
        wanted = TARGETS[::-1] if kinds[0] in COMPANIONS else TARGETS  # a regression has targets
        raise _describe_missing(table, "labels or targets, the truth of each row", targets, wanted)
    meanings = (*OUTPUTS[kinds[0]], *(name for name in COMPANIONS.get(kinds[0], CLASSIFIED) if name in called))
    return Rows(
        table,
        kinds[0],
        {meaning: called[meaning] for meaning in meanings},
        called[targets[0]] if truth else None,
        table.class_names if class_names is None else class_names,
        _check_kept(table, keep),
    )


def _check_kept(table: Table, keep: Sequence[str]) -> tuple[str, ...]:
    """Return the columns to keep; raise an error if one is missing, or has the name of a column of answers."""
    for name in keep:
        if name not in table.columns:
            others = join_names(table.named_columns)
            msg = f"{table.name} has no column {name!r} to keep; it has {others}."
            if name in table.named_columns:
                msg = f"{table.name}: the column {name!r} is one number of an array, and cannot be kept by itself."
            raise InvalidFile(msg)
        if name in ANSWERS:
            msg = f"{table.name}: the column {name!r} cannot be kept: the output has a column of that name. Rename it."
            raise InvalidFile(msg)
    return tuple(dict.fromkeys(keep))


def _name_columns(table: Table, names: Mapping[str, str]) -> dict[str, str]:
    """Return what each known column is called in the table."""
    found = {name: name for name in KNOWN if name in table.columns}
    for meaning, name in names.items():
        if meaning not in KNOWN:
            msg = f"{meaning!r} is not a known column; known: {', '.join(KNOWN)}."
            raise InvalidFile(msg)
        if name not in table.columns:
            msg = f"{table.name} has no column {name!r} for {meaning}; it has {join_names(table.columns)}."
            raise InvalidFile(msg)
        found[meaning] = name
    return found


def _describe_missing(table: Table, expected: str, kinds: Sequence[str], wanted: Sequence[str]) -> InvalidFile:
    """Return the error for missing columns: what is needed, what the table has, and what may have been meant."""
    lacks = f"{table.name} must have {expected}; "
    if len(kinds) > 1:
        return InvalidFile(lacks + f"it has {' and '.join(kinds)}. Remove all but one.")
    lacks += f"it has {join_names(table.columns)}. "
    stems = [stem for stem in (*wanted, *STEMS) if any(column.startswith(f"{stem}_") for column in table.columns)]
    if stems:
        return InvalidFile(lacks + f"Number the columns of an array from 0, each once: {stems[0]}_0, {stems[0]}_1, ...")
    free = [column for column in table.columns[:MOST_COMPARED] if column not in KNOWN]
    near = next(
        ((name, close[0]) for name in wanted if (close := get_close_matches(name, free, 1))), (wanted[0], "COLUMN")
    )
    return InvalidFile(lacks + "Rename a column, or {rename}.", rename=Option("rename", "=".join(near)))
