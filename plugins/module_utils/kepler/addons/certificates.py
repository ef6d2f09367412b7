# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Add-on certificates: an authority, and certificates of Kepler and of its scraper."""

from __future__ import annotations

import typing as t

from ...base.manifests import MANAGED_BY_LABEL, MANAGER, Manifest
from ...base.units import parse_duration
from . import kinds, names
from .spec import Addons, Certificates

_COMPONENT = "certificates"
_GROUP = "cert-manager.io"
_AUTHORITY_LIVES_LONGER = 10
_SECONDS_OF_A_DAY = 86_400
SCRAPER = "prometheus"


def is_of_cert_manager(wanted: Certificates, served: kinds.Served) -> bool:
    """Whether cert-manager issues instead of the library."""
    is_served = {"Issuer", "Certificate"} <= served.keys()
    return wanted.issuer == "cert-manager" or (wanted.issuer == "auto" and is_served)


def manifests(addons: Addons, wanted: Certificates, served: kinds.Served) -> t.Iterator[Manifest]:
    """The chain of cert-manager, from a self-signed issuer. Raises NotServed."""
    otherwise = ", or set certificates.issuer to library"
    issuer = kinds.of(served, "Issuer", otherwise)
    kinds.of(served, "Certificate", otherwise)
    security = addons.security
    root, authority = "root", "authority"
    yield names.manifest(addons, issuer, root, _COMPONENT, spec={"selfSigned": {}})
    # Kepler reads its clients' authority from this Secret, of which it mounts only ca.crt.
    yield _certificate(
        addons, wanted, served, authority, root, security.client_authority_secret,
        isCA=True,
        commonName=f"{addons.name} Kepler authority",
        duration=f"{_hours(wanted) * _AUTHORITY_LIVES_LONGER}h",
    )  # fmt: skip
    signer = {"ca": {"secretName": security.client_authority_secret}}
    yield names.manifest(addons, issuer, authority, _COMPONENT, spec=signer)
    yield _certificate(
        addons, wanted, served, "server", authority, security.server_secret,
        dnsNames=server_names(addons),
        usages=["digital signature", "key encipherment", "server auth"],
    )  # fmt: skip
    yield _certificate(
        addons, wanted, served, "client", authority, security.client_secret,
        commonName=SCRAPER,
        usages=["digital signature", "key encipherment", "client auth"],
    )  # fmt: skip


def certificate_names(addons: Addons) -> dict[str, str]:
    """Name of a Certificate → the Secret that it fills."""
    security = addons.security
    secrets = {
        "authority": security.client_authority_secret,
        "server": security.server_secret,
        "client": security.client_secret,
    }
    return {names.object_name(addons, part): secret for part, secret in secrets.items()}


def server_names(addons: Addons) -> list[str]:
    """Host names of Kepler's Service."""
    place = f"{addons.system}.{addons.namespace}"
    return [addons.host_name, f"{addons.host_name}.cluster.local", place, addons.system]


def secret_labels(addons: Addons) -> dict[str, str]:
    """Labels of the Secrets that the library fills, by which a teardown finds them."""
    return {**names.pod_labels(addons, _COMPONENT), MANAGED_BY_LABEL: MANAGER}


def server_secrets(addons: Addons) -> list[str]:
    """The Secrets in the namespace of Kepler that the library fills."""
    security = addons.security
    return [security.server_secret, security.client_secret, security.client_authority_secret]


def authority_secret(addons: Addons) -> str:
    """The Secret with the key of the library's authority, in a separate namespace."""
    return names.object_name(addons, "authority")


def library_options(addons: Addons, wanted: Certificates) -> dict[str, t.Any]:
    """The library's options for the same certificates."""
    security = addons.security
    return {
        "namespace": addons.namespace,
        "authority_namespace": wanted.authority_namespace,
        "authority_secret": authority_secret(addons),
        "authority_name": f"{addons.name} Kepler authority",
        "server_secret": security.server_secret,
        "client_secret": security.client_secret,
        "server_names": server_names(addons),
        "client_name": SCRAPER,
        "key_bits": wanted.key_bits,
        "valid_days": _days(wanted.duration),
        "renew_days": _days(wanted.renew_before),
    }


def _certificate(
    addons: Addons,
    wanted: Certificates,
    served: kinds.Served,
    part: str,
    issuer: str,
    secret: str,
    **content: t.Any,
) -> Manifest:
    reference = {"group": _GROUP, "kind": "Issuer", "name": names.object_name(addons, issuer)}
    spec = {
        "secretName": secret,
        "issuerRef": reference,
        "duration": wanted.duration,
        "renewBefore": wanted.renew_before,
        "privateKey": {
            "algorithm": "RSA",
            "size": wanted.key_bits,
            # A new key of the authority would invalidate all its certificates.
            "rotationPolicy": "Never" if content.get("isCA") else "Always",
        },
        **content,
    }
    kind = kinds.of(served, "Certificate")
    return names.manifest(addons, kind, part, _COMPONENT, spec=spec)


def _hours(wanted: Certificates) -> int:
    return max(1, int(parse_duration(wanted.duration) // 3600))


def _days(duration: str) -> int:
    return int(parse_duration(duration) // _SECONDS_OF_A_DAY)
