"""Settings of a service: address, limits, memory."""

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
    """Settings of a service.

    Parameters
    ----------
    host : str, default "127.0.0.1"
        Address to listen on.
    port : int, default 8000
        Port; 0 picks a free one.
    token : str, optional
        Bearer token that requests must send.
    max_body : float or str, default "32 MB"
        Largest size of a request, compressed or not.
    max_rows : int, default 10000
        Most rows in a request.
    concurrency : int, default 64
        Most requests at a time; further ones get status 429.
    timeout : float, default 30
        Seconds for a request to arrive, for its reply to be computed, and for open requests to finish at shutdown.
    remember : int, default 10000
        Number of recent predictions whose true target can still be sent.
    journal : Path, optional
        File to record predictions and true targets in; a restart reads it.

    Examples
    --------
    >>> Settings(max_rows=100).max_rows
    100
    """

    host: str = "127.0.0.1"
    port: int = 8000
    token: str | None = None
    max_body: float | str = "32 MB"
    max_rows: int = 10_000
    concurrency: int = 64
    timeout: float = 30.0
    remember: int = 10_000
    journal: Path | None = None

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
        """Largest number of bytes of a request."""
        return int(megabytes("max_body", self.max_body) * 1e6)

    @property
    def local(self) -> bool:
        """Whether only this machine can send requests."""
        return is_local(self.host)


def check_token(token: str) -> None:
    """Refuse a token that is short or cannot be sent in a header."""
    if not re.fullmatch(r"[!-~]+", token) or len(token) < SHORTEST_TOKEN:
        expected = f"at least {SHORTEST_TOKEN} visible ASCII characters, without spaces, or not set"
        msg = f"{TOKEN} must be {expected}; got {len(token)} characters, not shown here."
        raise InvalidValue(msg)


def is_local(host: str) -> bool:
    """Return whether a name or an address can be reached from this machine only.

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
    """Return the token that requests must send, or None."""
    return os.environ.get(TOKEN)
