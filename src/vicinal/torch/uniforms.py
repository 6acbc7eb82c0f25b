"""U for each row of a tensor: the same number as in numpy, on any device.

Words of 64 bits are stored as int64, whose products and sums wrap around like those of unsigned integers.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from vicinal._util.hashing import id_words
from vicinal.errors import InvalidValue
from vicinal.outputs import as_row_ids

WORD = 0xFFFFFFFF
"""The lowest 32 bits."""


def hash_keys(seed: int, count: int) -> Tensor:
    """Return the splitmix64 stream of a seed as int64, (count,)."""
    state, keys = seed, []
    for _ in range(count):
        state = (state + 0x9E3779B97F4A7C15) % 2**64
        word = state
        word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
        word = (word ^ (word >> 27)) * 0x94D049BB133111EB % 2**64
        keys.append(word ^ (word >> 31))
    return torch.from_numpy(np.array(keys, dtype=np.uint64).view(np.int64))


def hash_words(words: Tensor, keys: Tensor) -> Tensor:
    """Return U in [0, 1) for each row of 32-bit words held as int64, (n, w), with w + 1 keys, (n,)."""
    word = keys[0] + (words * keys[1:]).sum(1)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1)):
        word = (word ^ _shift(word, shift)) * (factor - 2**64 if factor >= 2**63 else factor)
    return _shift(word, 11).double() * 2.0**-53


def value_words(values: Tensor) -> Tensor:
    """Return the float32 bits of each row of floats as int64, (n, w)."""
    return values.float().contiguous().view(torch.int32).long() & WORD


def row_id_words(row_ids: Tensor | Sequence[int] | Sequence[str], device: torch.device) -> Tensor:
    """Return two words for each row id, a whole number or a string, (n, 2)."""
    if isinstance(row_ids, Tensor):
        whole = row_ids.dtype in (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
        if row_ids.ndim != 1 or not whole:
            msg = (
                f"row_ids must be one whole number or string for each row; got {row_ids.dtype} {tuple(row_ids.shape)}."
            )
            raise InvalidValue(msg)
        numbers = row_ids.to(device).long()
        return torch.stack([numbers & WORD, (numbers >> 32) & WORD], 1)
    names = as_row_ids(row_ids, len(row_ids), "the batch")
    return torch.from_numpy(id_words(names).astype(np.int64)).to(device)


def _shift(word: Tensor, by: int) -> Tensor:
    """Shift right, filling with zeros."""
    return (word >> by) & ((1 << (64 - by)) - 1)
