# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""TLS trust (authorities, pinned fingerprints or no verification) and client certificates.

A pin is the SHA-256 of the whole certificate or of its public key (SubjectPublicKeyInfo). A pinned
key survives a renewal of the certificate.
"""

from __future__ import annotations

import contextlib
import contextvars
import hashlib
import re
import ssl
import typing as t
from dataclasses import dataclass, replace
from pathlib import Path

from ..base.boundary import shown
from ..base.errors import InvalidInput
from ..kube.connection.pem import accept_as_go, certificates

_SHA256 = re.compile(r"[0-9a-f]{64}")
_MIN_RSA_BITS = 2048
_RSA_ENCRYPTION = bytes.fromhex("2a864886f70d010101")  # 1.2.840.113549.1.1.1 (RFC 8017)
_SOME_PIN = ("0" * 64,)
# The pins of the server that the present task visits. A task without any accepts no pinned server.
_ACCEPTED: contextvars.ContextVar[tuple[str, ...]] = contextvars.ContextVar("pins", default=())


@dataclass(frozen=True)
class ClientCertificate:
    """Files (PEM) of a client certificate; ``path`` has the key too if ``key_path`` is missing."""

    path: str
    key_path: str | None = None


@dataclass(frozen=True)
class Trust:
    """Verification of a server. Fingerprints override authorities.

    ``ca_path`` and ``ca_content`` (PEM) replace the system's authorities. ``server_name`` replaces
    the host of the endpoint in the check of the certificate. ``client`` is the certificate of this
    client. Raises InvalidInput for an invalid fingerprint.
    """

    validate_certs: bool = True
    ca_path: str | None = None
    ca_content: str | None = None
    fingerprints: tuple[str, ...] = ()
    server_name: str | None = None
    client: ClientCertificate | None = None

    def __post_init__(self) -> None:
        normal = sorted({normal_fingerprint(text) for text in self.fingerprints})
        object.__setattr__(self, "fingerprints", tuple(normal))

    @property
    def verifies(self) -> bool:
        """Whether the identity of the server is verified."""
        return bool(self.fingerprints) or self.validate_certs

    @property
    def of_context(self) -> Trust:
        """The same for trusts that share a TLS context: any pins, without a name of the server."""
        return replace(self, fingerprints=self.fingerprints and _SOME_PIN, server_name=None)


def normal_fingerprint(text: str) -> str:
    """A SHA-256, with or without colons, as 64 lower-case hexadecimal digits."""
    digits = re.sub(r"[\s:]", "", re.sub(r"(?i)^\s*sha-?256[:=]", "", text)).lower()
    if _SHA256.fullmatch(digits) is None:
        raise InvalidInput(
            f"tls_fingerprint: {shown(text)} is not a SHA-256 fingerprint; write 64 hexadecimal "
            "digits, with or without colons (the module tls_fingerprint_info shows those of your "
            "machines)"
        )
    return digits


def certificate_fingerprint(certificate: bytes) -> str:
    """SHA-256 of a certificate (DER), as 64 lower-case hexadecimal digits."""
    return hashlib.sha256(certificate).hexdigest()


def key_fingerprint(certificate: bytes) -> str:
    """SHA-256 of the public key (SubjectPublicKeyInfo) of a certificate (DER)."""
    return hashlib.sha256(_public_key(certificate)).hexdigest()


def client_context(trust: Trust) -> ssl.SSLContext:
    """A TLS context that accepts only servers by ``trust``; pins are those of ``accept_pins``.

    Raises InvalidInput for unusable authorities or an unusable client certificate.
    """
    context = _accepting(trust)
    if trust.client is not None:
        _show(context, trust.client)
    return context


def accept_pins(trust: Trust) -> None:
    """Let the present task, and only it, connect to the server with these pins.

    Pinned servers share a context, because making one takes a third of the time of a handshake.
    asyncio runs the callbacks of a connection in the context variables of the task that opens it.
    """
    _ACCEPTED.set(trust.fingerprints)


def _accepting(trust: Trust) -> ssl.SSLContext:
    if trust.fingerprints:
        context = unverified_context()
        context.sslobject_class = _PinnedSSLObject
        return context
    if not trust.validate_certs:
        return unverified_context()
    authorities = [
        each for each in (trust.ca_path and Path(trust.ca_path), trust.ca_content) if each
    ]
    try:
        context = ssl.create_default_context(
            cadata=b"".join(one for each in authorities for one in certificates(each)) or None
        )
    except (OSError, ValueError) as error:
        source = f"the file {trust.ca_path}" if trust.ca_path else "the text given as ca"
        raise InvalidInput(
            f"Cannot read certificate authorities from {source} ({error}); "
            "give certificates in PEM form"
        ) from error
    accept_as_go(context)
    context.sslobject_class = _PromptSSLObject
    return context


def _show(context: ssl.SSLContext, client: ClientCertificate) -> None:
    """Load the client certificate into the context. Raises InvalidInput."""
    where = f"the client certificate {client.path}"
    try:
        bits = rsa_bits(certificates(Path(client.path))[0])
    except (OSError, ValueError) as error:
        raise InvalidInput(f"Cannot read {where} ({error}); give a certificate in PEM") from error
    if bits is not None and bits < _MIN_RSA_BITS:
        raise InvalidInput(
            f"The key of {where} has {bits} bits, fewer than {_MIN_RSA_BITS}; make a longer "
            "one (nothing is sent, and never without TLS)"
        )
    try:
        # An empty password keeps OpenSSL from prompting on the terminal for an encrypted key.
        context.load_cert_chain(client.path, client.key_path, password="")
    except (OSError, ValueError) as error:
        key = client.key_path or client.path
        raise InvalidInput(
            f"Cannot use {where} with the key {key} ({error}); give the private key that belongs "
            "to it, in PEM and without a password"
        ) from error


def unverified_context() -> ssl.SSLContext:
    """A TLS context that accepts any server."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.sslobject_class = _PromptSSLObject
    return context


class _PromptSSLObject(ssl.SSLObject):
    """A TLS connection that closes without waiting for the server, which may hang."""

    def unwrap(self) -> None:
        with contextlib.suppress(ssl.SSLWantReadError):
            super().unwrap()


class _PinnedSSLObject(_PromptSSLObject):
    """A TLS connection whose handshake fails for a certificate without an accepted pin."""

    def do_handshake(self) -> None:
        super().do_handshake()
        certificate = self.getpeercert(binary_form=True) or b""
        found, accepted = certificate_fingerprint(certificate), _ACCEPTED.get()
        if found not in accepted and key_fingerprint(certificate) not in accepted:
            raise ssl.SSLCertVerificationError(
                ssl.SSL_ERROR_SSL,
                f"its certificate has the SHA-256 fingerprint {found}, which is not among the "
                "pinned ones",
            )


def rsa_bits(certificate: bytes) -> int | None:
    """Length of the RSA key in a certificate (DER); None for other kinds of keys."""
    key = _public_key(certificate)
    algorithm, bit_string = _elements(key, *_content(key, 0))
    identifier = next(_elements(key, *_content(key, algorithm[0])))
    start, end = _content(key, identifier[0])
    if key[start:end] != _RSA_ENCRYPTION:
        return None
    sequence = _content(key, bit_string[0])[0] + 1  # after the number of unused bits
    modulus = next(_elements(key, *_content(key, sequence)))
    start, end = _content(key, modulus[0])
    return int.from_bytes(key[start:end], "big").bit_length()


def _public_key(certificate: bytes) -> bytes:
    """SubjectPublicKeyInfo of a certificate (RFC 5280, section 4.1), both in DER."""
    to_be_signed = next(_elements(certificate, *_content(certificate, 0)))
    fields = list(_elements(certificate, *_content(certificate, to_be_signed[0])))
    has_version = certificate[fields[0][0]] == 0xA0
    start, end = fields[6 if has_version else 5]
    return certificate[start:end]


def _elements(data: bytes, start: int, end: int) -> t.Iterator[tuple[int, int]]:
    """Begin and end of each DER element between two offsets."""
    while start < end:
        element_end = _content(data, start)[1]
        yield start, element_end
        start = element_end


def _content(data: bytes, start: int) -> tuple[int, int]:
    """Begin and end of the content of the DER element at ``start`` (X.690, section 8.1)."""
    length = data[start + 1]
    content = start + 2
    if length >= 0x80:
        content += length & 0x7F
        length = int.from_bytes(data[start + 2 : content], "big")
    return content, content + length
