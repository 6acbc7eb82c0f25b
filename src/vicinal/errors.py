"""Every error that vicinal raises on purpose; each message says what was expected, what was found and what to do.

VicinalError
├─ InvalidValue(ValueError)        an array holds an invalid value: NaN, a negative probability, an unknown label
├─ ShapeMismatch(ValueError)       two arrays disagree in shape, or one has the wrong number of axes
├─ InvalidArgument(ValueError)     an argument lies outside its range: coverage, bandwidth, n_neighbors
├─ TooFewRows(ValueError)          there are not enough rows for the request; carries `needed`
├─ TooLittleMemory(ValueError)     the memory limit is below what the smallest block of work needs; carries `needed`
├─ Incompatible(TypeError)         parts do not fit each other: a regression score with class probabilities
├─ MissingExtra(ImportError)       an optional dependency is not installed; names the extra to install
├─ MissingFile(FileNotFoundError)  a file or module does not exist
├─ InvalidFile(ValueError)         a data file has the wrong format, columns or contents
├─ ModelFailed(RuntimeError)       a network or its loader raised; its error is the cause
├─ ServiceRefused(RuntimeError)    a service rejected a request; carries the HTTP `status`
├─ ServiceUnreachable(OSError)     no service answers at an address
├─ ClusterUnavailable(OSError)     no Ray cluster answers at an address
├─ WorkersLost(RuntimeError)       workers of a cluster died or timed out; finished work is kept
├─ CannotWrite(OSError)            a file could not be written; the previous file is unchanged
├─ UnsupportedArtifact(ValueError) a saved file has a kind, a format or a part that this version does not know
└─ CorruptArtifact(ValueError)     a saved file is damaged: its checksum or its contents do not agree
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Self

import numpy as np

from vicinal._util.docstrings import InheritsDocs


class Option(NamedTuple):
    """An argument of a call with a value for it, as advice in a message.

    Each interface words it in its own way: `method=Split()` in Python, `--method split` on the command line.

    Parameters
    ----------
    argument : str
        Name of the argument.
    value : str
        Value to give it, as a Python expression.

    Examples
    --------
    >>> Option("method", "Split()").in_python()
    'method=Split()'
    """

    argument: str
    value: str

    def in_python(self) -> str:
        """Return the advice for a caller in Python.

        Returns
        -------
        str
            The argument with its value.
        """
        return f"{self.argument}={self.value}"


class Column(NamedTuple):
    """Values that a model gives for each row, by the name of their column in files and requests.

    Parameters
    ----------
    name : str
        Name of the column, or of several that serve the same purpose.

    Examples
    --------
    >>> Column("logits").in_python()
    'use ModelOutputs.from_logits'
    """

    name: str

    def in_python(self) -> str:
        """Return the advice for a caller in Python.

        Returns
        -------
        str
            How to pass the values to `ModelOutputs`.
        """
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


class VicinalError(InheritsDocs, Exception):
    """Base class of every error that vicinal raises on purpose.

    Facts about the error are attributes, such as `row`. A message may hold `{name}` in place of a fact: Python, the
    command line and the service word an `Option` or a `Column` each in their own way. All errors can be pickled, so
    that worker processes can raise them.

    Parameters
    ----------
    message : str
        What was expected, what was found and what to do.
    **facts : Any
        Facts about the error, which become attributes.

    Examples
    --------
    >>> error = VicinalError("row {row} is empty", row=3)
    >>> str(error), error.row
    ('row 3 is empty', 3)
    """

    def __init__(self, message: str, **facts: Any) -> None:
        self.message, self.facts = message, facts
        self.__dict__.update(facts)
        super().__init__(self.render())

    def render(self, word: Callable[[Word], str] | None = None) -> str:
        """Return the message with its facts filled in.

        Parameters
        ----------
        word : callable, optional
            Turns an `Option` or a `Column` into text. By default, advice is worded for Python.

        Returns
        -------
        str
            The message.
        """
        text = self.message
        for name, fact in self.facts.items():
            said = str(fact)
            if isinstance(fact, (Option, Column)):
                said = fact.in_python() if word is None else word(fact)
            text = text.replace(f"{{{name}}}", said)
        # A sentence may begin with advice.
        return text[:1].upper() + text[1:] if text[:1] != self.message[:1] else text

    def with_row(self, number: Callable[[int], int]) -> Self:
        """Return the error with another row number: a row of a chunk has another number in the whole array.

        Parameters
        ----------
        number : callable
            Takes the row number in the chunk and returns the number in the whole array.

        Returns
        -------
        VicinalError
            An error of the same class; the error itself where it names no row.

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
    """An array holds a value that it must not hold.

    Examples
    --------
    >>> import vicinal as vc
    >>> vc.ModelOutputs.from_logits([[0.0, float("nan")]])
    Traceback (most recent call last):
    ...
    vicinal.errors.InvalidValue: logits must be finite; row 0, column 1 holds nan. Remove or repair that row.
    """


class ShapeMismatch(VicinalError, ValueError):
    """Two arrays disagree in shape, or one has the wrong number of axes.

    Parameters
    ----------
    message : str
        What was expected, what was found and what to do.
    argument : str
        Name of the array.
    expected : Any
        The shape, number of rows, columns or axes that the array must have.
    found : Any
        What the array has instead.
    **facts : Any
        Further facts, which become attributes.

    Examples
    --------
    >>> import vicinal as vc
    >>> try:
    ...     vc.ModelOutputs.from_logits([0.5, 0.5])
    ... except vc.ShapeMismatch as error:
    ...     print(error)
    ...     print(error.argument, error.expected, error.found)
    logits must have 2 axes; got shape (2,).
    logits 2 (2,)
    """

    def __init__(self, message: str, *, argument: str, expected: Any, found: Any, **facts: Any) -> None:
        super().__init__(message, argument=argument, expected=expected, found=found, **facts)


class InvalidArgument(VicinalError, ValueError):
    """An argument lies outside its range.

    Parameters
    ----------
    argument : str
        Name of the argument.
    value : object
        Its value.
    expected : str
        What the value must be.

    Examples
    --------
    >>> import vicinal as vc
    >>> vc.Ball(radius=-1.0)
    Traceback (most recent call last):
    ...
    vicinal.errors.InvalidArgument: radius must be a finite number above 0; got -1.0.
    """

    def __init__(self, argument: str, value: object, expected: str) -> None:
        self.argument, self.value, self.expected = argument, value, expected
        shown = value.item() if isinstance(value, np.generic) else value
        super().__init__(f"{argument} must be {expected}; got {shown!r}.")


class TooFewRows(VicinalError, ValueError):
    """There are fewer rows than the request needs.

    Parameters
    ----------
    message : str
        What was expected, what was found and what to do.
    rows : int
        Number of rows there are.
    needed : int
        Smallest number of rows that would be enough.
    **facts : Any
        Further facts, which become attributes.

    Examples
    --------
    >>> import vicinal as vc
    >>> outputs = vc.ModelOutputs.from_predictions([1.0, 2.0, 3.0])
    >>> try:
    ...     vc.calibrate(outputs, [1.0, 2.0, 3.0], coverage=0.9, method=vc.Split())
    ... except vc.TooFewRows as error:
    ...     error.rows, error.needed
    (3, 9)
    """

    def __init__(self, message: str, *, rows: int, needed: int, **facts: Any) -> None:
        super().__init__(message, rows=rows, needed=needed, **facts)


class TooLittleMemory(VicinalError, ValueError):
    """The memory limit of a call is below what its smallest block of work needs.

    Parameters
    ----------
    given : int
        The limit, in bytes.
    needed : int
        Bytes that would be enough.
    what : str
        The block of work.
    advice : str
        What to change in order to need less memory.
    **facts : Any
        Further facts, which become attributes.

    Examples
    --------
    >>> error = TooLittleMemory(2_000_000, 5_000_000, "1 query at a time", "or use fewer rows")
    >>> str(error)
    'memory must be at least 5 MB, for 1 query at a time; it is 2 MB. Give more (memory=..., or VICINAL_MEMORY), or use fewer rows.'
    """  # noqa: E501

    def __init__(self, given: int, needed: int, what: str, advice: str, **facts: Any) -> None:
        message = (
            f"memory must be at least {needed / 1e6:.4g} MB, for {what}; it is {given / 1e6:.4g} MB. "
            f"Give more ({{memory}}, or VICINAL_MEMORY), {advice}."
        )
        super().__init__(message, given=given, needed=needed, memory=Option("memory", "..."), **facts)


class Incompatible(VicinalError, TypeError):
    """Two parts do not fit each other.

    Examples
    --------
    >>> import vicinal as vc
    >>> vc.NeverEmpty(vc.AbsoluteResidual())
    Traceback (most recent call last):
    ...
    vicinal.errors.Incompatible: NeverEmpty wraps a classification score such as APS(); got AbsoluteResidual().
    """


class MissingExtra(VicinalError, ImportError):
    """An optional dependency is not installed.

    Parameters
    ----------
    package : str
        The package that could not be imported.
    extra : str
        The extra of vicinal that installs it.

    Examples
    --------
    >>> str(MissingExtra("faiss", "faiss"))
    "this needs faiss, which is not installed; run: pip install 'vicinal[faiss]'"
    """

    def __init__(self, package: str, extra: str) -> None:
        self.package, self.extra = package, extra
        super().__init__(f"this needs {package}, which is not installed; run: pip install 'vicinal[{extra}]'")


class MissingFile(VicinalError, FileNotFoundError):
    """A file or a module does not exist.

    Examples
    --------
    >>> import vicinal as vc
    >>> try:
    ...     vc.load("no-such-file.vicinal")
    ... except vc.MissingFile as error:
    ...     print("there is no such file")
    there is no such file
    """


class InvalidFile(VicinalError, ValueError):
    """A data file has the wrong format, columns or contents.

    Examples
    --------
    >>> str(InvalidFile("rows.csv has no column {column}", column="targets"))
    'rows.csv has no column targets'
    """


class ModelFailed(VicinalError, RuntimeError):
    """A network or its data loader raised an error, which is the cause of this one; the network is unchanged.

    Examples
    --------
    >>> str(ModelFailed("the loader raised an error at batch {batch}", batch=2))
    'the loader raised an error at batch 2'
    """


class ServiceRefused(VicinalError, RuntimeError):
    """A service rejected a request.

    Parameters
    ----------
    status : int
        HTTP status of the response.
    message : str
        The reason that the service gave.

    Examples
    --------
    >>> error = ServiceRefused(422, "logits must be finite")
    >>> str(error), error.status
    ('the service refused (422): logits must be finite', 422)
    """

    def __init__(self, status: int, message: str) -> None:
        self.status = status
        super().__init__(f"the service refused ({status}): {message}")


class ServiceUnreachable(VicinalError, OSError):
    """No service answers at an address.

    Examples
    --------
    >>> isinstance(ServiceUnreachable("no service answers at localhost:1"), OSError)
    True
    """


class ClusterUnavailable(VicinalError, OSError):
    """No Ray cluster answers at an address.

    Examples
    --------
    >>> isinstance(ClusterUnavailable("no cluster answers at localhost:1"), OSError)
    True
    """


class WorkersLost(VicinalError, RuntimeError):
    """Workers of a cluster died or timed out; the work that was finished before is kept.

    Examples
    --------
    >>> str(WorkersLost("{lost} workers died", lost=2))
    '2 workers died'
    """


class CannotWrite(VicinalError, OSError):
    """A file could not be written; a file that existed before is unchanged.

    Examples
    --------
    >>> from vicinal._util.files import writable
    >>> writable(".")
    Traceback (most recent call last):
    ...
    vicinal.errors.CannotWrite: cannot write .: it is a folder; name a file.
    """


class UnsupportedArtifact(VicinalError, ValueError):
    """A saved file has a kind, a format or a part that this version does not know.

    Examples
    --------
    >>> isinstance(UnsupportedArtifact("format 99 is not known"), ValueError)
    True
    """


class CorruptArtifact(VicinalError, ValueError):
    """A saved file is damaged.

    Examples
    --------
    >>> isinstance(CorruptArtifact("its checksum does not match"), ValueError)
    True
    """
