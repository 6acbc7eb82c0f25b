"""What a request is refused with: a status, one sentence, and headers that go with it."""

from __future__ import annotations

from vicinal.errors import Option, VicinalError, Word


class Refused(Exception):
    """A request that cannot be answered; the message goes to whoever asked."""

    def __init__(self, status: int, message: str, **headers: str) -> None:
        self.status, self.message = status, message
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}
        super().__init__(message)


def refusal(error: VicinalError) -> Refused:
    """Return what the library refused as a request is refused: understood, but not acceptable."""
    return Refused(422, " ".join(error.render(render_word).split()))


def render_word(word: Word) -> str:
    """Return one piece of advice in the words of a request."""
    if isinstance(word, Option):
        return "send it under that name" if word.argument == "rename" else f"a model calibrated with {word.in_python()}"
    return f"send {word.name}"
