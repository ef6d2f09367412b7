# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Whom to trust over TLS: certificate authorities, pinned fingerprints, or anybody.

A pin is the SHA-256 either of the whole certificate or of its public key (SubjectPublicKeyInfo).
The second one survives a renewed certificate with the same key.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
import ssl
import typing as t
from dataclasses import dataclass

from ansible_collections.wattwise.kube.plugins.module_utils.errors import InvalidInput

_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Trust:
    """How a server proves who it is. Where there are fingerprints, they alone decide.

    ``ca_path`` and ``ca_content`` (PEM) replace the system's authorities. Raises InvalidInput for
    a fingerprint that is none.
    """

    validate_certs: bool = True
    ca_path: str | None = None
    ca_content: str | None = None
    fingerprints: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        normal = sorted({normal_fingerprint(text) for text in self.fingerprints})
        object.__setattr__(self, "fingerprints", tuple(normal))

    @property
    def verifies(self) -> bool:
        """Whether an impostor would be noticed."""
        return bool(self.fingerprints) or self.validate_certs


def normal_fingerprint(text: str) -> str:
    """64 lower-case hexadecimal digits of a SHA-256, written with or without colons."""
    digits = re.sub(r"[\s:]", "", re.sub(r"(?i)^\s*sha-?256[:=]", "", text)).lower()
    if _SHA256.fullmatch(digits) is None:
        raise InvalidInput(
            f"tls_fingerprint: {text!r} is not a SHA-256 fingerprint; write 64 hexadecimal digits, "
            "with or without colons (the module tls_fingerprint_info shows those of your machines)"
        )
    return digits


def certificate_fingerprint(certificate: bytes) -> str:
    """SHA-256 of a certificate (DER), as 64 lower-case hexadecimal digits."""
    return hashlib.sha256(certificate).hexdigest()


def key_fingerprint(certificate: bytes) -> str:
    """SHA-256 of the public key (SubjectPublicKeyInfo) of a certificate (DER)."""
    return hashlib.sha256(_public_key(certificate)).hexdigest()


def client_context(trust: Trust) -> ssl.SSLContext:
    """A context that completes a handshake only with a server that ``trust`` accepts.

    Raises InvalidInput where the authorities cannot be read.
    """
    if trust.fingerprints:
        context = unverified_context()
        context.sslobject_class = _pinned(frozenset(trust.fingerprints))
        return context
    if not trust.validate_certs:
        return unverified_context()
    try:
        context = ssl.create_default_context(cafile=trust.ca_path, cadata=trust.ca_content)
    except (OSError, ValueError) as error:
        source = f"the file {trust.ca_path}" if trust.ca_path else "the text given as ca"
        raise InvalidInput(
            f"Cannot read certificate authorities from {source} ({error}); "
            "give certificates in PEM form"
        ) from error
    context.sslobject_class = _PromptSSLObject
    return context


def unverified_context() -> ssl.SSLContext:
    """A context that accepts any server."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.sslobject_class = _PromptSSLObject
    return context


class _PromptSSLObject(ssl.SSLObject):
    """A TLS connection that closes without waiting until the server agrees: it may hang."""

    def unwrap(self) -> None:
        with contextlib.suppress(ssl.SSLWantReadError):
            super().unwrap()


def _pinned(accepted: frozenset[str]) -> type[ssl.SSLObject]:
    """A TLS connection whose handshake fails unless the server's certificate is one of these."""

    class PinnedSSLObject(_PromptSSLObject):
        def do_handshake(self) -> None:
            super().do_handshake()
            certificate = self.getpeercert(binary_form=True) or b""
            found = certificate_fingerprint(certificate)
            if found not in accepted and key_fingerprint(certificate) not in accepted:
                raise ssl.SSLCertVerificationError(
                    ssl.SSL_ERROR_SSL,
                    f"its certificate has the SHA-256 fingerprint {found}, which is not among the "
                    "pinned ones",
                )

    return PinnedSSLObject


def _public_key(certificate: bytes) -> bytes:
    """SubjectPublicKeyInfo of a certificate (RFC 5280, section 4.1), all in DER."""
    to_be_signed = next(_elements(certificate, *_content(certificate, 0)))
    fields = list(_elements(certificate, *_content(certificate, to_be_signed[0])))
    has_version = certificate[fields[0][0]] == 0xA0
    start, end = fields[6 if has_version else 5]
    return certificate[start:end]


def _elements(data: bytes, start: int, end: int) -> t.Iterator[tuple[int, int]]:
    """Where each DER element between two offsets begins and ends."""
    while start < end:
        element_end = _content(data, start)[1]
        yield start, element_end
        start = element_end


def _content(data: bytes, start: int) -> tuple[int, int]:
    """Where the content of the DER element at ``start`` begins and ends (X.690, section 8.1)."""
    length = data[start + 1]
    content = start + 2
    if length >= 0x80:
        content += length & 0x7F
        length = int.from_bytes(data[start + 2 : content], "big")
    return content, content + length
