# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The REST API of one RMD daemon, of v0.2 or v0.3, over plain HTTP or TLS.

An endpoint is used only with the scheme of its URL; upstream's client falls back from TLS to HTTP
if its key is too short.
"""

from __future__ import annotations

import typing as t
import urllib.parse

from ...base.errors import TargetFailure, TargetReason, failure_of, told_text
from ...base.fields.lenient import member, whole
from ...base.texts import shown_text
from ...fleet.visits import Client, Received
from .cache import Cache, caches_of
from .workload import JsonObject, Stored, Wire, stored_of

T = t.TypeVar("T")

WORKLOADS = "/v1/workloads"
_MAX_WORDS_LENGTH = 1000
_MAX_WORKLOADS = 10_000
_REASONS: dict[int, TargetReason] = {401: "unauthorized", 403: "forbidden", 404: "not_found"}
# Message with status 400 of a daemon that requires a user name and a password.
_NO_CREDENTIALS = "Malformed credentials"
_CLIENT_REFUSED = (
    "; a daemon that does not accept the client's certificate, or gets none, does this: give "
    "certificate and key of its administrator (client_cert, client_key)"
)


class Refused(TargetFailure):
    """The daemon refused the request; ``text`` is its message."""

    def __init__(self, what: str, received: Received) -> None:
        self.status = received.status
        self.text = shown_text(received.text[:_MAX_WORDS_LENGTH].strip(), _MAX_WORDS_LENGTH)
        self._what = what
        reason = _REASONS.get(received.status, "refused")
        if self.text == _NO_CREDENTIALS:
            reason = "unauthorized"
        super().__init__(reason, "")
        self.explain(self.text or "no words")

    def explain(self, meaning: str, note: str = "") -> None:
        """Set ``detail`` to the meaning of the daemon's message, and the consequence."""
        if self.reason in ("unauthorized", "forbidden"):
            meaning += (
                "; use a client certificate that may do this (an administrator's), or username and "
                "password where the daemon asks for these"
            )
        self.detail = told_text(f"HTTP {self.status} to {self._what}: {meaning}{note}")

    def __str__(self) -> str:
        return self.detail


class Rmd:
    """Client of one daemon. Every failure is a TargetFailure."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.requests_that_write = 0

    async def workloads(self) -> list[Stored]:
        """All workloads in the daemon's database."""
        document = await self._get(WORKLOADS)
        if not isinstance(document, list) or len(document) > _MAX_WORKLOADS:
            raise TargetFailure(
                "malformed",
                f"the answer to GET {WORKLOADS} is not a list of workloads of one machine",
            )
        return _understood(lambda: [stored_of(item) for item in document])

    async def wire(self, stored: t.Sequence[Stored] = ()) -> Wire:
        """Version of the daemon's JSON, by its workloads, else by its policies.

        v0.3 has ``rdt`` in each workload, and numbers in its policies; v0.2 has texts.
        """
        for item in stored:
            return item.wire
        for policy in (await self.policies()).values():
            values = [member(policy, "cache", name) for name in ("max", "min")]
            return "0.2" if any(isinstance(value, str) for value in values) else "0.3"
        raise TargetFailure(
            "malformed",
            "the daemon has neither workloads nor policies, which would show its version; set wire",
        )

    async def caches(self) -> list[Cache]:
        """All last-level caches, by id."""
        document = await self._get("/v1/cache/l3")
        return _understood(lambda: caches_of(document))

    async def policies(self) -> JsonObject:
        """Policies by name, in the daemon's own form."""
        document = await self._get("/v1/policy")
        if not isinstance(document, dict):
            raise TargetFailure("malformed", "the answer to GET /v1/policy is not an object")
        return document

    async def mba(self) -> JsonObject:
        """Whether and how the machine allocates memory bandwidth."""
        document = await self._get("/v1/mba")
        return document if isinstance(document, dict) else {}

    async def hospitality(self, most: int, least: int) -> dict[int, int]:
        """Hospitality score of a request from 0 to 100, by cache id."""
        what = {"max_cache": most, "min_cache": least}
        asked = "POST /v1/hospitality"
        document = self._client.decoded(await self._ask("POST", "/v1/hospitality", what), asked)
        scores = member(document, "score", "l3")
        if not isinstance(scores, dict):
            raise TargetFailure("malformed", "the answer to POST /v1/hospitality has no scores")
        found = {whole(cache): whole(score) for cache, score in scores.items()}
        return {
            cache: score
            for cache, score in found.items()
            if cache is not None and score is not None
        }

    async def create(self, body: JsonObject) -> Stored:
        return await self._write("POST", WORKLOADS, body)

    async def change(self, key: str, body: JsonObject) -> Stored:
        return await self._write("PATCH", _link_of(key), body)

    async def delete(self, key: str) -> bool:
        """Delete a workload; return whether it existed. A missing one is no error."""
        link = _link_of(key)
        self.requests_that_write += 1
        try:
            received = await self._ask("DELETE", link)
        except Refused as refused:
            if refused.status == 404:
                return False
            raise
        if received.text.strip():  # it refuses workloads of others by 200 with a text
            raise Refused(f"DELETE {link}", received)
        return True

    async def _write(self, method: str, link: str, body: JsonObject) -> Stored:
        self.requests_that_write += 1
        received = await self._ask(method, link, body)
        if received.status == 200 and received.text.startswith("200:"):
            raise Refused(f"{method} {link}", received)
        document = self._client.decoded(received, f"{method} {link}")
        return _understood(lambda: stored_of(document))

    async def _get(self, link: str) -> t.Any:
        return self._client.decoded(await self._ask("GET", link), f"GET {link}")

    async def _ask(self, method: str, link: str, body: t.Any = None) -> Received:
        try:
            received = await self._client.exchange(method, link, body)
        except TargetFailure as failure:
            # Its TLS alert may be lost, and then the connection only breaks.
            if "TLS handshake" in failure.detail:
                raise TargetFailure("tls", failure.detail + _CLIENT_REFUSED) from failure
            raise
        if not 200 <= received.status < 300:
            raise Refused(f"{method} {link}", received)
        return received


def _link_of(key: str) -> str:
    return f"{WORKLOADS}/{urllib.parse.quote(key, safe='')}"


def _understood(read: t.Callable[[], T]) -> T:
    """The content of an answer, or a malformed one, so that a completed write is recorded."""
    try:
        return read()
    except Exception as error:
        raise failure_of(error) from error
