"""Columns as Arrow stores them: a list of numbers in each row, or a column for each number."""

from __future__ import annotations

import json
import re
import struct
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from vicinal._util.extras import needs
from vicinal._util.text import one_line, show_path
from vicinal.errors import InvalidFile
from vicinal.tables.carried import can_carry, carry
from vicinal.tables.files import as_texts, check_file, check_request, file_identity, reading, rebatch
from vicinal.tables.table import Columns, Table

PLURALS = {"logit": "logits", "probability": "probabilities", "representation": "representations"}
"""Singular names of columns that are split into one column for each number."""

DAMAGE = (ValueError, TypeError, RuntimeError, MemoryError, OverflowError, IndexError, struct.error)
"""Errors that readers raise for damaged files, besides Arrow's own."""

PART = re.compile(r"(.+)_(0|[1-9][0-9]{0,5})")

VIEW_PART = re.compile(r"(.+)_(0|[1-9][0-9]{0,2})_(0|[1-9][0-9]{0,5})")


@dataclass(frozen=True, eq=False)
class ArrowColumns(Table):
    """Columns with an Arrow schema; `logits_0`, `logits_1`, ... are read as one column `logits`."""

    schema: Any  # pyarrow.Schema
    wide: Mapping[str, tuple[str, ...]]
    carried: frozenset[str] = field(default=frozenset(), kw_only=True)  # columns that are read as they are

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns; `logits_0`, `logits_1`, ... appear as `logits`."""
        parts = {part for names in self.wide.values() for part in names}
        return (*(name for name in dict.fromkeys(self.schema.names) if name not in parts), *self.wide)

    @property
    def named_columns(self) -> tuple[str, ...]:
        """Names of the columns as the file has them."""
        return tuple(dict.fromkeys(self.schema.names))

    @property
    def class_names(self) -> list[str] | None:
        """The JSON list of strings under class_names in the metadata of the schema."""
        text = (self.schema.metadata or {}).get(b"class_names")
        if text is None:
            return None
        try:
            names = json.loads(text)
        except (ValueError, RecursionError):
            names = None
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            msg = f"{self.name}: class_names in its metadata must be a JSON list of strings; got {text[:40]!r}."
            raise InvalidFile(msg)
        return [str(name) for name in as_texts(names, lambda row: f"{self.name}: class_names, number {row},")]

    def carry(self, columns: Sequence[str]) -> Self:
        """Return the table with these columns read as they are, nulls and dates too; not those of lists."""
        plain = {name for name in columns if name in self.schema.names and name not in self.wide}
        return replace(self, carried=frozenset(name for name in plain if self.can_carry(name)))

    def can_carry(self, name: str) -> bool:
        """Return whether a column of the schema can be read as it is."""
        index = self.schema.get_field_index(name)  # -1 where there are two
        return index >= 0 and can_carry(self.schema.field(index).type)

    def parts(self, columns: Sequence[str]) -> list[str]:
        """Return the columns of the schema that these columns consist of."""
        return [part for name in columns for part in self.wide.get(name, (name,))]

    def check_types(self, columns: Sequence[str]) -> None:
        """Raise an error for columns that hold anything but numbers, text or lists of numbers."""
        counts = Counter(self.schema.names)
        for name in columns:
            for part in self.wide.get(name, (name,)):
                self._check_type(part, counts[part], wide=name in self.wide)

    def _check_type(self, name: str, count: int, *, wide: bool) -> None:
        if count > 1:
            msg = f"{self.name} has the column {name!r} twice. Write it again."
            raise InvalidFile(msg)
        if name in self.carried:
            return
        kind = _stored_type(self.schema.field(name).type)
        if not _is_column(kind, wide=wide):
            expected = "numbers" if wide else "numbers, text or lists of numbers, each with at least one"
            msg = f"{self.name}: {name!r} must hold {expected}; got {one_line(kind)}. Cast that column."
            raise InvalidFile(msg)

    def column(self, batch: Any, name: str, first: int, widths: dict[str, int]) -> Any:
        """Return one column of a batch, as `Columns` says; `first` is the number of its first row."""
        if name in self.carried:
            return carry(batch.column(name), lambda row: f"{self.name}: {name!r}, row {first + row},")
        if name in self.wide:
            parts = [self._scalars(_store(batch.column(part)), part, first) for part in self.wide[name]]
            found = np.stack(parts, axis=1, dtype=np.result_type(*parts), casting="unsafe")
            return found.reshape(len(found), *part_sizes(self.wide[name]))
        array, shape = _store(batch.column(name)), _tensor_shape(batch.column(name).type)
        found = self._lists(array, name, first, widths) if _is_list(array.type) else self._scalars(array, name, first)
        return found.reshape(len(found), *shape) if len(shape) > 1 else found

    def _scalars(self, array: Any, name: str, first: int) -> NDArray[Any]:
        from pyarrow import types

        self._check_nulls(array, name, first, 1)
        if types.is_dictionary(array.type):
            # Check the values before they are repeated: a few long texts could fill the memory.
            used, places = np.unique(array.indices.to_numpy(zero_copy_only=False), return_inverse=True)
            known = self._scalars(array.dictionary.take(used), name, first)
            return np.asarray(known[places])
        values: NDArray[Any] = array.to_numpy(zero_copy_only=False)
        if values.dtype != object:
            return values
        return as_texts(values.tolist(), lambda row: f"{self.name}: {name!r}, row {first + row},")

    def _lists(self, array: Any, name: str, first: int, widths: dict[str, int]) -> NDArray[Any]:
        self._check_nulls(array, name, first, 1)
        lengths = np.asarray(array.value_lengths().to_numpy(zero_copy_only=False))
        width = widths.setdefault(name, int(lengths[0]))
        odd = np.flatnonzero((lengths != width) | (lengths == 0))
        if len(odd):
            msg = (
                f"{self.name}: {name!r} must hold equally long lists of numbers; row {first + int(odd[0])} has "
                f"{lengths[odd[0]]}, the first row {width}."
            )
            raise InvalidFile(msg)
        flat = array.flatten()
        self._check_nulls(flat, name, first, width)
        if not _is_list(flat.type):
            return np.asarray(flat.to_numpy(zero_copy_only=False)).reshape(len(array), width)
        inner = np.asarray(flat.value_lengths().to_numpy(zero_copy_only=False))
        each = widths.setdefault(f"{name}[]", int(inner[0]))
        odd = np.flatnonzero((inner != each) | (inner == 0))
        if len(odd):
            msg = (
                f"{self.name}: {name!r} must hold views of equal length; view {int(odd[0]) % width} of row "
                f"{first + int(odd[0]) // width} has {inner[odd[0]]} numbers, the first view {each}."
            )
            raise InvalidFile(msg)
        numbers = flat.flatten()
        self._check_nulls(numbers, name, first, width * each)
        return np.asarray(numbers.to_numpy(zero_copy_only=False)).reshape(len(array), width, each)

    def _check_nulls(self, array: Any, name: str, first: int, width: int) -> None:
        if array.null_count:
            row = first + int(np.flatnonzero(array.is_null().to_numpy(zero_copy_only=False))[0]) // width
            msg = f"{self.name}: {name!r} must not hold nulls; row {row} does. Remove or fill that row."
            raise InvalidFile(msg)


def find_file(file: str | PathLike[str]) -> Path:
    """Return the path of a file that pyarrow is to read; say first where one of them is missing."""
    with needs("pyarrow", "tables"):
        import pyarrow.parquet  # noqa: F401
    path = Path(file)
    check_file(path)
    return path


def explain_damage(error: Exception, what: str, kind: str) -> InvalidFile:
    """Return the error for a file that pyarrow cannot read."""
    return InvalidFile(f"{what} is damaged or not {kind}: {one_line(error)}")


@dataclass(frozen=True, eq=False)
class ArrowFile(ArrowColumns):
    """A file that pyarrow reads batch by batch."""

    path: Path

    kind: ClassVar[str]  # name of the format in messages

    @abstractmethod
    def batches(self, parts: Sequence[str], rows: int, start: int) -> Iterator[tuple[int, Any]]:
        """Yield the number of the first row and the batch, in order; batches before row `start` may be left out.

        `parts` are columns of the schema, and `rows` is the number of rows wanted at a time.
        """

    @property
    def name(self) -> str:
        """The path."""
        return show_path(self.path)

    def chunks(self, columns: Sequence[str], rows: int, start: int = 0) -> Iterator[Columns]:
        """Yield these columns for `rows` rows at a time, from row `start` on; the last chunk may be shorter."""
        check_request(self, columns, rows, start)
        self.check_types(columns)
        return rebatch(self._pieces(columns, rows, start), rows)

    def _pieces(self, columns: Sequence[str], rows: int, start: int) -> Iterator[Columns]:
        import pyarrow as pa

        parts = self.parts(columns)
        widths: dict[str, int] = {}
        try:
            with reading(self.name), closing(self.batches(parts, rows, start)) as batches:  # type: ignore[type-var]
                for position, batch in batches:
                    batch.validate(full=True)  # offsets, indices and text of a crafted file may be invalid
                    # A batch may be the whole file, and a few of its bytes may stand for many values.
                    for first in range(max(start, position), position + len(batch), rows):
                        fresh = batch.slice(first - position, rows)
                        yield {name: self.column(fresh, name, first, widths) for name in columns}
        except InvalidFile:
            raise
        except (pa.ArrowException, *DAMAGE) as error:
            raise self.explain(error, parts) from error

    def explain(self, error: Exception, parts: Sequence[str]) -> InvalidFile:
        """Return the error for columns that pyarrow cannot read."""
        del parts
        return explain_damage(error, self.name, self.kind)

    def identity(self) -> dict[str, Any]:
        """Return the absolute path, the size and the time of change."""
        return file_identity(self.path)


def _stored_type(kind: Any) -> Any:
    """Return the storage type of tensors: lists, if they have one axis per row, or one of views and one more."""
    import pyarrow as pa

    if not isinstance(kind, pa.BaseExtensionType):
        return kind
    shape, order = _tensor_shape(kind), getattr(kind, "permutation", None)
    swapped = order is not None and list(order) != sorted(order)
    return kind if len(shape) > 2 or (len(shape) > 1 and swapped) else kind.storage_type  # noqa: PLR2004  views, width


def _tensor_shape(kind: Any) -> tuple[int, ...]:
    """Return the shape of a row of a column of tensors; empty for other columns."""
    return tuple(getattr(kind, "shape", None) or ())


def _store(array: Any) -> Any:
    """Return an array without its extension type for tensors."""
    import pyarrow as pa

    return array.storage if isinstance(array.type, pa.BaseExtensionType) else array


def wide_columns(names: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return the columns that are split into one for each number, name_0, name_1, ..., by their common name.

    With views, the names are name_VIEW_NUMBER: those of a known column (logits, probabilities, representations), with
    equally many numbers in each view.

    Examples
    --------
    >>> wide_columns(["id", "logit_0", "logit_1"])
    {'logits': ('logit_0', 'logit_1')}
    >>> wide_columns(["logits_0_0", "logits_0_1", "logits_1_0", "logits_1_1"])
    {'logits': ('logits_0_0', 'logits_0_1', 'logits_1_0', 'logits_1_1')}
    """
    known = set(names)
    found = {stem: some for stem, some in _view_columns(names).items() if stem not in known}
    used, numbered = {part for some in found.values() for part in some}, dict[str, set[int]]()
    for name in names:
        if name not in used and (match := PART.fullmatch(name)):
            numbered.setdefault(match[1], set()).add(int(match[2]))
    found |= {
        stem: tuple(f"{stem}_{number}" for number in range(len(numbers)))
        for stem, numbers in numbered.items()
        if stem not in known and stem not in found and numbers == set(range(len(numbers)))
    }
    taken = known | found.keys()
    return {(PLURALS[stem] if PLURALS.get(stem, stem) not in taken else stem): some for stem, some in found.items()}


def _view_columns(names: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return the known columns that are split into one for each view and number, name_0_0, name_0_1, ..."""
    pairs: dict[str, set[tuple[int, int]]] = {}
    for name in names:
        match = VIEW_PART.fullmatch(name)
        if match and PLURALS.get(match[1], match[1]) in PLURALS.values():
            pairs.setdefault(match[1], set()).add((int(match[2]), int(match[3])))
    sizes = {stem: tuple(max(one[axis] for one in some) + 1 for axis in (0, 1)) for stem, some in pairs.items()}
    return {
        stem: tuple(f"{stem}_{view}_{number}" for view in range(views) for number in range(width))
        for stem, (views, width) in sizes.items()
        if views * width == len(pairs[stem])
    }


def part_sizes(parts: Sequence[str]) -> tuple[int, ...]:
    """Return the shape of a row of a column that is split into these: (width,), or with views (views, width).

    Examples
    --------
    >>> part_sizes(("logits_0_0", "logits_0_1")), part_sizes(("logit_0", "logit_1"))
    ((1, 2), (2,))
    """
    last = VIEW_PART.fullmatch(parts[-1])
    views = None if last is None else int(last[2]) + 1
    if last is None or views is None or views * (int(last[3]) + 1) != len(parts):
        return (len(parts),)
    return views, int(last[3]) + 1


def _is_list(kind: Any) -> bool:
    from pyarrow import types

    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def _is_column(kind: Any, *, wide: bool) -> bool:
    from pyarrow import types

    if not wide and _is_list(kind) and _is_list(kind.value_type):
        view = kind.value_type
        return _has_room(kind) and not _is_list(view.value_type) and _is_column(view, wide=False)
    if not _has_room(kind):
        return False
    element = kind if wide or not (_is_list(kind) or types.is_dictionary(kind)) else kind.value_type
    if _is_list(element):
        return False
    if types.is_integer(element) or types.is_floating(element):
        return True
    return not (wide or _is_list(kind)) and bool(
        types.is_boolean(element) or types.is_string(element) or types.is_large_string(element)
    )


def _has_room(kind: Any) -> bool:
    """Return whether a row takes room in the file: of lists of fixed length 0, any number of rows would take none."""
    from pyarrow import types

    return not (types.is_fixed_size_list(kind) and not kind.list_size)
