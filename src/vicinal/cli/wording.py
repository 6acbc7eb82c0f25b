"""Put the advice in error messages into the words of the command line."""

from __future__ import annotations

from vicinal.errors import Column, Option, VicinalError, Word
from vicinal.predictor.predictors import IntervalPredictor, SetPredictor


def render(error: VicinalError) -> str:
    """Return the message of an error on one line, with options in place of Python arguments.

    Examples
    --------
    >>> render(VicinalError("needs rows: use {method}", method=Option("method", "Split()")))
    'needs rows: use --method Split'
    """
    return " ".join(error.render(render_word).split())


def never_empty(predictor: SetPredictor | IntervalPredictor) -> str:
    """Return the option to calibrate with, so that no set is empty."""
    return f'--score "NeverEmpty({repr(predictor.score).removesuffix("()")})"'


def render_word(word: Word) -> str:
    """Return one piece of advice in the words of the command line."""
    if isinstance(word, Option):
        name = "--" + word.argument.replace("_", "-")
        value = word.value.removesuffix("()")
        if value == "...":
            return name
        if word.argument == "rename":
            return f"add {name} {value}"
        return f'{name} "{value}"' if "(" in value else f"{name} {value}"
    assert isinstance(word, Column)  # noqa: S101  one or the other
    return {"class_names": "give --class-names", "logits": "call the column logits"}.get(
        word.name, f"give {'columns' if ' and ' in word.name else 'a column'} {word.name}"
    )
