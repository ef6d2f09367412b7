# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The keys of Kepler's configuration, with type, default and first version.

Kepler 0.10 and later only warns about an unknown key and ignores it, so unknown keys are refused.
Source: config/config.go of v0.10.0 to v0.11.4 and of commit 13944a6; pkg/config/config.go of
v0.7.12.
"""

from __future__ import annotations

import re
import typing as t
from dataclasses import dataclass

from ...base.boundary import InvalidField, shown
from ...base.fields.strict import mapping, mappings, sequence, texts, truth, whole_number
from ...base.json_types import Object
from .. import fields
from ..verdict import KeplerVersion
from .options import LOG_LEVELS, METRIC_LEVELS, POD_INFORMERS

# Releases with new keys. The last one stands for the future release after 0.11.4.
_REWRITE, _REDFISH, _HWMON, _PREFERRED = (0, 10, 0), (0, 11, 0), (0, 11, 4), (0, 11, 5)
_MAX_COUNT = 1_000_000
_MAX_TEXT_LENGTH = 1024
_ZONES = ("package", "core", "uncore", "dram", "psys")
# The kernel names packages of several dies so, and Kepler keeps these names.
_DIE = re.compile(r"package-[0-9]{1,4}-die-[0-9]{1,4}", re.ASCII)
_NO_GPU = (
    "none: a pod of Kepler has neither the GPU's devices nor the driver's libraries of its host "
    "(/run/nvidia/driver, LD_LIBRARY_PATH), and the policy of its namespace forbids them"
)


@dataclass(frozen=True)
class Key:
    """A key of config.yaml. ``option`` is the option of a KeplerSystem that sets it, if any."""

    kind: str
    default: t.Any
    option: str = ""
    since: tuple[int, int, int] = _REWRITE
    choices: tuple[str, ...] = ()
    until: t.Optional[tuple[int, int, int]] = None

    def is_known(self, version: KeplerVersion) -> bool:
        """Whether this version reads the key."""
        return self.since <= version.numbers and not (self.until and version.numbers >= self.until)


KEYS: t.Mapping[str, Key] = {
    "log.level": Key("text", "info", "collector.log_level", choices=LOG_LEVELS),
    "log.format": Key("text", "text", choices=("text", "json")),
    "host.sysfs": Key("text", "/sys", "none: the host's folder is mounted"),
    "host.procfs": Key("text", "/proc", "none: the host's folder is mounted"),
    "monitor.interval": Key("duration", "5s", "collector.sample_rate"),
    "monitor.staleness": Key("duration", "500ms", "collector.staleness"),
    "monitor.maxTerminated": Key("integer", 500, "collector.max_terminated"),
    "monitor.minTerminatedEnergyThreshold": Key("count", 10),
    "cpu.preferredMeters": Key("texts", ["rapl", "hwmon"], "collector.meter", _PREFERRED),
    "rapl.zones": Key("zones", []),
    "exporter.stdout.enabled": Key("flag", False),
    "exporter.prometheus.enabled": Key("flag", True),
    "exporter.prometheus.debugCollectors": Key(
        "texts", ["go", "process"], choices=("go", "process")
    ),
    "exporter.prometheus.metricsLevel": Key(
        "texts", list(METRIC_LEVELS), "collector.metric_levels", choices=METRIC_LEVELS
    ),
    "debug.pprof.enabled": Key("flag", False),
    "web.configFile": Key("text", "", "security.mode"),
    "web.listenAddresses": Key("texts", [":28282"], "collector.port"),
    "kube.enabled": Key("flag", False, "scope"),
    "kube.config": Key("text", "", "none: the account of the pod is used"),
    "kube.nodeName": Key("text", "", "none: each pod has its own"),
    "kube.podInformer.mode": Key(
        "text", "kubelet", "collector.pod_informer", _HWMON, choices=POD_INFORMERS
    ),
    "kube.podInformer.pollInterval": Key("duration", "15s", since=_HWMON),
    "dev.fake-cpu-meter.enabled": Key("flag", False, "redfish.fake_cpu_meter"),
    "dev.fake-cpu-meter.zones": Key("texts", []),
    "experimental.platform.redfish.enabled": Key("flag", False, "redfish.enabled", _REDFISH),
    "experimental.platform.redfish.configFile": Key("text", "", "redfish.secret", _REDFISH),
    "experimental.platform.redfish.nodeName": Key(
        "text", "", "none: each pod has its own", _REDFISH
    ),
    "experimental.platform.redfish.httpTimeout": Key("duration", "5s", since=_REDFISH),
    "experimental.hwmon.enabled": Key("flag", False, "collector.meter", _HWMON, until=_PREFERRED),
    "experimental.hwmon.forceEnabled": Key("flag", False, "collector.meter", _PREFERRED),
    "experimental.hwmon.zones": Key("texts", [], since=_HWMON),
    "experimental.hwmon.chipRules": Key("chip rules", [], since=_HWMON),
    "experimental.gpu.enabled": Key("flag", False, _NO_GPU, _HWMON),
    "experimental.gpu.idlePower": Key("watts", 0, _NO_GPU, _HWMON),
    "experimental.gpu.dcgmEndpoint": Key("text", "", _NO_GPU, _PREFERRED),
}

# Kepler 0.7 to 0.9: files below /etc/kepler/kepler.config, and the options that set some of them.
OLD_KEYS: t.Mapping[str, str] = {
    "KEPLER_NAMESPACE": "none: it is the namespace of the pod",
    "KEPLER_LOG_LEVEL": "collector.log_level",
    "METRIC_PATH": "none: scrapers expect /metrics",
    "BIND_ADDRESS": "collector.port",
    "SAMPLE_PERIOD_SEC": "collector.sample_rate",
    "ENABLE_API_SERVER": "scope",
    "ENABLE_PROCESS_METRICS": "collector.metric_levels",
    "EXPOSE_CONTAINER_METRICS": "collector.metric_levels",
    "EXPOSE_VM_METRICS": "collector.metric_levels",
    "MODEL_SERVER_ENABLE": "model_server.enabled",
    "MODEL_SERVER_URL": "model_server.enabled",
    "MODEL_SERVER_PORT": "model_server.enabled",
    "MODEL_CONFIG": "estimator",
    **dict.fromkeys(
        (
            *("ENABLE_GPU", "ENABLE_QAT", "ENABLE_MSR", "ENABLE_EBPF_CGROUPID"),
            *("EXPOSE_HW_COUNTER_METRICS", "EXPOSE_IRQ_COUNTER_METRICS", "EXPOSE_CGROUP_METRICS"),
            *("EXPOSE_BPF_METRICS", "EXPOSE_COMPONENT_POWER", "CPU_ARCH_OVERRIDE"),
            *("EXPOSE_ESTIMATED_IDLE_POWER_METRICS", "EXPERIMENTAL_BPF_SAMPLE_RATE"),
            *("CGROUP_METRICS", "MAX_LOOKUP_RETRY", "CORE_USAGE_METRIC", "DRAM_USAGE_METRIC"),
            *("UNCORE_USAGE_METRIC", "GPU_USAGE_METRIC", "GENERAL_USAGE_METRIC"),
            *("ESTIMATOR_MODEL", "ESTIMATOR_SELECT_FILTER", "NVIDIA_HOSTENGINE_ENDPOINT"),
            *("REDFISH_PROBE_INTERVAL_IN_SECONDS", "REDFISH_SKIP_SSL_VERIFY"),
            *("LIBVIRT_METADATA_URI", "LIBVIRT_METADATA_TOKEN", "EXCLUDE_SWAPPER_PROCESS"),
        ),
        "",
    ),
}


def known_keys(version: KeplerVersion) -> dict[str, Key]:
    """The keys that this version reads; empty for 0.9 and earlier."""
    return {path: key for path, key in KEYS.items() if key.is_known(version)}


def check_additional(given: Object, version: KeplerVersion, where: str) -> dict[str, t.Any]:
    """The values of an additional configuration by their path.

    Raises InvalidField for an unknown key, a wrong value, and a key that an option sets.
    """
    if version.uses_ebpf:
        return _old_values(given, version, where)
    found: dict[str, t.Any] = {}
    for path, value in _flattened(given, version, where, ""):
        key, place = KEYS[path], f"{where}.{path}"
        if not key.is_known(version):
            raise InvalidField(place, _unknown(path, version))
        _refuse_set(key.option, place)
        if value is None:
            raise InvalidField(place, "it has no value; give one, or remove the key")
        found[path] = _READERS[key.kind](value, place)
        for each in value if isinstance(value, list) else [value]:
            if key.choices and each not in key.choices:
                raise InvalidField(place, f"{shown(each)} is none of {', '.join(key.choices)}")
    return found


def _flattened(
    given: Object, version: KeplerVersion, where: str, prefix: str
) -> t.Iterator[tuple[str, t.Any]]:
    for name, value in given.items():
        path = f"{prefix}{name}" if isinstance(name, str) else ""
        if path in KEYS:
            yield path, value
        elif path and any(known.startswith(f"{path}.") for known in KEYS):
            inner = mapping(value, f"{where}.{path}")
            yield from _flattened(inner, version, where, f"{path}.")
        else:
            raise InvalidField(f"{where}.{prefix}{shown(name)}", _unknown(path, version))


def _unknown(path: str, version: KeplerVersion) -> str:
    later = KEYS.get(path)
    if later is not None and later.since > version.numbers:
        first = ".".join(str(number) for number in later.since)
        return f"Kepler {version} does not know this key, but {first} and later do; remove it"
    return f"Kepler {version} knows no such key and would ignore it; remove it"


def _old_values(given: Object, version: KeplerVersion, where: str) -> dict[str, t.Any]:
    found: dict[str, t.Any] = {}
    for name, value in given.items():
        place = f"{where}.{shown(name)}"
        if name not in OLD_KEYS:
            raise InvalidField(place, f"Kepler {version} has no such variable; remove it")
        _refuse_set(OLD_KEYS[name], place)
        _text(value, place)
        found[name] = value
    return found


def _refuse_set(option: str, place: str) -> None:
    if option.startswith("none: "):
        raise InvalidField(place, f"it must not be set: {option[6:]}; remove it")
    if option:
        raise InvalidField(place, f"the option {option} sets it; use that one")


# Readers raise InvalidField, and return the value as Kepler needs it.
def _zones(value: t.Any, place: str) -> list[str]:
    zones = texts(value, place)
    for zone in zones:
        if zone not in _ZONES and not _DIE.fullmatch(zone):
            names = ", ".join(_ZONES)
            problem = f"{shown(zone)} is none of {names}, and no die such as package-0-die-1"
            raise InvalidField(place, problem)
    return zones


def _count(value: t.Any, place: str) -> int:
    return whole_number(value, place, 0, _MAX_COUNT)


def _text(value: t.Any, place: str) -> str:
    if not isinstance(value, str) or len(value) > _MAX_TEXT_LENGTH or not value.isprintable():
        raise InvalidField(place, f"{shown(value)} is not a printable text; put it in quotes")
    return value


def _texts(value: t.Any, place: str) -> list[str]:
    return [_text(item, f"{place}[{index}]") for index, item in enumerate(texts(value, place))]


def _chip_rules(value: t.Any, place: str) -> list[dict[str, t.Any]]:
    found = []
    for index, rule in enumerate(mappings(value, place)):
        path = f"{place}[{index}]"
        unknown = sorted(map(str, rule.keys() - _CHIP_RULE.keys()))
        if unknown:
            raise InvalidField(f"{path}.{shown(unknown[0])}", "a chip rule has no such key")
        if not re.fullmatch("[0-9A-Za-z_-]{1,64}", str(rule.get("name", ""))):
            raise InvalidField(
                f"{path}.name", f"{shown(rule.get('name'))} is not the name of a chip"
            )
        found.append({name: _CHIP_RULE[name](rule[name], f"{path}.{name}") for name in rule})
    return found


def _indices(value: t.Any, place: str) -> list[int]:
    items = enumerate(sequence(value, place))
    return [_count(item, f"{place}[{index}]") for index, item in items]


def _pairings(value: t.Any, place: str) -> dict[int, int]:
    """Pairs of sensors; JSON has text keys in mappings, and Kepler needs numbers."""
    found = {}
    for key, item in mapping(value, place).items():
        if isinstance(key, str) and not _INDEX.fullmatch(key):
            raise InvalidField(place, f"{shown(key)} is not the number of a sensor")
        number = _count(int(key) if isinstance(key, str) else key, place)
        found[number] = _count(item, f"{place}.{key}")
    return found


_INDEX = re.compile(r"[0-9]{1,7}", re.ASCII)
_Reader = t.Callable[[t.Any, str], t.Any]
_CHIP_RULE: t.Mapping[str, _Reader] = {
    "name": _text,
    "pairings": _pairings,
    "skipVoltages": _indices,
    "skipCurrents": _indices,
    "useSameIndex": truth,
}
_READERS: t.Mapping[str, _Reader] = {
    "text": _text,
    "texts": _texts,
    "zones": _zones,
    "flag": truth,
    "integer": lambda value, place: whole_number(value, place, -1, _MAX_COUNT),
    "count": _count,
    "duration": fields.duration,
    "chip rules": _chip_rules,
}
