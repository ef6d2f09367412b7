# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""A KeplerSystem with checked values: images, collector settings of each pool, security.

Settings that are accepted, but probably not meant, become remarks.
"""

from __future__ import annotations

import dataclasses
import typing as t
from dataclasses import dataclass

from ...base.boundary import InvalidField, shown
from ...base.errors import InvalidInput
from ...base.fields.strict import mapping, mappings, texts, whole_number
from ...base.json_types import Object
from ...base.yaml_text.reader import read_document
from ...kube.resource.spec_options import in_words_of_manifest
from .. import fields, option
from ..verdict import NEWEST, KeplerVersion
from . import keys
from .options import METRIC_LEVELS, SYSTEM

PORT, OLD_PORT = 28282, 9102
_MIN_SAMPLE_SECONDS = 0.1
_MAX_CONFIG_LENGTH = 16_384
_MAX_POOL_LENGTH = 20
_MAX_PORT = 65_535
_MAX_POOLS = 32
_MAX_COUNT = 1_000_000

# Names in Kubernetes, and names of the same in Linux.
_ARCHITECTURES = (
    *("amd64", "arm64", "s390x", "ppc64le", "riscv64", "loong64", "arm", "386", "mips64le"),
)
_OTHER_NAMES = {"x86_64": "amd64", "x86-64": "amd64", "aarch64": "arm64", "armv8": "arm64"}


@dataclass(frozen=True)
class Collector:
    """Settings of the collectors of one pool."""

    meter: str
    sample_rate: str
    staleness: str
    metric_levels: tuple[str, ...]
    log_level: str
    max_terminated: int
    resources: Object
    tolerations: tuple[Object, ...]
    additional: Object


@dataclass(frozen=True)
class Pool:
    """Nodes with separate settings; the pool without a name has all others."""

    name: str
    node_selector: t.Mapping[str, str]
    collector: Collector

    def selects(self, labels: Object) -> bool:
        """Whether a node with these labels is of the pool."""
        return self.node_selector.items() <= labels.items()


@dataclass(frozen=True)
class ModelPart:
    """The estimator or the model server of Kepler 0.9 and earlier."""

    enabled: bool
    image: str
    command: tuple[str, ...]
    resources: Object
    urls: tuple[str, str] = ("", "")


@dataclass(frozen=True)
class System:
    """A KeplerSystem with a valid spec. ``rest`` is the pool without a name.

    ``remarks`` are sentences on settings that are valid, but probably not meant.
    """

    namespace: str
    name: str
    version: KeplerVersion
    images: t.Mapping[str, str]
    default_image: str
    pull_policy: str
    pull_secrets: tuple[str, ...]
    is_cluster_wide: bool
    port: int
    pod_informer: str
    node_selector: t.Mapping[str, str]
    rest: Collector
    pools: tuple[Pool, ...]
    estimator: ModelPart
    model_server: ModelPart
    security_mode: str
    server_secret: str
    client_authority_secret: str
    redfish_secret: str
    fake_cpu_meter: bool
    scrape_namespaces: tuple[str, ...]
    remarks: tuple[str, ...]

    def image_for(self, architecture: str) -> str:
        """The image of the collector on nodes of this architecture."""
        return self.images.get(architecture, self.default_image)

    @property
    def has_tls(self) -> bool:
        """Whether collectors serve TLS."""
        return self.security_mode != "none"

    @property
    def port_name(self) -> str:
        """The name of the collectors' port, by its scheme."""
        return "https" if self.has_tls else "http"

    @property
    def needed_secrets(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """External Secrets, with the keys that Kepler reads."""
        found: list[tuple[str, tuple[str, ...]]] = []
        if self.has_tls:
            found.append((self.server_secret, ("tls.crt", "tls.key")))
        if self.security_mode == "mtls":
            found.append((self.client_authority_secret, ("ca.crt",)))
        if self.redfish_secret:
            key = "redfish.csv" if self.version.uses_ebpf else "redfish.yaml"
            found.append((self.redfish_secret, (key,)))
        return tuple(found)


def read_system(namespace: str, name: str, given: Object) -> System:
    """The system of these options. Raises InvalidInput, which names the option."""
    fields.check_place(namespace, name)
    spec = option.completed(SYSTEM, given)
    version = _version(spec["version"])
    collector, security, redfish = spec["collector"], spec["security"], spec["redfish"]
    _check_security(security, version)
    _check_redfish(redfish, version)
    image = spec["image"]
    is_cluster_wide = spec["scope"] == "cluster"
    rest = _collector(collector, version, is_cluster_wide, "collector")
    pools = tuple(_pools(spec, version, is_cluster_wide))
    return System(
        namespace=namespace,
        name=name,
        version=version,
        images=dict(_images(image, spec["version"])),
        default_image=_image(image, spec["version"], "image"),
        pull_policy=image["pull_policy"],
        pull_secrets=tuple(fields.names(image["pull_secrets"], "image.pull_secrets")),
        is_cluster_wide=is_cluster_wide,
        port=_port(collector["port"], version),
        pod_informer=_pod_informer(collector, version),
        node_selector=fields.labels(collector["node_selector"], "collector.node_selector"),
        rest=rest,
        pools=pools,
        estimator=_model_part(spec["estimator"], version, "estimator"),
        model_server=_model_part(spec["model_server"], version, "model_server"),
        security_mode=security["mode"],
        server_secret=fields.name(security["server_secret"], "security.server_secret"),
        client_authority_secret=fields.name(
            security["client_authority_secret"], "security.client_authority_secret"
        ),
        redfish_secret=(
            fields.name(redfish["secret"], "redfish.secret") if redfish["enabled"] else ""
        ),
        fake_cpu_meter=redfish["enabled"] and redfish["fake_cpu_meter"],
        scrape_namespaces=tuple(fields.names(spec["scrape_namespaces"], "scrape_namespaces")),
        remarks=tuple(remarks(spec, version, is_cluster_wide)),
    )


def in_words_of_resource(system: System) -> System:
    """The system with remarks that name the fields of a KeplerSystem instead of options."""
    worded = in_words_of_manifest(SYSTEM)
    return dataclasses.replace(system, remarks=tuple(map(worded, system.remarks)))


def _version(text: str) -> KeplerVersion:
    if text == "latest":
        raise InvalidField(
            "version", "the configuration depends on it; give a version such as 0.11.4"
        )
    try:
        return KeplerVersion.parse(text)
    except InvalidInput:
        problem = f"{shown(text)} is not a version of Kepler; give one such as 0.11.4"
        raise InvalidField("version", problem) from None


def _check_security(given: Object, version: KeplerVersion) -> None:
    if given["mode"] != "none" and version.uses_ebpf:
        raise InvalidField(
            "security.mode", f"Kepler {version} serves only plain HTTP; set none, or use 0.10"
        )


def _check_redfish(given: Object, version: KeplerVersion) -> None:
    if given["enabled"] and not version.reads_redfish:
        raise InvalidField("redfish.enabled", f"Kepler {version} reads no BMC; use 0.11.0 or later")
    if given["fake_cpu_meter"] and (not given["enabled"] or version.uses_ebpf):
        problem = "it lets Kepler 0.11 and later start where only Redfish meters; enable redfish"
        raise InvalidField("redfish.fake_cpu_meter", problem)


def _image(given: Object, version: str, where: str) -> str:
    return fields.image(given["repository"], given["tag"] or f"v{version.lstrip('v')}", where)


def _images(given: Object, version: str) -> t.Iterator[tuple[str, str]]:
    seen: set[str] = set()
    for index, item in enumerate(given["by_architecture"]):
        where, architecture = f"image.by_architecture[{index}]", item["architecture"]
        if architecture not in _ARCHITECTURES:
            own_name = _OTHER_NAMES.get(architecture, "")
            problem = (
                f"write {own_name}" if own_name else f"give one of {', '.join(_ARCHITECTURES)}"
            )
            raise InvalidField(
                f"{where}.architecture",
                f"{shown(architecture)} is not an architecture in Kubernetes; {problem}",
            )
        if architecture in seen:
            raise InvalidField(f"{where}.architecture", f"{architecture} is given twice")
        seen.add(architecture)
        own = {name: item[name] or given[name] for name in ("repository", "tag")}
        yield architecture, _image(own, version, where)


def _pod_informer(given: Object, version: KeplerVersion) -> str:
    found: str = given["pod_informer"]
    if found == "kubelet" and not version.polls_kubelet:
        raise InvalidField(
            "collector.pod_informer",
            f"Kepler {version} reads pods only from the API server; set apiserver, or use 0.11.4",
        )
    return found


def _port(given: t.Any, version: KeplerVersion) -> int:
    if given is None:
        return OLD_PORT if version.uses_ebpf else PORT
    return whole_number(given, "collector.port", 1024, _MAX_PORT)


def _collector(
    given: Object, version: KeplerVersion, is_cluster_wide: bool, where: str
) -> Collector:
    if given["meter"] == "hwmon" and not version.reads_hwmon:
        problem = f"Kepler {version} cannot be configured to read hwmon; 0.11.4 and later can"
        raise InvalidField(f"{where}.meter", problem)
    levels = given["metric_levels"]
    if levels is None:
        levels = ["node", "container", "vm", *(["pod"] if is_cluster_wide else [])]
    return Collector(
        meter=given["meter"],
        sample_rate=fields.duration(
            given["sample_rate"], f"{where}.sample_rate", _MIN_SAMPLE_SECONDS
        ),
        staleness=fields.duration(given["staleness"], f"{where}.staleness"),
        metric_levels=_levels(levels, f"{where}.metric_levels"),
        log_level=given["log_level"],
        max_terminated=whole_number(
            given["max_terminated"], f"{where}.max_terminated", -1, _MAX_COUNT
        ),
        resources=fields.resources(given["resources"], f"{where}.resources"),
        tolerations=fields.tolerations(given["tolerations"], f"{where}.tolerations"),
        additional=keys.check_additional(
            _additional(given["additional_config"], f"{where}.additional_config"),
            version,
            f"{where}.additional_config",
        ),
    )


def _levels(given: t.Any, where: str) -> tuple[str, ...]:
    levels = texts(given, where)
    if not levels:
        raise InvalidField(where, "without a level Kepler exports nothing; give one at least")
    return tuple(each for each in METRIC_LEVELS if each in levels)


def _additional(given: t.Any, where: str) -> Object:
    """The given mapping, which is YAML text in a KeplerSystem."""
    if not isinstance(given, str):
        return mapping(given, where)
    if len(given) > _MAX_CONFIG_LENGTH:
        raise InvalidField(where, f"it has more than {_MAX_CONFIG_LENGTH} characters")
    return mapping(read_document(given, where), where)


def _pools(spec: Object, version: KeplerVersion, is_cluster_wide: bool) -> t.Iterator[Pool]:
    given = mappings(spec["pools"], "pools")
    if len(given) > _MAX_POOLS:
        raise InvalidField("pools", f"there are {len(given)}; the limit is {_MAX_POOLS}")
    seen: dict[str, Object] = {}
    for index, item in enumerate(given):
        where, name = f"pools[{index}]", item["name"]
        fields.dns_label(name, f"{where}.name", _MAX_POOL_LENGTH)
        selector = fields.labels(item["node_selector"], f"{where}.node_selector")
        if not selector:
            problem = "without labels the pool would select every node; name one label at least"
            raise InvalidField(f"{where}.node_selector", problem)
        if name in seen:
            raise InvalidField(f"{where}.name", f"there are two pools {name}; rename one")
        for other, theirs in seen.items():
            if theirs == selector:
                problem = f"the pools {other} and {name} select the same nodes; merge them"
                raise InvalidField(f"{where}.node_selector", problem)
        seen[name] = selector
        own = {key: value for key, value in item["collector"].items() if value is not None}
        settings = {**spec["collector"], **own}
        collector = _collector(settings, version, is_cluster_wide, f"{where}.collector")
        yield Pool(name, selector, collector)


def _model_part(given: Object, version: KeplerVersion, where: str) -> ModelPart:
    if given["enabled"] and not version.uses_ebpf:
        problem = f"Kepler {version} has none; it belongs to 0.9 and earlier"
        raise InvalidField(f"{where}.enabled", problem)
    image = given["image"]
    if given["enabled"]:
        fields.whole_image(image, f"{where}.image")
    return ModelPart(
        enabled=given["enabled"],
        image=image,
        command=tuple(texts(given["command"], f"{where}.command")),
        resources=fields.resources(given["resources"], f"{where}.resources"),
        urls=tuple(  # type: ignore[arg-type]
            fields.url(given.get(name), f"{where}.{name}") for name in _URLS
        ),
    )


_URLS = ("node_total_url", "node_components_url")


def remarks(spec: Object, version: KeplerVersion, is_cluster_wide: bool) -> t.Iterator[str]:
    """Sentences on settings of a KeplerSystem that are valid, but without their usual meaning."""
    if version.is_newer_than_known:
        yield (
            f"version: {version} is newer than {NEWEST}, the newest release that this collection "
            "knows; Kepler ignores keys that it has renamed since"
        )
    image = spec["image"]
    tags = [("image", image["tag"])]
    tags += [
        (f"image.by_architecture[{index}]", item["tag"])
        for index, item in enumerate(image["by_architecture"])
    ]
    for where, tag in tags:
        if tag and not tag.startswith("sha256:") and not _is_of(tag, version):
            yield (
                f"{where}.tag: {shown(tag)} is not the tag of Kepler {version}, for which the "
                "configuration is written; another program may ignore parts of it"
            )
    if not is_cluster_wide and not version.uses_ebpf:
        collectors = [("collector", spec["collector"])]
        collectors += [
            (f"pools[{index}].collector", item["collector"])
            for index, item in enumerate(spec["pools"])
        ]
        for where, collector in collectors:
            if "pod" in (collector["metric_levels"] or ()):
                yield (
                    f"{where}.metric_levels: pod has no effect in the minimum scope, where Kepler "
                    "knows no pods; set the cluster scope, or remove it"
                )


def _is_of(tag: str, version: KeplerVersion) -> bool:
    try:
        return KeplerVersion.parse(tag) == version
    except InvalidInput:
        return False
