# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Certificates for servers that tests start."""

from __future__ import annotations

import datetime
import hashlib
import ipaddress
import ssl
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from cryptography.x509.oid import NameOID

LOOPBACK_NAMES = ("localhost", "127.0.0.1", "127.0.0.2", "::1")
PrivateKey = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey


@dataclass(frozen=True)
class Certificate:
    """A certificate with its private key."""

    certificate: x509.Certificate
    key: PrivateKey

    @cached_property
    def pem(self) -> str:
        return self.certificate.public_bytes(Encoding.PEM).decode()

    @cached_property
    def der(self) -> bytes:
        return self.certificate.public_bytes(Encoding.DER)

    @property
    def key_pem(self) -> str:
        private = self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        return private.decode()

    @property
    def fingerprint(self) -> str:
        return hashlib.sha256(self.der).hexdigest()

    @property
    def key_fingerprint(self) -> str:
        public = self.key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        return hashlib.sha256(public).hexdigest()

    def server_context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        with tempfile.NamedTemporaryFile() as file:
            file.write((self.key_pem + self.pem).encode())
            file.flush()
            context.load_cert_chain(file.name)
        return context


@dataclass(frozen=True)
class Mutual(Certificate):
    """A server's certificate; it asks clients for the certificate ``client``."""

    client: Certificate

    def server_context(self) -> ssl.SSLContext:
        context = super().server_context()
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(cadata=self.client.pem)
        return context


def self_signed(
    names: Sequence[str] = LOOPBACK_NAMES,
    common_name: str = "bmc",
    key: PrivateKey | None = None,
    serial: int | None = None,
) -> Certificate:
    """A certificate for these host names and addresses, valid from yesterday for a year."""
    return _signed(names, common_name, key or ec.generate_private_key(ec.SECP256R1()), None, serial)


def issued(authority: Certificate, common_name: str = "server") -> Certificate:
    """A certificate for loopback that another one has signed; it may sign further ones."""
    key = ec.generate_private_key(ec.SECP256R1())
    return _signed(LOOPBACK_NAMES, common_name, key, authority, None)


def _signed(
    names: Sequence[str],
    common_name: str,
    private: PrivateKey,
    authority: Certificate | None,
    serial: int | None,
) -> Certificate:
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
    now = datetime.datetime.now(datetime.UTC)
    alternatives = [_general_name(name) for name in names]
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(authority.certificate.subject if authority else subject)
        .public_key(private.public_key())
        .serial_number(serial or x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=365))
        .add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(authority.key if authority else private, hashes.SHA256())
    )
    return Certificate(certificate, private)


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)
