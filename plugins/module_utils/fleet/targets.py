# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Targets of requests, and the options of a fleet."""

from __future__ import annotations

import asyncio
import random
import time
import typing as t
from dataclasses import dataclass, field

from .budget import Budget
from .tls import Trust
from .urls import is_plain_http


@dataclass(frozen=True)
class Credential:
    """User name and password for HTTP basic authentication."""

    username: str
    password: str = field(repr=False)


@dataclass(frozen=True)
class BearerToken:
    """A token for HTTP bearer authentication (RFC 6750)."""

    token: str = field(repr=False)


@dataclass(frozen=True)
class Target:
    """One server of node ``name``; ``extra`` belongs to the caller.

    The credential is sent over plain HTTP only if ``allow_plain_http`` is true.
    """

    name: str
    endpoint: str
    credential: Credential | BearerToken | None = None
    trust: Trust = field(default_factory=Trust)
    extra: t.Mapping[str, t.Any] = field(default_factory=dict)
    allow_plain_http: bool = False

    @property
    def sends_password_in_the_clear(self) -> bool:
        """Whether the credential would be sent over plain HTTP."""
        return self.credential is not None and is_plain_http(self.endpoint)


@dataclass(frozen=True)
class FleetOptions:
    """``timeout`` is the limit of one target in seconds, from its first request."""

    timeout: float = 10.0
    concurrency: int = 64
    per_host: int = 1
    retries: int = 2
    budget: Budget = field(default_factory=Budget)


@dataclass(frozen=True)
class Pace:
    """Sources of time and randomness. ``clock`` is monotonic, ``wall`` the seconds since 1970."""

    clock: t.Callable[[], float] = time.monotonic
    wall: t.Callable[[], float] = time.time
    sleep: t.Callable[[float], t.Awaitable[None]] = asyncio.sleep
    jitter: t.Callable[[], float] = random.random
