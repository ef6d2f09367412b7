# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Whether hosts meet requirements: yes, no or unknown, with the reason of each answer."""

from __future__ import annotations

import fnmatch
import functools
import typing as t
from dataclasses import dataclass
from decimal import Decimal

from ...base.texts import shown
from ...base.units import format_quantity
from ...cel.selector import Compiler, Evaluations, SelectorError
from ..host import Hardware, Host
from ..provisioning import Item, Requirements
from .expressions import variables_of

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
    judgements: list[tuple[t.Any, Judgement]] = [
        (requirements.cpu, lambda hardware: _threads(hardware, requirements.cpu)),
        (requirements.memory, lambda hardware: _memory(hardware, requirements.memory)),
        (requirements.cpu_model, lambda hardware: _model(hardware, requirements.cpu_model)),
        (requirements.sriov, _sriov),
        (requirements.qat, _qat),
        (requirements.gpu, lambda hardware: _gpus(hardware, requirements.gpu)),
        (requirements.disk, lambda hardware: _disk(hardware, requirements.disk)),
    ]
    return [judgement for asked, judgement in judgements if asked]


def _amount(name: str, unit: str, has: int | None, wanted: int) -> Verdict:
    requirement = f"{name} >= {wanted}"
    if has is None:
        return Verdict(requirement, None, f"{name}: unknown, because no source states {unit}")
    return Verdict(requirement, has >= wanted, f"{name}: {has} {unit}, {wanted} wanted")


def _threads(hardware: Hardware, wanted: int) -> Verdict:
    return _amount("cpu", "hardware threads", hardware.processors.count, wanted)


def _gpus(hardware: Hardware, wanted: int) -> Verdict:
    return _amount("gpu", "GPUs", hardware.gpus, wanted)


def _memory(hardware: Hardware, wanted: int) -> Verdict:
    has = None if hardware.memory_mib is None else hardware.memory_mib * MEBIBYTE
    return _size("memory", "the memory", has, wanted)


def _disk(hardware: Hardware, wanted: int) -> Verdict:
    """Whether one disk is large enough; unknown with disks of unknown size."""
    if hardware.disks is None:
        return _size("minDisk", "the disks", None, wanted)
    sizes = [disk.size_bytes for disk in hardware.disks]
    largest = max((size for size in sizes if size is not None), default=0)
    has = None if None in sizes and largest < wanted else largest
    return _size("minDisk", "the size of each disk", has, wanted)


def _size(name: str, what: str, has: int | None, wanted: int) -> Verdict:
    requirement = f"{name} >= {size_text(wanted)}"
    if has is None:
        return Verdict(requirement, None, f"{name}: unknown, because no source states {what}")
    told = f"{name}: {size_text(has)}, {size_text(wanted)} wanted"
    return Verdict(requirement, has >= wanted, told)


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
