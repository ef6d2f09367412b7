# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lab's own certificate authority and its certificates: ECDSA P-256, as PEM files."""

from __future__ import annotations

import datetime
import ipaddress
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from lab.errors import LabError

VALIDITY = datetime.timedelta(days=365)
CLOCK_SKEW = datetime.timedelta(minutes=5)


@dataclass(frozen=True)
class KeyPair:
    """Files of a certificate and of its private key."""

    certificate: Path
    key: Path


@dataclass(frozen=True)
class Authority:
    """A certificate authority: its files, and both parts loaded for signing."""

    files: KeyPair
    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey


def create_authority(directory: Path, common_name: str = "wattwise lab CA") -> Authority:
    """Create `ca.pem` and `ca-key.pem` in the directory, replacing existing ones."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
    builder = (
        _builder(name, name, key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(signs_certificates=True), critical=True)
    )
    certificate = builder.sign(key, hashes.SHA256())
    files = KeyPair(directory / "ca.pem", directory / "ca-key.pem")
    _write(files, certificate, key)
    return Authority(files, certificate, key)


def load_authority(directory: Path) -> Authority:
    """The authority that `create_authority` made in the directory."""
    files = KeyPair(directory / "ca.pem", directory / "ca-key.pem")
    key = serialization.load_pem_private_key(files.key.read_bytes(), password=None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise LabError(f"{files.key} is not an elliptic curve key; start the lab afresh.")
    return Authority(files, x509.load_pem_x509_certificate(files.certificate.read_bytes()), key)


def issue(
    authority: Authority,
    common_name: str,
    addresses: Sequence[str],
    dns_names: Sequence[str],
    directory: Path,
    client: bool = False,
    organizations: Sequence[str] = (),
    units: Sequence[str] = (),
) -> KeyPair:
    """Issue a server certificate (a client's with `client`) for the addresses and names.

    The files are named after the common name. Kubernetes takes `organizations` as groups, and RMD
    takes `units` (OU) as roles.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    purpose = ExtendedKeyUsageOID.CLIENT_AUTH if client else ExtendedKeyUsageOID.SERVER_AUTH
    issuer_key = authority.certificate.extensions.get_extension_for_class(x509.SubjectKeyIdentifier)
    builder = (
        _builder(
            _subject(common_name, organizations, units),
            authority.certificate.subject,
            key.public_key(),
        )
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(issuer_key.value),
            critical=False,
        )
    )
    names: list[x509.GeneralName] = [x509.DNSName(name) for name in dns_names]
    names += [x509.IPAddress(ipaddress.ip_address(address)) for address in addresses]
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    file_name = re.sub(r"[^A-Za-z0-9._-]", "-", common_name)
    files = KeyPair(directory / f"{file_name}.pem", directory / f"{file_name}-key.pem")
    _write(files, builder.sign(authority.key, hashes.SHA256()), key)
    return files


def create_signing_key(directory: Path, name: str) -> KeyPair:
    """Make a bare key pair: `certificate` of the result holds the public key, not a certificate."""
    key = ec.generate_private_key(ec.SECP256R1())
    files = KeyPair(directory / f"{name}.pub", directory / f"{name}-key.pem")
    files.certificate.write_bytes(
        key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
    )
    _write_private(files.key, key)
    return files


def _subject(common_name: str, organizations: Sequence[str], units: Sequence[str]) -> x509.Name:
    return x509.Name(
        [
            *(x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in organizations),
            *(x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, unit) for unit in units),
            x509.NameAttribute(NameOID.COMMON_NAME, common_name),
        ]
    )


def _builder(
    subject: x509.Name, issuer: x509.Name, public_key: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCK_SKEW)
        .not_valid_after(now + VALIDITY)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
    )


def _key_usage(signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _write(files: KeyPair, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> None:
    files.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    _write_private(files.key, key)


def _write_private(path: Path, key: ec.EllipticCurvePrivateKey) -> None:
    text = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(text)
