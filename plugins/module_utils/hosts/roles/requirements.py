# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Whether hosts meet requirements: yes, no or unknown, with the reason of each answer.

In CEL expressions over the variable ``host`` an unknown fact is missing, so an expression that
reads it has an error, and the host is not taken and counts as unknown. ``has(host.cpu.model)``
tests whether a fact is known.
"""

from __future__ import annotations

import fnmatch
import functools
import typing as t
from dataclasses import dataclass
from decimal import Decimal

from ...base.texts import shown, shown_text
from ...base.units import format_quantity
from ...cel.selector import Compiler, Evaluations, SelectorError
from ..host import Hardware, Host
from ..provisioning import Item, Requirements

MEBIBYTE = 1 << 20


@dataclass(frozen=True)
class Verdict:
    """Whether a host meets one requirement; ``answer`` None stands for unknown.

    ``requirement`` is the same text for each host, such as ``cpu >= 20``.
    """

    requirement: str
    answer: bool | None
    reason: str


def is_met(verdicts: t.Iterable[Verdict]) -> bool | None:
    """Yes if all are met, no if one is certainly not, else unknown."""
    answers = [verdict.answer for verdict in verdicts]
    if False in answers:
        return False
    return None if None in answers else True


class Judge:
    """The verdicts about some hosts; equal checks are made once."""

    def __init__(self, hosts: t.Sequence[Host]) -> None:
        self._hosts = hosts
        self._compiler = Compiler("host")
        self._known: dict[Requirements, list[tuple[Verdict, ...]]] = {}

    def check(self, items: t.Iterable[Item]) -> None:
        """Compile all expressions. Raises InvalidField, which names the expression's place."""
        for item in items:
            for index, source in enumerate(item.requirements.expressions):
                self._compiler.compile(source, f"{item.where}.expressions[{index}]")

    def verdicts(self, requirements: Requirements) -> list[tuple[Verdict, ...]]:
        """One verdict for each host and requirement."""
        if requirements not in self._known:
            plain = _plain_requirements(requirements)
            expressions = [self._evaluated(source) for source in requirements.expressions]
            self._known[requirements] = [
                (
                    *(requirement(host.hardware) for requirement in plain),
                    *(verdicts[index] for verdicts in expressions),
                )
                for index, host in enumerate(self._hosts)
            ]
        return self._known[requirements]

    def _evaluated(self, source: str) -> list[Verdict]:
        selector = self._compiler.compile(source, "expression")
        name = f"expression {shown(source)}"
        return [
            Verdict(name, None, f"{name}: not known, {answer}")
            if isinstance(answer, SelectorError)
            else Verdict(name, answer, f"{name}: {'true' if answer else 'false'}")
            for answer in self._evaluations.of(selector)
        ]

    @functools.cached_property
    def _evaluations(self) -> Evaluations:
        return Evaluations([variables_of(host) for host in self._hosts])


Judgement = t.Callable[[Hardware], Verdict]


def _plain_requirements(requirements: Requirements) -> list[Judgement]:
    """The requirements other than expressions."""
    cpu, memory, gpu = requirements.cpu, requirements.memory, requirements.gpu
    judgements: list[tuple[t.Any, Judgement]] = [
        (cpu, lambda given: _amount("cpu", "hardware threads", given.processors.count, cpu)),
        (memory, lambda given: _size("memory", "the memory", given.memory_bytes, memory)),
        (requirements.cpu_model, lambda given: _model(given, requirements.cpu_model)),
        (requirements.sriov, _sriov),
        (requirements.qat, _qat),
        (gpu, lambda given: _amount("gpu", "GPUs", given.gpus, gpu)),
        (requirements.disk, lambda given: _disk(given, requirements.disk)),
    ]
    return [judgement for asked, judgement in judgements if asked]


def _amount(name: str, unit: str, has: int | None, wanted: int) -> Verdict:
    requirement = f"{name} >= {wanted}"
    if has is None:
        return Verdict(requirement, None, f"{name}: unknown, because no source states {unit}")
    return Verdict(requirement, has >= wanted, f"{name}: {has} {unit}, {wanted} wanted")


def _size(name: str, what: str, has: int | None, wanted: int) -> Verdict:
    requirement = f"{name} >= {size_text(wanted)}"
    if has is None:
        return Verdict(requirement, None, f"{name}: unknown, because no source states {what}")
    told = f"{name}: {size_text(has)}, {size_text(wanted)} wanted"
    return Verdict(requirement, has >= wanted, told)


def _disk(hardware: Hardware, wanted: int) -> Verdict:
    """Whether one disk is large enough; unknown with disks of unknown size."""
    if hardware.disks is None:
        return _size("minDisk", "the disks", None, wanted)
    sizes = [disk.size_bytes for disk in hardware.disks]
    largest = max((size for size in sizes if size is not None), default=0)
    has = None if None in sizes and largest < wanted else largest
    return _size("minDisk", "the size of each disk", has, wanted)


def size_text(size: int) -> str:
    """Bytes as a quantity for people: ``64Gi``, ``960G``, ``63.5Gi``."""
    exact = min((format_quantity(Decimal(size), binary) for binary in (True, False)), key=len)
    return exact if len(exact) <= 6 else f"{size / (1 << 30):.1f}".removesuffix(".0") + "Gi"


def _model(hardware: Hardware, wanted: str) -> Verdict:
    requirement = f"cpuModel {shown(wanted)}"
    model = hardware.processors.model
    if model is None:
        return Verdict(
            requirement, None, "cpuModel: unknown, because no source states the processor"
        )
    pattern = wanted.lower() if {"*", "?"} & set(wanted) else f"*{wanted.lower()}*"
    answer = fnmatch.fnmatchcase(model.lower(), pattern.replace("[", "[[]"))
    return Verdict(requirement, answer, f"cpuModel: {shown(model)}, {shown(wanted)} wanted")


def _sriov(hardware: Hardware) -> Verdict:
    """SR-IOV needs a capable adapter, and must not be off in the BIOS."""
    able = [port.can_sriov for port in hardware.network_interfaces]
    if hardware.sriov_enabled is False:
        return Verdict("sriov", False, "sriov: switched off in the BIOS")
    if True in able:
        switch = "on" if hardware.sriov_enabled else "not known"
        told = f"sriov: a network adapter supports it, the switch in the BIOS is {switch}"
        return Verdict("sriov", True, told)
    if able and None not in able:
        return Verdict("sriov", False, "sriov: no network adapter supports it")
    return Verdict(
        "sriov",
        None,
        "sriov: unknown, because no source states the capabilities of the network adapters",
    )


def _qat(hardware: Hardware) -> Verdict:
    if hardware.has_qat is None:
        told = "qat: unknown, because no source states the PCI devices; label the host if it has"
        return Verdict("qat", None, told)
    return Verdict("qat", hardware.has_qat, f"qat: {'there' if hardware.has_qat else 'not there'}")


# Bounds for cel/selector.py's estimate of an expression's cost.
_MAX_TEXT_LENGTH = 256
_MAX_MEMBERS = 512

# Names of facts in expressions.
Names = t.Mapping[str, str]
_OF_HOST: Names = {
    **{name: name for name in ("name", "namespace", "source", "rack", "state")},
    "is_online": "online",
}
_OF_HARDWARE: Names = {
    **{name: name for name in ("gpus", "manufacturer", "product")},
    "has_qat": "qat",
    "sriov_enabled": "sriovEnabled",
    "serial_number": "serialNumber",
}
_OF_PROCESSORS: Names = {name: name for name in ("count", "model", "architecture")}
_OF_PORTS: Names = {
    **{name: name for name in ("name", "mac", "ip", "gigabits", "boots")},
    "pci_id": "pciId",
    "can_sriov": "sriov",
}
_OF_DISKS: Names = {"name": "name", "size_bytes": "bytes", "kind": "kind"}
_OF_DEVICES: Names = {"pci_id": "pciId", "name": "name"}


def variables_of(host: Host) -> dict[str, t.Any]:
    """The variables of expressions over this host."""
    hardware = host.hardware
    flags = hardware.processors.flags
    known = {} if flags is None else {"flags": sorted(flags)[:_MAX_MEMBERS]}
    memory = {} if hardware.memory_mib is None else {"mebibytes": hardware.memory_mib}
    lists = {
        "nics": (hardware.network_interfaces, _OF_PORTS),
        "disks": (hardware.disks, _OF_DISKS),
        "pciDevices": (hardware.pci_devices, _OF_DEVICES),
    }
    return {
        "host": {
            **_facts(host, _OF_HOST),
            "labels": _texts(host.labels),
            "annotations": _texts(host.annotations),
            "cpu": {**_facts(hardware.processors, _OF_PROCESSORS), **known},
            "memory": memory,
            **_facts(hardware, _OF_HARDWARE),
            **{
                name: [_facts(item, names) for item in items[:_MAX_MEMBERS]]
                for name, (items, names) in lists.items()
                if items is not None
            },
        }
    }


def _facts(value: t.Any, names: Names) -> dict[str, t.Any]:
    """The known facts of a value, with texts of limited length."""
    found = {name: getattr(value, ours) for ours, name in names.items()}
    return {
        name: shown_text(fact, _MAX_TEXT_LENGTH) if isinstance(fact, str) else fact
        for name, fact in found.items()
        if fact is not None
    }


def _texts(given: t.Mapping[str, str]) -> dict[str, str]:
    """At most 512 labels or annotations, without those with long texts."""
    short = (item for item in sorted(given.items()) if len(item[1].encode()) <= _MAX_TEXT_LENGTH)
    return dict(list(short)[:_MAX_MEMBERS])
