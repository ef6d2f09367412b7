# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Add-on certificates: an authority, and certificates of Kepler and of its scraper.

The library's certificate Secrets for Kepler are removed after no pod mounts them.
"""

from __future__ import annotations

import typing as t

from ...base.errors import ApiError
from ...base.fields.lenient import member, objects
from ...base.json_types import MutableObject, Object
from ...base.manifests import MANAGED_BY_LABEL, MANAGER, Manifest, manifest_of
from ...base.units import parse_duration
from ...kube.apply.steps import Applying
from ...kube.client import Kube, UnknownKind
from ..deployment.names import NAME_LABEL
from . import names
from .spec import Addons, Certificates

_COMPONENT = "certificates"
_AUTHORITY_LIVES_LONGER = 10
_SECONDS_OF_A_DAY = 86_400
SCRAPER = "prometheus"


def is_of_cert_manager(wanted: Certificates, served: names.Served) -> bool:
    """Whether cert-manager issues instead of the library."""
    is_served = {"Issuer", "Certificate"} <= served.keys()
    return wanted.issuer == "cert-manager" or (wanted.issuer == "auto" and is_served)


def manifests(addons: Addons, wanted: Certificates, served: names.Served) -> t.Iterator[Manifest]:
    """The chain of cert-manager, from a self-signed issuer; none if the library issues.

    Raises NotServed.
    """
    if not is_of_cert_manager(wanted, served):
        return
    security, root, authority = addons.security, "root", "authority"

    def made(kind: str, part: str, spec: Object) -> Manifest:
        otherwise = ", or set certificates.issuer to library"
        return names.manifest(
            addons, served, kind, part, _COMPONENT, otherwise=otherwise, spec=spec
        )

    def certificate(part: str, issuer: str, secret: str, content: Object) -> Manifest:
        return made(
            "Certificate", part, {**_certificate(addons, wanted, issuer, secret), **content}
        )

    hours = max(1, int(parse_duration(wanted.duration) // 3600))
    yield made("Issuer", root, {"selfSigned": {}})
    # Kepler reads its clients' authority from this Secret, of which it mounts only ca.crt.
    yield certificate(authority, root, security.client_authority_secret, {
        "isCA": True,
        "commonName": f"{addons.name} Kepler authority",
        "duration": f"{hours * _AUTHORITY_LIVES_LONGER}h",
        # A new key of the authority would invalidate all its certificates.
        "privateKey": _key(wanted, "Never"),
    })  # fmt: skip
    yield made("Issuer", authority, {"ca": {"secretName": security.client_authority_secret}})
    usages = ["digital signature", "key encipherment"]
    server = {"dnsNames": server_names(addons), "usages": [*usages, "server auth"]}
    yield certificate("server", authority, security.server_secret, server)
    client = {"commonName": SCRAPER, "usages": [*usages, "client auth"]}
    yield certificate("client", authority, security.client_secret, client)


def _certificate(addons: Addons, wanted: Certificates, issuer: str, secret: str) -> MutableObject:
    name = names.object_name(addons, issuer)
    return {
        "secretName": secret,
        "issuerRef": {"group": "cert-manager.io", "kind": "Issuer", "name": name},
        "duration": wanted.duration,
        "renewBefore": wanted.renew_before,
        "privateKey": _key(wanted, "Always"),
    }


def _key(wanted: Certificates, rotation: str) -> MutableObject:
    return {"algorithm": "RSA", "size": wanted.key_bits, "rotationPolicy": rotation}


def certificate_names(addons: Addons) -> dict[str, str]:
    """Name of a Certificate → the Secret that it fills."""
    security = addons.security
    secrets = {
        "server": security.server_secret,
        "client": security.client_secret,
        "authority": security.client_authority_secret,
    }
    return {names.object_name(addons, part): secret for part, secret in secrets.items()}


def server_names(addons: Addons) -> list[str]:
    """Host names of Kepler's Service."""
    place = f"{addons.system}.{addons.namespace}"
    return [addons.host_name, f"{addons.host_name}.cluster.local", place, addons.system]


def secret_labels(addons: Addons) -> dict[str, str]:
    """Labels of the Secrets that the library fills, by which a teardown finds them."""
    return {**names.pod_labels(addons, _COMPONENT), MANAGED_BY_LABEL: MANAGER}


def library_options(addons: Addons, wanted: Certificates) -> dict[str, t.Any]:
    """The library's options for the same certificates."""
    security = addons.security
    return {
        "namespace": addons.namespace,
        "authority_namespace": wanted.authority_namespace,
        "authority_secret": names.object_name(addons, "authority"),
        "authority_name": f"{addons.name} Kepler authority",
        "server_secret": security.server_secret,
        "client_secret": security.client_secret,
        "server_names": server_names(addons),
        "client_name": SCRAPER,
        "key_bits": wanted.key_bits,
        "valid_days": int(parse_duration(wanted.duration) // _SECONDS_OF_A_DAY),
        "renew_days": int(parse_duration(wanted.renew_before) // _SECONDS_OF_A_DAY),
    }


# cert-manager's mark of its Secrets.
_OF_CERT_MANAGER = "cert-manager.io/certificate-name"


def take_back(applying: Applying, addons: Addons, authority_namespace: str) -> None:
    """Remove the library's Secrets.

    Secrets of administrators and of cert-manager stay. A running Kepler could not restart without
    them, so they stay while it mounts one.
    """
    kube, namespace, labels = applying.kube, addons.namespace, secret_labels(addons)
    secrets = certificate_names(addons).values()
    own = [name for name in secrets if _is_own(kube, namespace, name, labels)]
    mounting = _mounting(kube, namespace, own)
    if mounting:
        applying.context.warn(
            f"The Secrets {', '.join(own)} stay, because the DaemonSet {namespace}/{mounting} "
            "mounts one; remove Kepler first, then the add-ons again"
        )
        return
    found = [manifest_of("v1", "Secret", name, namespace) for name in own]
    authority = names.object_name(addons, "authority")
    if _is_own(kube, authority_namespace, authority, labels):
        found.append(manifest_of("v1", "Secret", authority, authority_namespace))
    if found:
        applying.apply({"manifests": found, "state": "absent"})


def _is_own(kube: Kube, namespace: str, name: str, labels: t.Mapping[str, str]) -> bool:
    try:
        found = kube.find(f"/api/v1/namespaces/{namespace}/secrets/{name}")
    except ApiError as error:
        if error.status == 403:
            return False  # an account without the permission to read has not made it
        raise
    metadata = member(found, "metadata")
    given, annotations = member(metadata, "labels") or {}, member(metadata, "annotations") or {}
    return labels.items() <= given.items() and _OF_CERT_MANAGER not in annotations


def _mounting(kube: Kube, namespace: str, secrets: t.Collection[str]) -> str:
    """A DaemonSet of Kepler that mounts one of the Secrets and will stay; else nothing."""
    if not secrets:
        return ""
    path = f"/apis/apps/v1/namespaces/{namespace}/daemonsets"
    for each in kube.list(path, {"labelSelector": f"{NAME_LABEL}=kepler"}):
        volumes = objects(member(each, "spec", "template", "spec", "volumes"))
        mounted = {member(volume, "secret", "secretName") for volume in volumes}
        if mounted.intersection(secrets) and not _is_ending(kube, namespace, each):
            return str(member(each, "metadata", "name"))
    return ""


def _is_ending(kube: Kube, namespace: str, item: Object) -> bool:
    """Whether it is being deleted, or will be garbage collected because its owner is gone."""
    if member(item, "metadata", "deletionTimestamp"):
        return True
    owners = objects(member(item, "metadata", "ownerReferences"))
    return bool(owners) and not any(_is_there(kube, namespace, owner) for owner in owners)


def _is_there(kube: Kube, namespace: str, owner: Object) -> bool:
    try:
        place = kube.resource(owner["apiVersion"], owner["kind"])
        found = kube.find(place.path(owner["name"], namespace))
    except UnknownKind:
        return False
    except ApiError as error:
        if error.status == 403:
            return True  # a missing permission to read must not lead to a removal
        raise
    is_same = member(found, "metadata", "uid") == owner["uid"]
    return is_same and not member(found, "metadata", "deletionTimestamp")
