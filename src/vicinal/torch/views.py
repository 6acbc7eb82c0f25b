"""Views of a batch: changed copies of its inputs, and the outputs of a network for all of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from vicinal._util.arrays import positive, whole_number
from vicinal.errors import Incompatible, InvalidArgument, ModelFailed, ShapeMismatch, VicinalError
from vicinal.torch.layers import Representations
from vicinal.torch.running import run_network, tensors

Change: TypeAlias = Callable[[Any], Any]
"""A function from the inputs of a batch to changed inputs, one for each row."""

IMAGE_AXES = 4
"""Axes of a batch of images: rows, channels, height and width."""

ROWS_AT_ONCE = 64
"""Rows of all views in a pass of the network, or as many as the batch has if these are more."""


@dataclass(frozen=True)
class Mirror:
    """Mirror images left to right.

    Examples
    --------
    >>> Mirror()(torch.tensor([[[[1.0, 2.0]]]]))
    tensor([[[[2., 1.]]]])
    """

    def __call__(self, images: Tensor) -> Tensor:
        """Return the mirrored images, (b, channels, height, width)."""
        return _check_images(images, self).flip(3)


@dataclass(frozen=True)
class Shift:
    """Shift images by whole pixels; what comes in at the border is reflected.

    Parameters
    ----------
    down : int
        Pixels to shift down; negative shifts up.
    right : int
        Pixels to shift right; negative shifts left.

    Examples
    --------
    >>> Shift(0, 1)(torch.tensor([[[[1.0, 2.0, 3.0]]]]))
    tensor([[[[2., 1., 2.]]]])
    """

    down: int
    right: int

    def __post_init__(self) -> None:
        for name in ("down", "right"):
            whole_number(name, getattr(self, name), least=-(2**31), most=2**31)

    def __call__(self, images: Tensor) -> Tensor:
        """Return the shifted images, (b, channels, height, width)."""
        height, width = _check_images(images, self).shape[2:]
        top, left = abs(self.down), abs(self.right)
        if top >= height or left >= width:
            msg = f"{self!r} shifts images of {height} x {width} pixels by their whole size; shift by less."
            raise Incompatible(msg)
        padded = nn.functional.pad(images, (left, left, top, top), mode="reflect")
        first, second = top - self.down, left - self.right
        return _lay_out(padded[:, :, first : first + height, second : second + width], images)


def _lay_out(found: Tensor, given: Tensor) -> Tensor:
    """Return changed images in the order of memory of the given ones, for which the network may be fast."""
    if torch.compiler.is_compiling():
        return found
    last = given.shape[1] > 1 and given.is_contiguous(memory_format=torch.channels_last)
    return found.contiguous(memory_format=torch.channels_last if last else torch.contiguous_format)


@dataclass(frozen=True)
class Zoom:
    """Enlarge images around their center, which crops their borders, or make them smaller; they keep their size.

    Parameters
    ----------
    factor : float
        Above 1 enlarges; below 1 makes smaller, and reflected borders fill the rest.

    Examples
    --------
    >>> Zoom(1.1)(torch.ones(2, 3, 8, 8)).shape
    torch.Size([2, 3, 8, 8])
    """

    factor: float

    def __post_init__(self) -> None:
        positive("factor", self.factor)

    def __call__(self, images: Tensor) -> Tensor:
        """Return the images, (b, channels, height, width), interpolated linearly."""
        return _resample(_check_images(images, self), ((1 / self.factor, 0.0), (0.0, 1 / self.factor)))


@dataclass(frozen=True)
class Rotate:
    """Rotate images around their center; reflected borders fill the corners.

    Parameters
    ----------
    degrees : float
        The angle, counterclockwise.

    Examples
    --------
    >>> Rotate(5)(torch.ones(2, 3, 8, 8)).shape
    torch.Size([2, 3, 8, 8])
    """

    degrees: float

    def __post_init__(self) -> None:
        if not isinstance(self.degrees, (int, float)) or not math.isfinite(self.degrees):
            raise InvalidArgument("degrees", self.degrees, "a finite number")

    def __call__(self, images: Tensor) -> Tensor:
        """Return the rotated images, (b, channels, height, width), interpolated linearly."""
        height, width = _check_images(images, self).shape[2:]
        cosine, sine = math.cos(math.radians(self.degrees)), math.sin(math.radians(self.degrees))
        return _resample(images, ((cosine, -sine * height / width), (sine * width / height, cosine)))


@dataclass(frozen=True)
class Steps:
    """Apply several changes one after another.

    Parameters
    ----------
    changes : tuple of callable
        The changes, in order.

    Examples
    --------
    >>> Steps((Mirror(), Shift(0, 1)))(torch.tensor([[[[1.0, 2.0, 3.0]]]]))
    tensor([[[[2., 3., 2.]]]])
    """

    changes: tuple[Change, ...]

    def __call__(self, inputs: Any) -> Any:
        """Return the inputs after all changes."""
        for change in self.changes:
            inputs = change(inputs)
        return inputs


@dataclass(frozen=True, init=False)
class Views:
    """Views of every input of a batch: the input itself, which is view 0, and changed copies of it.

    Use the same views for tuning, calibration and prediction.

    Parameters
    ----------
    *changes : callable
        Functions from the inputs of a batch to as many changed inputs: `Mirror`, `Shift`, `Zoom`, `Rotate`, `Steps`, or
        any other. They receive what the network would: a tensor, a tuple or a dict. A change that draws random numbers
        makes the answers random.
    rows : int, default 64
        Most rows in a pass of the network, counted over all views. A pass has at least as many as the batch.

    Raises
    ------
    Incompatible
        If there are no changes, or one is not callable.

    Examples
    --------
    >>> views = Views(Mirror(), Shift(2, 0))
    >>> len(views), views.select([0, 2])
    (3, Views(Shift(down=2, right=0)))
    """

    changes: tuple[Change, ...]
    rows: int

    def __init__(self, *changes: Change, rows: int = ROWS_AT_ONCE) -> None:
        wrong = next((change for change in changes if not callable(change)), None)
        if wrong is not None or not changes:
            got = "none" if wrong is None else repr(wrong)
            msg = f"Views needs one or more changes of a batch, such as Mirror() or Shift(2, 0); got {got}."
            raise Incompatible(msg)
        object.__setattr__(self, "changes", changes)
        object.__setattr__(self, "rows", whole_number("rows", rows, least=1))

    @classmethod
    def ten(cls, pixels: int = 2) -> Views:
        """Return ten views of images: no shift and four shifts, each plain and mirrored.

        Parameters
        ----------
        pixels : int, default 2
            Size of the shifts.

        Returns
        -------
        Views
            The views, the plain ones first.
        """
        shifts = [Shift(*by) for by in ((-pixels, 0), (pixels, 0), (0, -pixels), (0, pixels))]
        return cls(*shifts, Mirror(), *(Steps((shift, Mirror())) for shift in shifts))

    def select(self, numbers: Sequence[int]) -> Views:
        """Return some of the views.

        Parameters
        ----------
        numbers : sequence of int
            Numbers of views, beginning with 0, such as the `needed` ones of a fitted `ViewAverage`.

        Returns
        -------
        Views
            These views, in this order.
        """
        chosen = [whole_number("a view", number, least=0, most=len(self) - 1) for number in numbers]
        if chosen[:1] != [0] or 0 in chosen[1:]:
            raise InvalidArgument("numbers", list(numbers), "numbers of views, the first of them 0")
        return Views(*(self.changes[number - 1] for number in chosen[1:]), rows=self.rows)

    def __len__(self) -> int:
        return 1 + len(self.changes)

    def __repr__(self) -> str:
        return f"Views({', '.join(map(repr, self.changes))})"


def check_views(views: object) -> Views | None:
    """Return views as given, or None; refuse anything else."""
    if views is None or isinstance(views, Views):
        return views
    if isinstance(views, Sequence) and not isinstance(views, str):
        return Views(*views)
    msg = f"views must be Views(...), or None; got {views!r}."
    raise Incompatible(msg)


def run_views(
    model: nn.Module, inputs: Any, source: Representations, views: Views, numbers: Sequence[int] | None = None
) -> tuple[Tensor, Tensor | None]:
    """Return outputs of all views, (b, views, classes), and the mean representation of each row, (b, d).

    With `numbers`, the network runs on these views only, and the outputs of the others are 0.
    """
    chosen = list(range(len(views))) if numbers is None else list(numbers)
    found: dict[int, Tensor] = {}
    total: Tensor | None = None
    rows: Tensor | None = None
    for group in _groups(inputs, views, chosen):
        outputs, rows = run_network(model, _join([one for _, one in group]), source)
        _check_outputs(outputs)
        parts = outputs.reshape(len(group), -1, outputs.shape[-1])
        found |= {number: parts[place] for place, (number, _) in enumerate(group)}
        if rows is not None:
            each = rows.double().reshape(len(group), -1, rows.shape[-1])
            for place in range(len(group)):  # in the order of the views, as for arrays
                total = each[place] if total is None else total + each[place]
    first = found[0]
    stacked = torch.stack([found.get(number, torch.zeros_like(first)) for number in range(len(views))], dim=1)
    if rows is None or total is None:
        return stacked, None
    return stacked, (total / len(chosen)).to(rows.dtype)


def _groups(inputs: Any, views: Views, chosen: Sequence[int]) -> Iterator[list[tuple[int, Any]]]:
    """Yield views, by number, that go through the network together; a graph takes all at once."""
    rows = _count_rows(inputs)
    together = len(chosen)
    if not torch.compiler.is_compiling():
        together = 1 if rows is None else max(1, views.rows // max(1, rows))
    group: list[tuple[int, Any]] = []
    for number in chosen:
        changed = inputs if number == 0 else _change(views.changes[number - 1], inputs, number)
        if number and rows is not None and _count_rows(changed) != rows and not torch.compiler.is_compiling():
            msg = (
                f"view {number}, {views.changes[number - 1]!r}, must keep the {rows} rows of a batch; it returned "
                f"{_count_rows(changed)}."
            )
            raise ShapeMismatch(msg, argument="views", expected=rows, found=_count_rows(changed))
        if group and (len(group) == together or not _fits(group[-1][1], changed)):
            yield group
            group = []
        group.append((number, changed))
    yield group


def _change(change: Change, inputs: Any, number: int) -> Any:
    try:
        return change(inputs)
    except VicinalError:
        raise
    except Exception as error:
        said = next(iter(str(error).strip().splitlines()), "no message")
        msg = f"view {number}, {change!r}, raised {type(error).__name__}: {said}"
        raise ModelFailed(msg) from error


def _count_rows(inputs: Any) -> int | None:
    """Return the length of the first tensor of the inputs; None without tensors."""
    first = next(tensors(inputs), None)
    return None if first is None or first.ndim == 0 else first.shape[0]


def _fits(one: Any, other: Any) -> bool:
    """Return whether inputs can be joined: tensors of equal shapes in the same places."""
    if isinstance(one, Tensor):
        return isinstance(other, Tensor) and one.ndim > 0 and one.shape[1:] == other.shape[1:]
    if isinstance(one, Mapping):
        return (
            isinstance(other, Mapping)
            and one.keys() == other.keys()
            and all(_fits(one[key], other[key]) for key in one)
        )
    if isinstance(one, (tuple, list)):
        same = isinstance(other, (tuple, list)) and len(one) == len(other)
        return same and all(map(_fits, one, other))
    return False


def _join(parts: list[Any]) -> Any:
    """Return the inputs of several views as one batch."""
    first = parts[0]
    if len(parts) == 1:
        return first
    if isinstance(first, Tensor):
        return torch.cat(parts)
    if isinstance(first, Mapping):
        return {key: _join([part[key] for part in parts]) for key in first}
    return tuple(_join(list(items)) for items in zip(*parts, strict=True))


def _check_outputs(outputs: Tensor) -> None:
    if outputs.ndim != 2:  # noqa: PLR2004  rows and classes
        msg = f"with views the network must return logits of shape (rows, classes); got {tuple(outputs.shape)}."
        raise ShapeMismatch(msg, argument="outputs", expected="(rows, classes)", found=tuple(outputs.shape))


def _check_images(images: Tensor, change: object) -> Tensor:
    if not isinstance(images, Tensor) or images.ndim != IMAGE_AXES:
        got = tuple(images.shape) if isinstance(images, Tensor) else type(images).__name__
        msg = f"{change!r} needs a tensor of images (rows, channels, height, width); got {got}."
        raise ShapeMismatch(msg, argument="views", expected="(rows, channels, height, width)", found=got)
    return images


def _resample(images: Tensor, matrix: tuple[tuple[float, float], tuple[float, float]]) -> Tensor:
    """Return images whose places, from -1 to 1, were multiplied by a matrix."""
    (a, b), (c, d) = matrix
    height, width = images.shape[2:]
    down = (torch.arange(height, dtype=images.dtype, device=images.device) * 2 + 1) / height - 1
    right = (torch.arange(width, dtype=images.dtype, device=images.device) * 2 + 1) / width - 1
    x = a * right[None, :] + b * down[:, None]
    y = c * right[None, :] + d * down[:, None]
    grid = torch.stack([x, y], dim=2).expand(images.shape[0], height, width, 2)
    return _lay_out(nn.functional.grid_sample(images, grid, padding_mode="reflection", align_corners=False), images)
