"""Columns that are carried through from an input to the answers: Arrow arrays in their own types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vicinal.errors import InvalidFile
from vicinal.tables.files import MAX_TEXT


def can_carry(kind: Any) -> bool:
    """Return whether a column of this type can be carried through as it is: one value, or a null, in each row."""
    from pyarrow import types

    if types.is_dictionary(kind):
        return can_carry(kind.value_type)
    plain = (types.is_null, types.is_boolean, types.is_integer, types.is_floating, types.is_decimal)
    moments = (types.is_date, types.is_time, types.is_timestamp)
    return any(check(kind) for check in (*plain, *moments, types.is_string, types.is_large_string))


def carry(array: Any, place: Callable[[int], str]) -> Any:
    """Return an array that is carried through; `place(row)` says where a text stands that is too long."""
    from pyarrow import compute, types

    repeated = types.is_dictionary(array.type)
    values = array.dictionary if repeated else array
    if types.is_string(values.type) or types.is_large_string(values.type):
        # The texts of a dictionary are checked before they are repeated: a few long ones could fill all memory.
        long = compute.greater(compute.utf8_length(values), MAX_TEXT)
        rows = (long.take(array.indices) if repeated else long).fill_null(fill_value=False)
        if (row := compute.index(rows, value=True).as_py()) >= 0:
            text = str(array[row].as_py())
            msg = f"{place(row)} holds {text[:20]!r}...: expected text of at most {MAX_TEXT} characters."
            raise InvalidFile(msg)
    return array.dictionary_decode() if repeated else array


def is_carried(column: object) -> bool:
    """Return whether a column is an Arrow array."""
    return type(column).__module__.partition(".")[0] == "pyarrow"


def join(columns: list[Any]) -> Any:
    """Return columns one after another, all of them numpy's or all of them Arrow's."""
    if not is_carried(columns[0]):
        return np.concatenate(columns)
    import pyarrow as pa

    return pa.concat_arrays(columns)


def common_type(kinds: list[Any]) -> Any | None:
    """Return a type that holds the values of all of these; None where there is none."""
    import pyarrow as pa
    from pyarrow import types

    plain = [kind.value_type if types.is_dictionary(kind) else kind for kind in kinds]
    try:
        return pa.unify_schemas([pa.schema([("", kind)]) for kind in plain], promote_options="permissive").field(0).type
    except pa.ArrowException:
        return None


def pack(array: Any) -> NDArray[np.uint8]:
    """Return an array as bytes."""
    import pyarrow as pa

    sink, table = pa.BufferOutputStream(), pa.table({"": array})
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return np.frombuffer(sink.getvalue(), np.uint8)


def unpack(packed: NDArray[np.uint8]) -> Any:
    """Return what was packed."""
    import pyarrow as pa

    return pa.ipc.open_stream(packed.tobytes()).read_all().column(0).combine_chunks()


def as_words(array: Any) -> Any:
    """Return an array as text files can say it: moments in the form of ISO 8601, and decimals, are text."""
    import pyarrow as pa
    from pyarrow import compute, types

    kind = array.type
    if types.is_timestamp(kind):
        zone = None if kind.tz is None else "UTC"
        return compute.replace_substring(array.cast(pa.timestamp(kind.unit, zone)).cast(pa.string()), " ", "T")
    if any(check(kind) for check in (types.is_null, types.is_date, types.is_time, types.is_decimal)):
        return array.cast(pa.string())
    return array


def as_numpy(array: Any) -> NDArray[Any]:
    """Return an array as numpy can save it: nulls are NaN among numbers, and empty texts elsewhere."""
    import pyarrow as pa
    from pyarrow import types

    words = as_words(array)
    if types.is_boolean(words.type) and words.null_count:
        words = words.cast(pa.string())
    if types.is_string(words.type) or types.is_large_string(words.type):
        return np.array(words.fill_null("").to_pylist(), dtype=np.str_)
    found: NDArray[Any] = words.to_numpy(zero_copy_only=False)
    return found
