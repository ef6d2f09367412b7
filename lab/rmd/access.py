# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Access control: certificates, users, and the sample rules that RMD ships."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from cryptography import x509
from cryptography.x509.oid import NameOID

from lab.rmd.host import Configuration

# Role → permitted methods and paths (under /v1); admin is root as well.
_USER = (("GET", r"/cache.*|/policy|/workloads.*|/hospitality|/pstate.*"),)
_ROOT = (
    *_USER,
    ("POST", r"/workloads/?"),
    ("PATCH|DELETE", r"/workloads/.*"),
)
_RULES: Mapping[str, Sequence[tuple[str, str]]] = {"user": _USER, "root": _ROOT, "admin": _ROOT}
_CERTIFICATE_USER = "Cert Client User"


@dataclass(frozen=True)
class Door:
    """Known certificates, and the roles of users by name."""

    admins: Sequence[x509.Certificate] = ()
    users: Sequence[x509.Certificate] = ()
    roles: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Denial:
    """A status with its body and headers."""

    status: int
    text: str
    headers: Mapping[str, str] = field(default_factory=dict)


def denial(
    door: Door,
    configuration: Configuration,
    method: str,
    path: str,
    authorization: str,
    certificate: bytes | None,
) -> Denial | None:
    """The refusal of the request; None if it is permitted.

    `certificate` is the client's in DER form, `authorization` the header. In debug mode, and with
    the levels that only ask for a certificate, no client is refused.
    """
    if configuration.debug:
        return None
    if configuration.client_auth == "no":
        return _of_password(door, configuration, method, path, authorization)
    if configuration.client_auth != "challenge" or certificate is None:
        return None
    return _of_certificate(door, configuration, method, path, certificate)


def _of_password(
    door: Door, configuration: Configuration, method: str, path: str, authorization: str
) -> Denial | None:
    username, password = _basic(authorization)
    if username is None:
        return Denial(400, "Malformed credentials\n")
    if configuration.users.get(username) != password:
        known = username in configuration.users
        text = (
            "Authentication failure"
            if known
            else "User not known to the underlying authentication module"
        )
        return Denial(401, f"{text}\n", {"WWW-Authenticate": "Basic realm=RMD"})
    return None if _may(door.roles.get(username, username), method, path) else _forbidden(username)


def _of_certificate(
    door: Door, configuration: Configuration, method: str, path: str, content: bytes
) -> Denial | None:
    certificate = x509.load_der_x509_certificate(content)
    name = " ".join(_names(certificate, NameOID.COMMON_NAME))
    if configuration.authorization == "username":
        return None if _may(door.roles.get(name, name), method, path) else _forbidden(name)
    if configuration.authorization == "role":
        units = [unit.lower() for unit in _names(certificate, NameOID.ORGANIZATIONAL_UNIT_NAME)]
        if any(_may(unit, method, path) for unit in units):
            return None
        shown = " ".join(_names(certificate, NameOID.ORGANIZATIONAL_UNIT_NAME))
        return Denial(401, f"OU: {shown} is not authorized")
    if _known(certificate, door.admins):
        return None
    if _known(certificate, door.users):
        return None if _may("user", method, path) else _forbidden(_CERTIFICATE_USER)
    return Denial(401, f"{name} is not authorized")


def _may(role: str, method: str, path: str) -> bool:
    relative = path.removeprefix("/v1")
    return any(
        re.fullmatch(methods, method) and re.fullmatch(paths, relative)
        for methods, paths in _RULES.get(role, ())
    )


def _known(certificate: x509.Certificate, known: Sequence[x509.Certificate]) -> bool:
    return any(certificate.signature == other.signature for other in known)


def _forbidden(user: str) -> Denial:
    return Denial(403, f'User "{user}" is not authorized to access this resource\n')


def _names(certificate: x509.Certificate, kind: x509.ObjectIdentifier) -> list[str]:
    return [str(item.value) for item in certificate.subject.get_attributes_for_oid(kind)]


def _basic(header: str) -> tuple[str | None, str]:
    kind, _blank, token = header.partition(" ")
    try:
        username, colon, password = base64.b64decode(token, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return None, ""
    return (username, password) if kind == "Basic" and colon else (None, "")
