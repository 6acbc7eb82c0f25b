"""Everything vicinal refuses, as one tree; each message says what was expected, what came and what to do.

VicinalError
├─ InvalidValue(ValueError)        an array holds something it must not: NaN, a negative probability, an unknown label
├─ ShapeMismatch(ValueError)       two arrays disagree, or one has the wrong number of axes
├─ InvalidArgument(ValueError)        a number lies outside its range: coverage, bandwidth, n_neighbors
├─ TooFewRows(ValueError)          not enough rows for what was asked; carries `needed`
├─ TooLittleMemory(ValueError)     the memory that a call may use is less than one block of its work; carries `needed`
├─ Incompatible(TypeError)         parts that do not fit each other: a regression score with class probabilities
├─ MissingExtra(ImportError)       an optional dependency is absent; names the extra to install
├─ MissingFile(FileNotFoundError)  there is no such file
├─ InvalidFile(ValueError)         a file of rows is not what it should be: its format, its columns, what they hold
├─ ModelFailed(RuntimeError)       a network or its loader raised; the error it raised is the cause
├─ ServiceRefused(RuntimeError)    a service answered that it cannot do what was asked; carries its `status`
├─ ServiceUnreachable(OSError)     no service answers at an address
├─ ClusterUnavailable(OSError)     no Ray cluster answers at an address
├─ WorkersLost(RuntimeError)       workers of a cluster died or did not come back; what was finished is kept
├─ CannotWrite(OSError)            a file could not be written; what was there before is as it was
├─ UnsupportedArtifact(ValueError) a saved file that this version cannot read: not one of ours, a newer format, a part
└─ CorruptArtifact(ValueError)     a saved file that is damaged: its checksum, or what it holds, does not agree
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Self

import numpy as np


class Option(NamedTuple):
    """An argument of a call, with a value to give it: one of the things that a message can advise."""

    argument: str
    value: str

    def in_python(self) -> str:
        """Return the advice for a caller."""
        return f"{self.argument}={self.value}"


class Column(NamedTuple):
    """What a model gave for each row, under the name that files and requests know it by."""

    name: str

    def in_python(self) -> str:
        """Return the advice for a caller."""
        return IN_PYTHON[self.name]


IN_PYTHON = {
    "representations": "pass them as the second argument of ModelOutputs.from_...",
    "logits": "use ModelOutputs.from_logits",
    "logits or probabilities": "use ModelOutputs.from_logits or .from_probabilities",
    "predictions": "use ModelOutputs.from_predictions",
    "predictions, or lower and upper": "use ModelOutputs.from_predictions or .from_quantiles",
    "scales": "use ModelOutputs.from_predictions(..., scales=...)",
    "lower and upper": "use ModelOutputs.from_quantiles(lower, upper, ...)",
    "class_names": "pass class_names to ModelOutputs",
}
"""How each column is given in Python."""

Word = Option | Column


class VicinalError(Exception):
    """Base of every error raised on purpose by vicinal; all of them can be pickled, so worker processes can raise.

    Facts are attributes: `row`, for one. A message may hold `{name}` in place of a fact; Python, the command line and
    the service each put an `Option` or a `Column` in their own words.
    """

    def __init__(self, message: str, **facts: Any) -> None:
        self.message, self.facts = message, facts
        self.__dict__.update(facts)
        super().__init__(self.render())

    def render(self, word: Callable[[Word], str] | None = None) -> str:
        """Return the message; `word` says how advice is put, by default for a caller in Python."""
        text = self.message
        for name, fact in self.facts.items():
            said = str(fact)
            if isinstance(fact, (Option, Column)):
                said = fact.in_python() if word is None else word(fact)
            text = text.replace(f"{{{name}}}", said)
        # A sentence may begin with advice.
        return text[:1].upper() + text[1:] if text[:1] != self.message[:1] else text

    def with_row(self, number: Callable[[int], int]) -> Self:
        """Return the error with the row under another number: that of the whole, where it was found in a piece.

        Examples
        --------
        >>> str(InvalidValue("row {row} holds nan", row=3).with_row(lambda row: row + 100))
        'row 103 holds nan'
        """
        if "row" not in self.facts:
            return self
        found = type(self).__new__(type(self))
        VicinalError.__init__(found, self.message, **{**self.facts, "row": number(self.facts["row"])})
        return found

    def __str__(self) -> str:
        return self.render()

    def __reduce__(self) -> tuple[object, ...]:
        return _restore_error, (type(self), self.args, self.__dict__)


def _restore_error(kind: type[VicinalError], args: tuple[object, ...], values: dict[str, object]) -> VicinalError:
    error = kind.__new__(kind, *args)
    error.__dict__.update(values)
    return error


class InvalidValue(VicinalError, ValueError):
    """An array holds a value it must not hold."""


class ShapeMismatch(VicinalError, ValueError):
    """Two arrays disagree in shape, or one has the wrong number of axes."""


class InvalidArgument(VicinalError, ValueError):
    """A number lies outside its range."""

    def __init__(self, name: str, value: object, expected: str) -> None:
        self.name, self.value, self.expected = name, value, expected
        shown = value.item() if isinstance(value, np.generic) else value
        super().__init__(f"{name} must be {expected}; got {shown!r}.")


class TooFewRows(VicinalError, ValueError):
    """There are fewer rows than the request needs; `needed` is the smallest number that would do."""

    def __init__(self, message: str, *, rows: int, needed: int, **facts: Any) -> None:
        super().__init__(message, rows=rows, needed=needed, **facts)


class TooLittleMemory(VicinalError, ValueError):
    """The memory that a call may use does not hold the least block of its work; `needed` is what would, in bytes."""

    def __init__(self, given: int, needed: int, what: str, advice: str, **facts: Any) -> None:
        message = (
            f"memory must be at least {needed / 1e6:.4g} MB, for {what}; it is {given / 1e6:.4g} MB. "
            f"Give more ({{memory}}, or VICINAL_MEMORY), {advice}."
        )
        super().__init__(message, given=given, needed=needed, memory=Option("memory", "..."), **facts)


class Incompatible(VicinalError, TypeError):
    """Two parts do not fit each other."""


class MissingExtra(VicinalError, ImportError):
    """An optional dependency is not installed; `extra` is what to install."""

    def __init__(self, package: str, extra: str) -> None:
        self.package, self.extra = package, extra
        super().__init__(f"this needs {package}, which is not installed; run: pip install 'vicinal[{extra}]'")


class MissingFile(VicinalError, FileNotFoundError):
    """There is no such file."""


class InvalidFile(VicinalError, ValueError):
    """A file of rows is not what it should be."""


class ModelFailed(VicinalError, RuntimeError):
    """A network or its loader raised; the model is as it was, and what it raised is the cause."""


class ServiceRefused(VicinalError, RuntimeError):
    """A service refused a request; `status` is that of HTTP."""

    def __init__(self, status: int, message: str) -> None:
        self.status = status
        super().__init__(f"the service refused ({status}): {message}")


class ServiceUnreachable(VicinalError, OSError):
    """No service answers at an address."""


class ClusterUnavailable(VicinalError, OSError):
    """No Ray cluster answers at an address."""


class WorkersLost(VicinalError, RuntimeError):
    """Workers of a cluster died or did not come back; what was finished before is kept."""


class CannotWrite(VicinalError, OSError):
    """A file could not be written; what stood there before is as it was."""


class UnsupportedArtifact(VicinalError, ValueError):
    """A saved file is of a kind, a format or with a part that this version does not know."""


class CorruptArtifact(VicinalError, ValueError):
    """A saved file is damaged."""
