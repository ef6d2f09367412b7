# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The TLS certificates of the BMCs: signed by the lab's authority, self-signed, or wrong."""

from __future__ import annotations

import datetime
import hashlib
import ipaddress
import ssl
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from lab import pki
from lab.machines import Machine
from lab.pki import Authority, KeyPair
from lab.state import LabState

VALIDITY = datetime.timedelta(days=365)
SOMEBODY_ELSE = "127.71.255.254"


def folder(state: LabState) -> Path:
    return state.pki / "bmc"


def certificate_file(directory: Path, machine: Machine) -> Path:
    """Path of the machine's certificate after its BMC has run."""
    return directory / f"{machine.name}.pem"


def fingerprint(directory: Path, machine: Machine) -> str:
    """SHA-256 of the machine's certificate in DER form, as 64 hexadecimal digits."""
    text = certificate_file(directory, machine).read_text()
    return hashlib.sha256(ssl.PEM_cert_to_DER_cert(text)).hexdigest()


def usual(machine: Machine, authority: Authority, directory: Path) -> KeyPair:
    """The machine's own certificate; made once, so that a restart does not change it."""
    certificate = certificate_file(directory, machine)
    files = KeyPair(certificate, directory / f"{machine.name}-key.pem")
    if certificate.exists() and _is_current(certificate, machine, authority):
        return files
    if machine.certificate == "self-signed":
        return self_signed(machine, files)
    names = [f"{machine.name}-bmc"]
    return pki.issue(authority, machine.name, [machine.bmc_address], names, directory)


def of_another(machine: Machine, authority: Authority, directory: Path) -> KeyPair:
    """A certificate by the lab's authority, for a machine at another address."""
    name = f"{machine.name}-wrong"
    return pki.issue(authority, name, [SOMEBODY_ELSE], ["somebody-else-bmc"], directory)


def changed(machine: Machine, directory: Path) -> KeyPair:
    """A new self-signed certificate for the machine's own address."""
    names = (f"{machine.name}-changed.pem", f"{machine.name}-changed-key.pem")
    return self_signed(machine, KeyPair(directory / names[0], directory / names[1]))


def self_signed(machine: Machine, files: KeyPair) -> KeyPair:
    """Write a new key with a certificate signed by it."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"{machine.name}-bmc")])
    now = datetime.datetime.now(datetime.UTC)
    address = x509.IPAddress(ipaddress.ip_address(machine.bmc_address))
    names = x509.SubjectAlternativeName([x509.DNSName(f"{machine.name}-bmc"), address])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=5))
        .not_valid_after(now + VALIDITY)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(names, critical=False)
        .sign(key, hashes.SHA256())
    )
    files.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    files.key.touch(mode=0o600)
    files.key.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return files


def server_context(files: KeyPair) -> ssl.SSLContext:
    """The TLS context of one BMC."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.certificate, files.key)
    # Sessions are never resumed here, and tickets would cost every handshake two more messages.
    context.num_tickets = 0
    return context


def _is_current(path: Path, machine: Machine, authority: Authority) -> bool:
    certificate = x509.load_pem_x509_certificate(path.read_bytes())
    if machine.certificate == "self-signed":
        return certificate.issuer == certificate.subject
    try:
        certificate.verify_directly_issued_by(authority.certificate)
    except (InvalidSignature, ValueError, TypeError):
        return False
    return True
