# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Single requests to one target, within its deadline and its budget."""

from __future__ import annotations

import asyncio
import base64
import typing as t
import zlib

from ..base.errors import TargetFailure
from ..base.libraries import aiohttp, yarl
from ..base.texts import shown
from .budget import Spent
from .failures import failure_of_exchange
from .targets import BearerToken, Credential, FleetOptions, Pace, Target
from .tls import unverified_context
from .urls import Address

CONNECT_TIMEOUT_SECONDS = 5.0
# Present limits of aiohttp for a header line and a header, fixed here.
_MAX_HEADER_BYTES = 8190


class Received(t.NamedTuple):
    """An answer of any status, with lower-case header names."""

    status: int
    headers: t.Mapping[str, str]
    content: bytes

    @property
    def text(self) -> str:
        return self.content.decode(errors="replace")


class Exchange:
    """Sends the requests of one target; each failure is a TargetFailure."""

    def __init__(
        self, target: Target, address: Address, session: t.Any, options: FleetOptions, pace: Pace
    ) -> None:
        self._address = address
        self._session = session
        self._options = options
        self._pace = pace
        self.deadline = pace.clock() + options.timeout
        self._headers = {"Accept": "application/json", "Accept-Encoding": "identity"}
        if target.credential is not None:
            self._headers["Authorization"] = _authorization(target.credential)
        self._server_name = target.trust.server_name
        self._is_connected = False
        self.has_answered = False
        self.spent = Spent(options.budget)

    def mark_connected(self) -> None:
        """Called by the trace of the session when the request of this target has a connection."""
        self._is_connected = True

    async def send(
        self,
        method: str,
        url: str,
        content: bytes | None,
        limit: float | None,
        what: str,
        more: t.Mapping[str, str] | None = None,
    ) -> Received:
        """Send one request and return its answer of any status. Raises TargetFailure."""
        self.spent.request(what)
        seconds = min(self._remaining(what), limit or self._options.timeout)
        kind = {} if content is None else {"Content-Type": "application/json"}
        headers = {**self._headers, **kind, **(more or {})}
        self._is_connected = False
        try:
            async with self._session.request(
                method,
                yarl.URL(url, encoded=True),
                data=content,
                headers=headers,
                allow_redirects=False,
                trace_request_ctx=self,
                server_hostname=self._server_name,
                max_line_size=_MAX_HEADER_BYTES,
                max_field_size=_MAX_HEADER_BYTES,
                # aiohttp rounds up timeouts above five seconds.
                timeout=aiohttp.ClientTimeout(
                    total=seconds, sock_connect=CONNECT_TIMEOUT_SECONDS, ceil_threshold=1e9
                ),
            ) as response:
                self.has_answered = True
                sizes = (len(name) + len(value) for name, value in response.headers.items())
                self.spent.received(sum(sizes), what)
                names = {name.lower(): value for name, value in response.headers.items()}
                return Received(response.status, names, await self._content(response, what))
        except (aiohttp.ClientError, asyncio.TimeoutError, OSError, ValueError) as error:
            raise self.failure_of(error, what) from error

    async def _content(self, response: t.Any, what: str) -> bytes:
        """The body; its bytes are counted before they are kept, also after decompression.

        Some BMCs send gzip unrequested.
        """
        encoding = response.headers.get("Content-Encoding", "identity").lower()
        unpacker = zlib.decompressobj(wbits=47) if encoding in ("gzip", "deflate") else None
        if unpacker is None and encoding not in ("", "identity"):
            raise TargetFailure(
                "malformed",
                f"the answer to {what} is packed as {shown(encoding)}, which was not requested",
            )
        content = bytearray()
        async for chunk in response.content.iter_any():
            self.spent.received(len(chunk), what)
            if unpacker is None:
                content += chunk
                continue
            try:
                part = unpacker.decompress(chunk, self.spent.bytes_left + 1)
            except zlib.error as error:
                raise TargetFailure("malformed", f"the answer to {what} is not gzip") from error
            self.spent.received(len(part), what)
            content += part
        return bytes(content)

    async def certificate(self) -> bytes:
        """Certificate of the server (DER), from a TLS handshake without a request."""
        if self._address.origin.scheme != "https":
            raise TargetFailure("tls", "the endpoint is http://, which has no certificate")
        _scheme, host, port = self._address.origin
        try:
            _reader, writer = await asyncio.wait_for(
                asyncio.open_connection(host, port, ssl=unverified_context(), server_hostname=host),
                self._remaining("the TLS handshake"),
            )
        except (OSError, asyncio.TimeoutError) as error:
            raise self.failure_of(error, "the TLS handshake") from error
        certificate: bytes = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        writer.transport.abort()
        return certificate

    def _remaining(self, what: str) -> float:
        seconds = self.deadline - self._pace.clock()
        if seconds <= 0:
            raise self._timeout(what)
        return seconds

    def _timeout(self, what: str) -> TargetFailure:
        return TargetFailure(
            "timeout",
            f"no answer to {what} within {self._options.timeout:g} s for the whole target; "
            "check its load, or raise timeout",
        )

    def failure_of(self, error: Exception, what: str) -> TargetFailure:
        """Convert an exception of aiohttp, ssl or a socket to the target's failure."""
        if isinstance(error, asyncio.TimeoutError) and self._is_connected:
            return self._timeout(what)
        is_tls = self._address.origin.scheme == "https"
        return failure_of_exchange(error, what, self._is_connected, is_tls)


def _authorization(credential: Credential | BearerToken) -> str:
    if isinstance(credential, BearerToken):
        return f"Bearer {credential.token}"
    token = f"{credential.username}:{credential.password}".encode()
    return "Basic " + base64.b64encode(token).decode("ascii")
