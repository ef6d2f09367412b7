# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""KeplerAddons: the options of the spec, and checked values."""

from __future__ import annotations

import dataclasses
import re
import typing as t
from dataclasses import dataclass

from ...base.argspec import ArgumentSpec
from ...base.boundary import InvalidField, shown
from ...base.fields.strict import texts, whole_number
from ...base.json_types import Object
from ...base.units import parse_duration
from .. import fields, option

API_VERSION = "kepler.system.sustainable.computing.io/v1alpha1"
KIND = "KeplerAddons"

_RESOURCES = {
    "requests": {"cpu": "50m", "memory": "64Mi", "ephemeral-storage": "16Mi"},
    # Logs, of which kubelets keep 50 MiB by default.
    "limits": {"memory": "256Mi", "ephemeral-storage": "128Mi"},
}

ADDONS = ArgumentSpec(
    {
        "system": option.text("kepler"),
        "security": option.part(
            mode=option.choice("none", "tls", "mtls"),
            server_secret=option.secret("kepler-server"),
            client_authority_secret=option.secret("kepler-client-authority"),
            client_secret=option.secret("kepler-client"),
        ),
        "prometheus": option.part(
            enabled=option.flag(),
            monitor=option.choice("service", "pod"),
            interval=option.text("30s"),
            scrape_timeout=option.text("10s"),
            labels=option.mapping({}),
            rules=option.flag(True),
        ),
        "grafana": option.part(
            enabled=option.flag(),
            instance=option.flag(),
            instance_selector=option.mapping({"dashboards": "kepler"}),
            datasource=option.part(
                url=option.text(), token_secret=option.secret(), authority_secret=option.secret()
            ),
            dashboards=option.flag(True),
        ),
        "tracing": option.part(
            enabled=option.flag(),
            backend=option.choice("otlp", "jaeger"),
            endpoint=option.text(),
            image=option.text(),
            resources=option.mapping(_RESOURCES),
        ),
        "logging": option.part(
            enabled=option.flag(),
            agent=option.choice("opentelemetry", "fluent-bit"),
            backend=option.choice("loki", "elasticsearch"),
            endpoint=option.text(),
            image=option.text(),
            credential_secret=option.secret(),
            resources=option.mapping(_RESOURCES),
        ),
        "certificates": option.part(
            enabled=option.flag(),
            issuer=option.choice("auto", "cert-manager", "library"),
            duration=option.text("2160h"),
            renew_before=option.text("720h"),
            key_bits={"type": "int", "no_log": False, "default": 3072},
            authority_namespace=option.text("kepler-authority"),
        ),
        "service_mesh": option.part(
            enabled=option.flag(), mode=option.choice("exclude", "ambient"), scrapers=option.texts()
        ),
    }
)

# Durations that both Prometheus and cert-manager accept.
_DURATION = re.compile(r"[0-9]{1,7}(ms|s|m|h)", re.ASCII)
_MIN_SCRAPE, _MAX_SCRAPE = 1.0, 3600.0
# cert-manager refuses shorter ones.
_MIN_CERTIFICATE, _MAX_CERTIFICATE_LENGTH = 3600.0, 10 * 365 * 86_400.0
_MIN_RENEWAL = 300.0
_MIN_KEY, _MAX_KEY_LENGTH = 2048, 8192
# SPIFFE identities without their scheme, as in Istio.
_PRINCIPAL = re.compile(r"[0-9A-Za-z*._-]{1,253}(/[0-9A-Za-z*._-]{1,253}){0,8}")
_MAX_NAME_LENGTH = 40
_DAY = 86_400.0


@dataclass(frozen=True)
class Security:
    """How Kepler serves its metrics, and the Secrets of both sides."""

    mode: str
    server_secret: str
    client_authority_secret: str
    client_secret: str

    @property
    def needed_keys(self) -> tuple[str, ...]:
        """Keys that Prometheus needs in the client's Secret."""
        return {"none": (), "tls": ("ca.crt",)}.get(self.mode, ("ca.crt", "tls.crt", "tls.key"))


@dataclass(frozen=True)
class Prometheus:
    """Scraping by a Prometheus of the Prometheus operator."""

    monitor: str
    interval: str
    scrape_timeout: str
    labels: t.Mapping[str, str]
    rules: bool


@dataclass(frozen=True)
class Grafana:
    """Dashboards in a Grafana of the Grafana operator."""

    instance: bool
    instance_selector: t.Mapping[str, str]
    url: str
    token_secret: str
    authority_secret: str
    dashboards: bool


@dataclass(frozen=True)
class Tracing:
    """A collector of traces."""

    backend: str
    endpoint: str
    image: str
    resources: Object


@dataclass(frozen=True)
class Logging:
    """Log collectors on the nodes of Kepler."""

    agent: str
    backend: str
    endpoint: str
    image: str
    credential_secret: str
    resources: Object


@dataclass(frozen=True)
class Certificates:
    """Certificates of Kepler and of its scraper."""

    issuer: str
    duration: str
    renew_before: str
    key_bits: int
    authority_namespace: str


@dataclass(frozen=True)
class Mesh:
    """Kepler beside or in an Istio mesh."""

    mode: str
    scrapers: tuple[str, ...]


@dataclass(frozen=True)
class Addons:
    """KeplerAddons with a valid spec; a part that is None is off."""

    namespace: str
    name: str
    system: str
    security: Security
    prometheus: Prometheus | None
    grafana: Grafana | None
    tracing: Tracing | None
    logging: Logging | None
    certificates: Certificates | None
    mesh: Mesh | None

    @property
    def port_name(self) -> str:
        """The port of Kepler's Service that is scraped, by its scheme."""
        return "http" if self.security.mode == "none" else "https"

    @property
    def host_name(self) -> str:
        """The host name of Kepler's Service, the first name of its certificate."""
        return f"{self.system}.{self.namespace}.svc"


def read_addons(namespace: str, name: str, given: Object) -> Addons:
    """The add-ons of these options. Raises InvalidInput, which names the option."""
    fields.check_place(namespace, name)
    spec = option.completed(ADDONS, given)
    return Addons(
        namespace=namespace,
        name=name,
        system=fields.dns_label(spec["system"], "system", _MAX_NAME_LENGTH),
        security=_security(spec["security"]),
        prometheus=_read(spec, "prometheus", _prometheus),
        grafana=_read(spec, "grafana", _grafana),
        tracing=_read(spec, "tracing", _tracing),
        logging=_read(spec, "logging", _logging),
        certificates=_read(spec, "certificates", lambda part: _certificates(part, namespace)),
        mesh=_read(spec, "service_mesh", _mesh),
    )


Part = t.TypeVar("Part")


def _read(spec: Object, name: str, read: t.Callable[[Object], Part]) -> Part | None:
    """An add-on; values of a disabled one are not read."""
    return read(spec[name]) if spec[name]["enabled"] else None


def _part_of(kind: type[Part], given: Object, **checked: t.Any) -> Part:
    """An add-on with the given values, of which ``checked`` are in another form."""
    names = [each.name for each in dataclasses.fields(t.cast("t.Any", kind))]
    return kind(**{name: given[name] for name in names} | checked)


def _duration(given: Object, name: str, where: str, least: float, most: float) -> float:
    value = given[name]
    if not isinstance(value, str) or not _DURATION.fullmatch(value):
        problem = f"{shown(value)} is not a duration; give a whole number with ms, s, m or h"
        raise InvalidField(f"{where}.{name}", problem)
    seconds = parse_duration(value, f"{where}.{name}")
    if not least <= seconds <= most:
        problem = f"{shown(value)} is not from {least:g} s to {most / 3600:g} h"
        raise InvalidField(f"{where}.{name}", problem)
    return seconds


def _secret_name(given: Object, name: str, where: str) -> str:
    """The name of a Secret; empty if none is given."""
    return fields.name(given[name], f"{where}.{name}") if given[name] else ""


def _security(given: Object) -> Security:
    secrets: dict[str, str] = {}
    for name in ("server_secret", "client_authority_secret", "client_secret"):
        secret = fields.name(given[name], f"security.{name}")
        if secret in secrets:
            problem = f"{secret} is also {secrets[secret]}; give each certificate its own Secret"
            raise InvalidField(f"security.{name}", problem)
        secrets[secret] = name
    return Security(given["mode"], *secrets)


def _prometheus(given: Object) -> Prometheus:
    where = "prometheus"
    interval = _duration(given, "interval", where, _MIN_SCRAPE, _MAX_SCRAPE)
    timeout = _duration(given, "scrape_timeout", where, 0.001, _MAX_SCRAPE)
    if timeout > interval:
        problem = (
            f"{given['scrape_timeout']} is longer than the interval of {given['interval']}, "
            "which Prometheus refuses; shorten it"
        )
        raise InvalidField("prometheus.scrape_timeout", problem)
    return _part_of(Prometheus, given, labels=fields.labels(given["labels"], "prometheus.labels"))


def _grafana(given: Object) -> Grafana:
    where, datasource = "grafana.datasource", given["datasource"]
    selector = fields.labels(given["instance_selector"], "grafana.instance_selector")
    if not selector:
        problem = "without labels every Grafana of the cluster would be selected; give one at least"
        raise InvalidField("grafana.instance_selector", problem)
    url = fields.url(datasource["url"], f"{where}.url")
    secrets = [
        _secret_name(datasource, name, where) for name in ("token_secret", "authority_secret")
    ]
    if any(secrets) and not url:
        raise InvalidField(f"{where}.url", "Secrets are of no use without it; give it too")
    if secrets[0] and not url.startswith("https://"):
        problem = "a token is never sent over plain HTTP; use https, or no token_secret"
        raise InvalidField(f"{where}.url", problem)
    return Grafana(given["instance"], selector, url, secrets[0], secrets[1], given["dashboards"])


def _tracing(given: Object) -> Tracing:
    backend, endpoint = given["backend"], fields.url(given["endpoint"], "tracing.endpoint")
    if backend == "otlp" and not endpoint:
        problem = "the collector needs a receiver of OTLP over HTTP; give its URL"
        raise InvalidField("tracing.endpoint", problem)
    if backend == "jaeger" and endpoint:
        raise InvalidField("tracing.endpoint", "jaeger keeps traces by itself; leave it empty")
    return _part_of(
        Tracing,
        given,
        endpoint=endpoint.rstrip("/"),
        image=fields.whole_image(given["image"], "tracing.image") if given["image"] else "",
        resources=fields.resources(given["resources"], "tracing.resources"),
    )


def _logging(given: Object) -> Logging:
    endpoint = fields.url(given["endpoint"], "logging.endpoint")
    if not endpoint:
        raise InvalidField("logging.endpoint", "logs need a receiver; give its URL")
    secret = _secret_name(given, "credential_secret", "logging")
    if secret and not endpoint.startswith("https://"):
        problem = "a password is never sent over plain HTTP; use https, or no credential_secret"
        raise InvalidField("logging.endpoint", problem)
    return _part_of(
        Logging,
        given,
        endpoint=endpoint.rstrip("/"),
        image=fields.whole_image(given["image"], "logging.image"),
        credential_secret=secret,
        resources=fields.resources(given["resources"], "logging.resources"),
    )


def _certificates(given: Object, namespace: str) -> Certificates:
    where = "certificates"
    ends = _duration(given, "duration", where, _MIN_CERTIFICATE, _MAX_CERTIFICATE_LENGTH)
    before = _duration(given, "renew_before", where, _MIN_RENEWAL, _MAX_CERTIFICATE_LENGTH)
    if before >= ends:
        problem = f"{given['renew_before']} is not shorter than the duration {given['duration']}"
        raise InvalidField("certificates.renew_before", problem)
    for name, seconds in (("duration", ends), ("renew_before", before)):
        if given["issuer"] != "cert-manager" and seconds % _DAY:
            problem = (
                f"{given[name]} is not a whole number of days, and the library counts in days; "
                "give a multiple of 24h, or the issuer cert-manager"
            )
            raise InvalidField(f"{where}.{name}", problem)
    place = "certificates.authority_namespace"
    if fields.dns_label(given["authority_namespace"], place, 63) == namespace:
        problem = f"{namespace} holds Kepler's Secrets; give the authority's key its own namespace"
        raise InvalidField(place, problem)
    whole_number(given["key_bits"], "certificates.key_bits", _MIN_KEY, _MAX_KEY_LENGTH)
    return _part_of(Certificates, given)


def _mesh(given: Object) -> Mesh:
    mode, where = given["mode"], "service_mesh.scrapers"
    scrapers = texts(given["scrapers"], where)
    for index, each in enumerate(scrapers):
        if not _PRINCIPAL.fullmatch(each):
            problem = f"{shown(each)} is not an account such as cluster.local/ns/monitoring/sa/k8s"
            raise InvalidField(f"{where}[{index}]", problem)
    if scrapers and mode == "exclude":
        raise InvalidField(where, "only mode ambient distinguishes accounts; leave it empty")
    return Mesh(mode, tuple(scrapers))
