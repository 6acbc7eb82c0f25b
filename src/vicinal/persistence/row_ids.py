"""Row ids to and from arrays: whole numbers as they are, texts as their bytes and the end of each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vicinal.errors import CorruptArtifact
from vicinal.outputs import RowIds


def pack_ids(ids: RowIds) -> dict[str, NDArray[Any]]:
    """Return the arrays to write.

    Examples
    --------
    >>> unpack_ids(pack_ids(np.array(["a", "bc"])))
    array(['a', 'bc'], dtype='<U2')
    """
    if ids.dtype.kind == "i":
        return {"numbers": ids}
    texts = [text.encode() for text in ids.tolist()]
    ends = np.cumsum([len(text) for text in texts], dtype=np.int64)
    return {"text": np.frombuffer(b"".join(texts), np.uint8), "ends": ends}


def unpack_ids(arrays: Mapping[str, NDArray[Any]]) -> RowIds:
    """Return the ids from the arrays that `pack_ids` returned."""
    if set(arrays) == {"numbers"} and arrays["numbers"].dtype == np.int64 and arrays["numbers"].ndim == 1:
        return arrays["numbers"]
    if set(arrays) != {"text", "ends"} or arrays["text"].dtype != np.uint8 or arrays["ends"].dtype != np.int64:
        msg = "row ids must be whole numbers, or texts with the end of each."
        raise CorruptArtifact(msg)
    raw, ends = arrays["text"].tobytes(), arrays["ends"].reshape(-1)
    starts = np.concatenate([np.zeros(1, np.int64), ends[:-1]])
    if np.any(starts > ends) or np.any(starts < 0) or (len(ends) and ends[-1] != len(raw)):
        msg = "the ends of the row ids do not fit their text."
        raise CorruptArtifact(msg)
    if len(ends) and int((ends - starts).max()) * len(ends) > MOST_ENTRIES:
        msg = "one row id is far longer than the others."  # numpy pads all texts to the longest
        raise CorruptArtifact(msg)
    return np.array([raw[start:end].decode() for start, end in zip(starts.tolist(), ends.tolist(), strict=True)])


MOST_ENTRIES = 2**25
"""Most characters of all row ids, each padded to the longest."""
