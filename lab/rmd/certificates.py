# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The certificates of the daemons and of their clients, as in RMD's samples."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509

from lab import pki
from lab.pki import Authority, KeyPair
from lab.rmd.access import Door
from lab.rmd.host import Configuration
from lab.state import LabState

SERVER_NAME = "rmd-nameserver"
ADMIN = "Alice"
USER = "Eli"
CIPHERS = "ECDHE-ECDSA-AES256-GCM-SHA384:ECDHE-RSA-AES256-GCM-SHA384"


@dataclass(frozen=True)
class Certificates:
    """One certificate for all daemons, and clients with all or only reading permissions."""

    authority: KeyPair
    server: KeyPair
    admin: KeyPair
    user: KeyPair

    @property
    def door(self) -> Door:
        """The daemons' knowledge about their clients."""
        return Door(admins=[_loaded(self.admin)], users=[_loaded(self.user)])


def folder(state: LabState) -> Path:
    return state.pki / "rmd"


def certificates(authority: Authority, directory: Path) -> Certificates:
    """The certificates of the directory, created if missing."""
    names = (SERVER_NAME, ADMIN, USER)
    files = [KeyPair(directory / f"{name}.pem", directory / f"{name}-key.pem") for name in names]
    if not all(pair.certificate.exists() for pair in files):
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        pki.issue(authority, SERVER_NAME, ["127.0.0.1"], [SERVER_NAME], directory)
        pki.issue(authority, ADMIN, [], [], directory, client=True, units=["Admin"])
        pki.issue(authority, USER, [], [], directory, client=True, units=["User"])
    return Certificates(authority.files, *files)


def server_context(files: Certificates, configuration: Configuration) -> ssl.SSLContext:
    """TLS as the daemon uses it.

    Python verifies every certificate that it requests, so `require` and `require_any` accept only
    certificates of the authority here; the daemon's accept any.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.server.certificate, files.server.key)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(CIPHERS)
    context.load_verify_locations(files.authority.certificate)
    modes = {
        "no": ssl.CERT_NONE,
        "require": ssl.CERT_OPTIONAL,
        "challenge_given": ssl.CERT_OPTIONAL,
    }
    context.verify_mode = modes.get(configuration.client_auth, ssl.CERT_REQUIRED)
    return context


def _loaded(files: KeyPair) -> x509.Certificate:
    return x509.load_pem_x509_certificate(files.certificate.read_bytes())
