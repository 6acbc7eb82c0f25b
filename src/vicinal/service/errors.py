"""Errors of requests: an HTTP status, one sentence, and headers."""

from __future__ import annotations

from vicinal.errors import Option, VicinalError, Word


class Refused(Exception):
    """A request that is refused; the message is sent to the client."""

    def __init__(self, status: int, message: str, **headers: str) -> None:
        self.status, self.message = status, message
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}
        super().__init__(message)


def refusal(error: VicinalError) -> Refused:
    """Return an error of the library as a refused request with status 422."""
    return Refused(422, " ".join(error.render(render_word).split()))


def render_word(word: Word) -> str:
    """Return one piece of advice in terms of a request."""
    if isinstance(word, Option):
        return "send it under that name" if word.argument == "rename" else f"a model calibrated with {word.in_python()}"
    return f"send {word.name}"
