"""How a service is run: where it listens, what it lets in, what it remembers."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

from vicinal._util.arrays import positive, whole_number
from vicinal._util.work import megabytes
from vicinal.errors import InvalidValue
from vicinal.service.client import TOKEN

SHORTEST_TOKEN = 16
LAST_PORT = 65535


@dataclass(frozen=True)
class Settings:
    """How a service is run; every limit is a number that can be said.

    Examples
    --------
    >>> Settings(max_rows=100).max_rows
    100
    """

    host: str = "127.0.0.1"
    port: int = 8000
    token: str | None = None
    max_body: float | str = "32 MB"  # of a request, packed or unpacked
    max_rows: int = 10_000  # of a request
    concurrency: int = 64  # requests that are worked on at a time; more are told to come back
    timeout: float = 30.0  # seconds for a request to arrive, for its answer to be fetched, and for the last at the end
    remember: int = 10_000  # answers for which the truth may come
    journal: Path | None = None  # where answers and truths are written, to go on after a restart

    def __post_init__(self) -> None:
        whole_number("port", self.port, least=0, most=LAST_PORT)
        whole_number("max_rows", self.max_rows, least=1)
        whole_number("concurrency", self.concurrency, least=1)
        whole_number("remember", self.remember, least=1)
        positive("timeout", self.timeout)
        megabytes("max_body", self.max_body)
        if self.token is not None:
            check_token(self.token)

    @property
    def body_bytes(self) -> int:
        """Bytes that a request may have."""
        return int(megabytes("max_body", self.max_body) * 1e6)

    @property
    def local(self) -> bool:
        """Whether only this machine can ask."""
        return is_local(self.host)


def check_token(token: str) -> None:
    """Refuse a token that is short, or that would not come through a header as it is."""
    if not re.fullmatch(r"[!-~]+", token) or len(token) < SHORTEST_TOKEN:
        expected = f"at least {SHORTEST_TOKEN} visible ASCII characters, without spaces, or not set"
        msg = f"{TOKEN} must be {expected}; got {len(token)} characters, which are not said here."
        raise InvalidValue(msg)


def is_local(host: str) -> bool:
    """Return whether a name or an address is that of this machine, for itself alone.

    Examples
    --------
    >>> is_local("127.0.0.1"), is_local("localhost"), is_local("127.0.0.1.example.org")
    (True, True, False)
    """
    if host.lower() == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def token_from_environment() -> str | None:
    """Return the token that requests must show, None where none is set."""
    return os.environ.get(TOKEN)
