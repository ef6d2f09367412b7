# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Address and credentials of a Kubernetes API server, as values."""

from __future__ import annotations

import re
import typing as t
import urllib.parse
from dataclasses import dataclass
from pathlib import Path

from ...base.errors import InvalidInput

# Certificates or a key: a Path is their file, a text the PEM itself.
Pem = t.Union[Path, str]


@dataclass(frozen=True)
class Credential:
    """Value of the header ``Authorization``, a client certificate with its key, or both."""

    authorization: str | None = None
    certificate: Pem | None = None
    key: Pem | None = None


@dataclass(frozen=True)
class Access:
    """Access of one client to one API server.

    ``credential`` is called before each request, because tokens rotate. ``ca`` None means the
    certificates of the system, ``proxy`` None the proxy of the environment. The client certificate
    and key here take precedence over those of ``credential``.
    """

    host: str
    ca: Pem | None = None
    verify: bool = True
    server_name: str | None = None
    proxy: str | None = None
    certificate: Pem | None = None
    key: Pem | None = None
    credential: t.Callable[[], Credential] = Credential
    impersonation: tuple[tuple[str, str], ...] = ()

    def headers(self) -> list[tuple[str, str]]:
        """Headers of authentication and impersonation; names may repeat."""
        authorization = self.credential().authorization
        own = [("Authorization", authorization)] if authorization else []
        return [*own, *self.impersonation]


def bearer(token: str) -> str:
    """The value of ``Authorization`` for a token."""
    return f"Bearer {token.strip()}"


def token_file(path: Path) -> t.Callable[[], Credential]:
    """Credential from a token file, read at each call because kubelets and sidecars renew it."""

    def read() -> Credential:
        try:
            return Credential(bearer(path.read_text(encoding="utf-8")))
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or "no UTF-8"
            raise InvalidInput(
                f"Cannot read the token of the Kubernetes API in the file {path} ({reason}); "
                "check that the file exists and is readable"
            ) from error

    return read


def _has_valid_port(url: str) -> bool:
    """Whether the port is missing or valid; False also for a host that cannot be read."""
    try:
        return urllib.parse.urlsplit(url).port != 0
    except ValueError:
        return False


def checked_host(host: str, where: str = "host") -> str:
    """Validate the URL of an API server. Raises InvalidInput."""
    if "@" in host:
        raise InvalidInput(
            f"{where} holds a user name or password; remove it, and give a token or a certificate"
        )
    if not re.match(r"https?://[^/]", host) or not _has_valid_port(host):
        raise InvalidInput(
            f"{host!r} is not a URL of a Kubernetes API; write {where} as https://address:port"
        )
    return host.rstrip("/")
