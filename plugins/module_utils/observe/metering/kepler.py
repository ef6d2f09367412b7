# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Power of pods and of their node from the metrics of Kepler 0.10 and of older versions.

Zones overlap: package contains core and uncore, and psys contains both. So only package and dram
are read, which may be added; a processor of several dies has a zone of each. Sensors of hwmon are
zones with arbitrary names, which may overlap too. Older versions count only joules.

Sources: Linux, drivers/powercap/intel_rapl_common.c (names of packages); prometheus/procfs,
sysfs/class_powercap.go (package-0 is package, other names stay whole).
"""

from __future__ import annotations

import dataclasses
import re
import typing as t
from dataclasses import dataclass, field

from ...base.errors import TargetFailure
from ...base.metrics import FINITE_NUMBER, LABEL_NAME, LABEL_VALUE, METRIC_NAME
from ...base.texts import shown

MAX_SAMPLES = 50_000
# Largest power of one machine, with all of its devices, far above any real one.
MAX_WATTS = 100_000.0
_MAX_LABELS = 64
_MAX_NUMBER_LENGTH = 64

_LINE = re.compile(rf"^[ \t]*({METRIC_NAME})([^\n]*)", re.ASCII | re.MULTILINE)
_PAIR = re.compile(
    rf'[ \t]*(?P<name>{LABEL_NAME})[ \t]*=[ \t]*"(?P<value>{LABEL_VALUE})"[ \t]*', re.ASCII
)
_ESCAPED = re.compile(r'\\(["\\n])')
_NUMBER = re.compile(FINITE_NUMBER, re.ASCII)
_TIMESTAMP = re.compile(r"-?[0-9]{1,20}", re.ASCII)


class Sample(t.NamedTuple):
    """One sample, without its timestamp."""

    name: str
    labels: t.Mapping[str, str]
    value: float


def parse(text: str, families: t.Container[str]) -> list[Sample]:
    """The samples of ``families`` in an untrusted text; other lines are not read.

    Source: https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format.
    Raises TargetFailure for a broken line, a negative or non-finite number, and a duplicate series.
    """
    samples: list[Sample] = []
    known: set[tuple[str, frozenset[tuple[str, str]]]] = set()
    for line in _LINE.finditer(text):
        if line[1] not in families:
            continue
        try:
            sample = _sample(line[1], line[2])
        except ValueError as error:
            number = text.count("\n", 0, line.start()) + 1
            raise TargetFailure(
                "malformed",
                f"line {number} of its metrics, {shown(line[0])}, {error}; check that the "
                "endpoint is Kepler's",
            ) from error
        series = (sample.name, frozenset(sample.labels.items()))
        if series in known:
            raise TargetFailure(
                "malformed", f"its metrics have {shown(line[0])} twice; check Kepler's log"
            )
        known.add(series)
        samples.append(sample)
        if len(samples) > MAX_SAMPLES:
            raise TargetFailure(
                "malformed",
                f"its metrics have more than {MAX_SAMPLES} samples of pods and containers; check "
                "that the endpoint is Kepler's",
            )
    return samples


def amount(text: str) -> float:
    """A finite number of 0 or more. Raises ValueError."""
    if len(text) > _MAX_NUMBER_LENGTH or not _NUMBER.fullmatch(text):
        raise ValueError(f"has {shown(text)}, which is not a finite number")
    value = float(text)
    if not 0 <= value < float("inf"):
        raise ValueError(f"has {shown(text)}, which is not an amount of power or energy")
    return abs(value)


def _sample(name: str, line: str) -> Sample:
    """The sample of a line; ``line`` is the rest after the name. Raises ValueError."""
    labels: dict[str, str] = {}
    rest = line.lstrip(" \t")
    if rest.startswith("{"):
        rest = rest[_read_labels(rest, labels) :]
    elif rest == line:
        raise ValueError("is no sample")
    fields = rest.split()
    if not 1 <= len(fields) <= 2 or (len(fields) == 2 and not _TIMESTAMP.fullmatch(fields[1])):
        raise ValueError("is no sample")
    return Sample(name, labels, amount(fields[0]))


def _read_labels(text: str, labels: dict[str, str]) -> int:
    """Read the labels in braces; returns the position after them. Raises ValueError."""
    position = _after_blanks(text, 1)
    while text[position : position + 1] != "}":
        pair = _PAIR.match(text, position)
        if pair is None or pair["name"] in labels or len(labels) >= _MAX_LABELS:
            raise ValueError("has labels that cannot be read")
        labels[pair["name"]] = _ESCAPED.sub(_unescaped, pair["value"])
        position = pair.end()
        if text[position : position + 1] == ",":
            position = _after_blanks(text, position + 1)
        elif text[position : position + 1] != "}":
            raise ValueError("has labels that cannot be read")
    return position + 1


def _after_blanks(text: str, position: int) -> int:
    while text[position : position + 1] in (" ", "\t"):
        position += 1
    return position


def _unescaped(found: re.Match[str]) -> str:
    return "\n" if found[1] == "n" else found[1]


ZONES = ("package", "dram")
# Names of zones in Kepler 0.10 and later; also an expression of Prometheus.
ADDED_ZONES = "(package|dram)(-[0-9]+)?(-die-[0-9]+)?"
_ADDED = re.compile(ADDED_ZONES, re.ASCII)
MAX_CORES = 10_000.0
_SHOWN_ZONES = 4
# Amounts by zone, in W or J.
Zones = dict[str, float]

POD_WATTS, NODE_WATTS = "kepler_pod_cpu_watts", "kepler_node_cpu_watts"
POD_JOULES, NODE_JOULES = "kepler_pod_cpu_joules_total", "kepler_node_cpu_joules_total"
_OLD_POD = {f"kepler_container_{zone}_joules_total": zone for zone in ZONES}
_OLD_NODE = {f"kepler_node_{zone}_joules_total": zone for zone in ZONES}
_FAMILIES = frozenset({POD_WATTS, NODE_WATTS, POD_JOULES, *_OLD_POD, *_OLD_NODE})


class PodName(t.NamedTuple):
    """The labels that name a pod; ``uid`` is empty in older versions."""

    uid: str
    namespace: str
    name: str


@dataclass(frozen=True)
class Amounts:
    """Amounts of one node and its pods: W, or J since Kepler's start if ``are_joules``.

    ``cores`` are CPUs in use, if known, and ``joules`` accompany watts.
    """

    are_joules: bool
    node: Zones = field(default_factory=dict)
    pods: dict[PodName, Zones] = field(default_factory=dict)
    cores: dict[PodName, float] = field(default_factory=dict)
    joules: dict[PodName, Zones] = field(default_factory=dict)

    @property
    def counters(self) -> dict[PodName, Zones]:
        """J of pods since Kepler's start."""
        return self.pods if self.are_joules else self.joules


def of_text(text: str) -> Amounts:
    """Amounts from the metrics of one Kepler. Raises TargetFailure."""
    samples = parse(text, _FAMILIES)
    if not samples:
        raise TargetFailure(
            "no_sensor",
            "its metrics have no power of a node or a pod; Kepler reads no meter there, or its "
            "metric levels lack node and pod (see its log)",
        )
    has_watts = any(sample.name in (POD_WATTS, NODE_WATTS) for sample in samples)
    return checked(_new(samples) if has_watts else _old(samples))


def _new(samples: t.Iterable[Sample]) -> Amounts:
    found = Amounts(are_joules=False)
    for sample in samples:
        labels, zone = sample.labels, sample.labels.get("zone", "")
        if sample.name == NODE_WATTS:
            # There is a series for each path, such as the packages of two sockets.
            found.node[zone] = found.node.get(zone, 0.0) + plausible(sample.value)
        elif sample.name in (POD_WATTS, POD_JOULES) and labels.get("state") == "running":
            is_power = sample.name == POD_WATTS
            pods = found.pods if is_power else found.joules
            zones = pods.setdefault(pod_name(labels), {})
            if zone in zones:
                raise TargetFailure(
                    "malformed",
                    f"its metrics have two series of the pod {shown(labels.get('pod_name'))} in "
                    f"zone {zone}; check Kepler's log",
                )
            zones[zone] = plausible(sample.value) if is_power else sample.value
    return found


def _old(samples: t.Iterable[Sample]) -> Amounts:
    """Containers have the modes dynamic and idle; the pod causes only the first."""
    found = Amounts(are_joules=True)
    for sample in samples:
        labels = sample.labels
        if sample.name in _OLD_NODE:
            _add(found.node, _OLD_NODE[sample.name], sample.value)
        elif sample.name in _OLD_POD and labels.get("mode") == "dynamic":
            name = PodName("", labels.get("container_namespace", ""), labels.get("pod_name", ""))
            # Processes of the node have series with a separate name and without a pod.
            _add(found.pods.setdefault(name, {}), _OLD_POD[sample.name], sample.value)
    return found


def _add(zones: Zones, zone: str, value: float) -> None:
    zones[zone] = zones.get(zone, 0.0) + value


def checked(given: Amounts) -> Amounts:
    """The amounts of package and dram. Raises TargetFailure without a package, or if two overlap."""
    _check(given.node)
    _check({zone for zones in given.pods.values() for zone in zones})
    found = dataclasses.replace(
        given,
        node=_added(given.node),
        pods={name: _added(zones) for name, zones in given.pods.items()},
        joules={name: _added(zones) for name, zones in given.joules.items()},
    )
    for zones in (found.node, *found.pods.values()):
        for value in zones.values():
            if value == float("inf") or (value > MAX_WATTS and not found.are_joules):
                raise _implausible(value)
    return found


def _check(zones: t.Collection[str]) -> None:
    """Raise TargetFailure for zones without a package, and for such that overlap."""
    added = sorted(zone for zone in zones if _kind(zone) is not None)
    if zones and not any(_kind(zone) == "package" for zone in added):
        raise TargetFailure(
            "no_sensor",
            f"its metrics have no zone package, only {_listed(zones)}; parts of a processor and "
            "hwmon sensors may overlap, so they are not the node's power; let Kepler read RAPL's "
            "package (rapl.zones), or read the node's BMC",
        )
    for zone in added:
        inner = next((other for other in added if other.startswith(f"{zone}-")), None)
        if inner is not None:
            raise TargetFailure(
                "malformed",
                f"its metrics have the zones {zone} and {inner}, which overlap; check Kepler's log",
            )


def _kind(zone: str) -> str | None:
    match = _ADDED.fullmatch(zone)
    return None if match is None else match[1]


def _added(zones: Zones) -> Zones:
    found: Zones = {}
    for zone, amount in zones.items():
        kind = _kind(zone)
        if kind is not None:
            _add(found, kind, amount)
    return found


def _listed(zones: t.Collection[str]) -> str:
    some = [shown(zone) for zone in sorted(zones)[:_SHOWN_ZONES]]
    left = len(zones) - len(some)
    return ", ".join(some) + (f" and {left} more" if left else "")


def pod_name(labels: t.Mapping[str, str]) -> PodName:
    """The pod of a series of Kepler 0.10 or later."""
    return PodName(
        labels.get("pod_id", ""), labels.get("pod_namespace", ""), labels.get("pod_name", "")
    )


def plausible_cores(cores: float) -> float:
    """The cores. Raises TargetFailure for more than any machine has."""
    if cores > MAX_CORES:
        told = f"its metrics have {cores:g} CPUs in use; check Kepler's log"
        raise TargetFailure("implausible", told)
    return cores


def plausible(watts: float) -> float:
    """The power draw. Raises TargetFailure for more than any machine draws."""
    if watts > MAX_WATTS:
        raise _implausible(watts)
    return watts


def plausible_joules(joules: float, seconds: float) -> float:
    """The joules of these seconds. Raises TargetFailure for more than any machine draws."""
    if joules > MAX_WATTS * seconds:
        raise TargetFailure(
            "implausible",
            f"its metrics have {joules:g} J in {seconds:.0f} s, more than {MAX_WATTS:g} W; look "
            "at Kepler's meter",
        )
    return joules


def _implausible(value: float) -> TargetFailure:
    return TargetFailure(
        "implausible",
        f"its metrics have {value:g} W, more than {MAX_WATTS:g} W; check Kepler's meter",
    )


def watts_between(earlier: Zones, later: Zones, seconds: float) -> Zones | None:
    """Mean power between two counts of joules; None after a restart of a counter."""
    if any(later.get(zone, 0.0) < joules for zone, joules in earlier.items()):
        return None
    return {zone: (later[zone] - earlier[zone]) / seconds for zone in later if zone in earlier}
