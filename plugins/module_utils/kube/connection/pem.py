# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Certificates in PEM bundles, read as Go reads them.

Bundles come with names and comments between the certificates, in any encoding. Go takes the blocks
``CERTIFICATE`` without headers and skips all else, also a block that is no certificate.
Source: https://pkg.go.dev/crypto/x509#CertPool.AppendCertsFromPEM
"""

from __future__ import annotations

import base64
import contextlib
import re
import ssl
import typing as t
from pathlib import Path

_BLOCK = re.compile(
    rb"^-----BEGIN CERTIFICATE-----[ \t\r]*\n([^-]*)-----END CERTIFICATE-----", re.MULTILINE
)
_BLANKS = re.compile(rb"\s")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
# X509_V_FLAG_PARTIAL_CHAIN, which Python names from 3.10 on.
_PARTIAL_CHAIN = 0x80000


def pem_bytes(pem: Path | str | bytes) -> bytes:
    """The bytes of a bundle; a Path is its file. Raises OSError."""
    if isinstance(pem, Path):
        return pem.read_bytes()
    return pem.encode("utf-8", "surrogateescape") if isinstance(pem, str) else pem


def pem_text(content: bytes) -> str:
    """A bundle as a text from which ``pem_bytes`` gives the same bytes."""
    return content.decode("utf-8", "surrogateescape")


def certificates(pem: Path | str | bytes) -> list[bytes]:
    """The certificates (DER) of a bundle, in their order.

    Raises OSError for an unreadable file and ValueError for a bundle without a certificate.
    """
    content = pem_bytes(pem).removeprefix(_BYTE_ORDER_MARK)
    found = list(_usable(match[1] for match in _BLOCK.finditer(content)))
    if not found:
        raise ValueError("it holds no certificate in PEM")
    return found


def accept_as_go(context: ssl.SSLContext) -> None:
    """Trust every given certificate, as Go does, and not only self-signed ones.

    The authority of a cluster is often an intermediate one. Newer versions of Python would also
    refuse authorities with deviations from RFC 5280 that Go and other clients accept.
    """
    context.verify_flags = (context.verify_flags | _PARTIAL_CHAIN) & ~ssl.VERIFY_X509_STRICT


def _usable(bodies: t.Iterable[bytes]) -> t.Iterator[bytes]:
    trial = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    for body in bodies:
        with contextlib.suppress(ValueError, ssl.SSLError):
            certificate = base64.b64decode(_BLANKS.sub(b"", body), validate=True)
            trial.load_verify_locations(cadata=certificate)
            yield certificate
