# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Endpoints from users, and links from servers."""

from __future__ import annotations

import ipaddress
import re
import typing as t
import urllib.parse
from dataclasses import dataclass

from ..base.boundary import shown, shown_text
from ..base.errors import TargetFailure

_DEFAULT_PORTS = {"http": 80, "https": 443}
_EXAMPLE = "write it like https://10.0.0.1 or https://[fd00::1]:8443"

# Characters of a path and query by RFC 3986, and %, because links of servers are already encoded;
# quoting "%23" again would address another resource.
_KEPT = "/:@!$&'()*+,;=?-._~%"

_AUTHORITY = re.compile(r"(?:\[(?P<address>[0-9A-Fa-f:.]+)\]|[^\[\]:@]+)(?::[0-9]{0,9})?", re.ASCII)


class Origin(t.NamedTuple):
    """Origin of a connection: scheme, host and port."""

    scheme: str
    host: str
    port: int


@dataclass(frozen=True)
class Address:
    """A parsed endpoint: its origin and the path prefix of every request."""

    origin: Origin
    base_path: str = ""

    def url(self, link: str) -> str:
        """URL of ``link``, a path or an absolute URL of the same origin, without fragment.

        A path that does not begin with the base path gets it as prefix. Raises TargetFailure for
        another origin, because credentials would be sent there.
        """
        given = link.strip()
        parts = _split(given)
        if parts is None:
            raise TargetFailure(
                "malformed", f"the server gave the link {shown(redacted(link))}, which is not a URL"
            )
        if parts.scheme or parts.netloc:
            self._require_same_origin(given)
        return self._here(parts)

    def redirected(self, url: str, location: str) -> str:
        """URL of a redirect's Location (RFC 9110, 10.2.2), always of this origin.

        Behind NAT, and under another name, a BMC redirects to the only address that it knows, its
        own. So the path counts, and the rest is ignored; credentials never leave the origin. Raises
        TargetFailure.
        """
        try:
            parts = _split(urllib.parse.urljoin(url, location.strip()))
        except ValueError:
            parts = None
        if parts is None or parts.scheme not in _DEFAULT_PORTS:
            where = shown(redacted(location))
            raise TargetFailure("malformed", f"the server redirects to {where}, which is not a URL")
        return self._here(parts)

    def leaves(self, location: str) -> bool:
        """Whether a redirect's Location names another origin."""
        parts = _split(location.strip())
        return parts is not None and bool(parts.netloc) and origin_of(location) != self.origin

    def _here(self, parts: urllib.parse.SplitResult) -> str:
        """URL of this path and query at this endpoint."""
        path = "/" + parts.path.lstrip("/")
        if self.base_path and path != self.base_path and not path.startswith(self.base_path + "/"):
            path = self.base_path + path
        query = f"?{parts.query}" if parts.query else ""
        return f"{origin_text(self.origin)}{urllib.parse.quote(path + query, safe=_KEPT)}"

    def _require_same_origin(self, link: str) -> None:
        if origin_of(link) != self.origin:
            raise elsewhere(link)


def elsewhere(link: str) -> TargetFailure:
    """The failure of a link or a redirect that leaves the origin."""
    where = shown_text(redacted(link), 200)
    return TargetFailure(
        "server_error",
        f"the server points to {where}, another origin, which is not followed because credentials "
        "would go there; if it is right, make it the endpoint",
    )


def parse_endpoint(endpoint: str) -> Address:
    """Parse a URL such as ``https://10.0.0.1:8443/base``. Raises TargetFailure."""
    parts = _split(endpoint.strip())
    if parts is None:
        raise TargetFailure(
            "malformed", f"the endpoint {shown(redacted(endpoint))} is not a URL; {_EXAMPLE}"
        )
    if parts.scheme not in _DEFAULT_PORTS or not parts.hostname:
        raise TargetFailure(
            "malformed",
            f"the endpoint {shown(redacted(endpoint))} lacks http:// or https:// and a "
            f"host; {_EXAMPLE}",
        )
    if "@" in parts.netloc:
        raise TargetFailure(
            "malformed",
            "the endpoint holds a user name or password; remove it and give it as a credential",
        )
    if not parts.hostname.isascii():
        # Letters of different scripts look alike, and resolvers map some of them to one.
        raise TargetFailure(
            "malformed",
            f"the host {shown(parts.hostname)} has letters beyond ASCII; write its name as xn--…",
        )
    port = parts.port if parts.port is not None else _DEFAULT_PORTS[parts.scheme]
    return Address(Origin(parts.scheme, parts.hostname, port), parts.path.rstrip("/"))


def origin_of(url: str) -> Origin | None:
    """Origin of a URL; None without one or for another scheme."""
    try:
        return parse_endpoint(url).origin
    except TargetFailure:
        return None


def same_origin(one: str, other: str) -> bool:
    """Whether two URLs have the same origin."""
    origin = origin_of(one)
    return origin is not None and origin == origin_of(other)


def is_plain_http(endpoint: str) -> bool:
    """Whether requests to the endpoint use plain HTTP; False also for an invalid endpoint."""
    origin = origin_of(endpoint)
    return origin is not None and origin.scheme == "http"


def origin_text(origin: Origin) -> str:
    """The origin as the beginning of a URL."""
    host = f"[{origin.host}]" if ":" in origin.host else origin.host
    port = "" if origin.port == _DEFAULT_PORTS[origin.scheme] else f":{origin.port}"
    return f"{origin.scheme}://{host}{port}"


def redacted(url: str) -> str:
    """The URL without user name and password, with any characters in these."""
    return re.sub(r"^((?:[\w+.-]+:)?//)?.*@", r"\1", url, flags=re.DOTALL)


def masked(url: str) -> str:
    """The URL with masked user name and password, which is still refused as an endpoint."""
    if "@" not in url:
        return url
    parts = _split(url)
    holds = "@" in (url if parts is None else parts.netloc)
    return re.sub(r"^((?:[\w+.-]+:)?//)?.*@", r"\1***@", url, flags=re.DOTALL) if holds else url


def _require_one_host(authority: str) -> None:
    """Raise ValueError unless this is a single host with an optional port.

    urlsplit reads evil.example[::1] and [::1].evil.example as the address ::1.
    """
    match = _AUTHORITY.fullmatch(authority)
    if match is None:
        raise ValueError("neither a name nor an address")
    if match["address"]:
        ipaddress.IPv6Address(match["address"])


def _split(url: str) -> urllib.parse.SplitResult | None:
    """Parts of a URL; None for an invalid URL or port."""
    try:
        parts = urllib.parse.urlsplit(url)
        if parts.netloc and "@" not in parts.netloc:
            _require_one_host(parts.netloc)
        if parts.hostname and re.search(r"[\s%<>\"\\^`{|}]", parts.hostname):
            return None
        return parts if parts.port is None or parts.port > 0 else None
    except ValueError:
        return None
