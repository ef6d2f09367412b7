# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""All objects of KeplerAddons by add-on, with the requirements of each."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ...base.manifests import Manifest
from . import certificates, fluent_bit, grafana, kinds, mesh, prometheus, telemetry
from .files import DashboardFile, RuleFile
from .spec import Addons

# Secret, and its keys that an add-on reads.
NeededSecret = tuple[str, tuple[str, ...]]


@dataclass(frozen=True)
class Part:
    """One add-on. ``missing`` is the reason why a wanted one has no objects."""

    condition: str
    wanted: bool
    manifests: tuple[Manifest, ...] = ()
    secrets: tuple[NeededSecret, ...] = ()
    missing: str = ""


@dataclass(frozen=True)
class Files:
    """The shipped rules and dashboards of add-ons."""

    rules: t.Sequence[RuleFile]
    dashboards: t.Sequence[DashboardFile]


def render(addons: Addons, served: kinds.Served, files: Files) -> list[Part]:
    """Every add-on, in the order of their conditions."""
    return [
        _part("Prometheus", addons.prometheus, _prometheus_secrets(addons), lambda wanted: (
            prometheus.manifests(addons, wanted, served, files.rules)
        )),
        _part("Grafana", addons.grafana, _grafana_secrets(addons), lambda wanted: (
            grafana.manifests(addons, wanted, served, files.dashboards)
        )),
        _part("Tracing", addons.tracing, (), lambda wanted: (
            telemetry.traces(addons, wanted, served)
        )),
        _part("Logging", addons.logging, _logging_secrets(addons), lambda wanted: (
            fluent_bit.manifests(addons, wanted)
            if wanted.agent == "fluent-bit"
            else telemetry.logs(addons, wanted, served)
        )),
        _part("Certificates", addons.certificates, (), lambda wanted: (
            certificates.manifests(addons, wanted, served)
            if certificates.is_of_cert_manager(wanted, served)
            else iter(())
        )),
        _part("ServiceMesh", addons.mesh, (), lambda wanted: (
            mesh.manifests(addons, wanted, served)
        )),
    ]  # fmt: skip


Options = t.TypeVar("Options")


def _part(
    condition: str,
    wanted: Options | None,
    secrets: tuple[NeededSecret, ...],
    manifests: t.Callable[[Options], t.Iterator[Manifest]],
) -> Part:
    if wanted is None:
        return Part(condition, False)
    try:
        return Part(condition, True, tuple(manifests(wanted)), secrets)
    except kinds.NotServed as error:
        return Part(condition, True, missing=str(error))


def _prometheus_secrets(addons: Addons) -> tuple[NeededSecret, ...]:
    security = addons.security
    return ((security.client_secret, security.needed_keys),) if security.needed_keys else ()


def _grafana_secrets(addons: Addons) -> tuple[NeededSecret, ...]:
    if addons.grafana is None:
        return ()
    given = (
        (addons.grafana.token_secret, ("token",)),
        (addons.grafana.authority_secret, ("ca.crt",)),
    )
    return tuple(each for each in given if each[0])


def _logging_secrets(addons: Addons) -> tuple[NeededSecret, ...]:
    if addons.logging is None or not addons.logging.credential_secret:
        return ()
    return ((addons.logging.credential_secret, ("username", "password")),)
