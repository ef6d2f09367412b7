# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Small neutral instances of device allocation, and their optimum by brute force.

Rules and levels are restated here independently; only the data classes are the library's.
"""

from __future__ import annotations

import itertools
import typing as t
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from hypothesis import strategies as st

from ansible_collections.wattwise.kube.plugins.module_utils.devices.model.model import (
    Alternative,
    Capacity,
    Claim,
    Constraint,
    Counter,
    Device,
    HeldDevice,
    Instance,
    Node,
    Pick,
    Request,
    Unit,
)

NUMA = "gpu.example.com/numa"
DRIVER = "gpu.example.com"
# Claim of an answer → its node, and (request, alternative, device); unallocated ones are left out.
Answer = dict[int, tuple[str, tuple[tuple[int, int, int], ...]]]
SLOTS, MEMORY = 4, 40


@dataclass(frozen=True)
class Fixed:
    """A matcher that accepts the devices it names."""

    devices: tuple[int, ...]
    errors: Mapping[int, str] = field(default_factory=dict)

    def why_not(self, device: int) -> str:
        return "" if device in self.devices else "constraints not met"


@st.composite
def instances(draw: st.DrawFn) -> Instance:
    nodes = tuple(
        Node(f"n{number}", wake_milliwatts=draw(st.sampled_from([0, 500, 3000])))
        for number in range(draw(st.integers(1, 3)))
    )
    reach = _reach([node.name for node in nodes], draw(st.booleans()))
    devices, counters = [], []
    for number, node in enumerate(nodes):
        counters += [
            Counter(DRIVER, node.name, "gpu", name, amount)
            for name, amount in (("slots", SLOTS), ("memory", MEMORY))
        ]
        devices += [
            draw(_devices(node.name, f"d{index}", 2 * number, reach))
            for index in range(draw(st.integers(1, 3)))
        ]
    everywhere = range(len(devices))
    matchers = [
        Fixed(tuple(device for device in everywhere if draw(st.integers(0, 3))))
        for _matcher in range(2)
    ]
    claims = [draw(_claims(f"c{number}")) for number in range(draw(st.integers(1, 4)))]
    held = [HeldDevice(0)] if draw(st.integers(0, 4)) == 0 and not devices[0].shareable else []
    units = draw(_units(len(claims), [node.name for node in nodes]))
    return Instance(
        nodes, tuple(devices), tuple(counters), tuple(matchers), tuple(claims), units, tuple(held)
    )


def _reach(names: list[str], network: bool) -> t.Callable[[str], st.SearchStrategy[frozenset[str]]]:
    """The nodes from which a node's device can be used; for a network device often several.

    Counters remain those of the device's pool, so several nodes may share them.
    """

    def of(node: str) -> st.SearchStrategy[frozenset[str]]:
        local = st.just(frozenset([node]))
        if not network:
            return local
        some = st.frozensets(st.sampled_from(names), min_size=1)
        return local | some | st.just(frozenset(names))

    return of


@st.composite
def _devices(
    draw: st.DrawFn,
    pool: str,
    name: str,
    first_counter: int,
    reach: t.Callable[[str], st.SearchStrategy[frozenset[str]]],
) -> Device:
    numa = draw(st.sampled_from([None, 0, 1, (0, 1)]))
    consumes: tuple[tuple[int, int], ...] = ()
    if draw(st.booleans()):
        slots, memory = draw(st.sampled_from([(1, 10), (2, 20), (3, 10), (4, 40)]))
        consumes = (first_counter, slots), (first_counter + 1, memory)
    shareable = draw(st.integers(0, 4)) == 0
    return Device(
        DRIVER,
        pool,
        name,
        draw(reach(pool)),
        {} if numa is None else {NUMA: numa},
        {"memory": Capacity(5, default=2)} if shareable else {},
        consumes,
        shareable,
        milliwatts=draw(st.sampled_from([0, 100, 700])),
    )


@st.composite
def _claims(draw: st.DrawFn, name: str) -> Claim:
    requests = []
    for number in range(draw(st.sampled_from([1, 1, 2]))):
        ways = []
        for _way in range(draw(st.sampled_from([1, 1, 2]))):
            count = draw(st.sampled_from([1, 1, 2]))
            ways.append(Alternative(draw(st.integers(0, 1)), count, count))
        requests.append(Request(f"r{number}", tuple(ways)))
    members = frozenset(
        (request, way)
        for request, asked in enumerate(requests)
        for way in range(len(asked.alternatives))
    )
    kind = draw(st.sampled_from([None, None, "match", "distinct"]))
    constraints = (Constraint(t.cast(t.Any, kind), NUMA, members),) if kind else ()
    return Claim("default", name, tuple(requests), constraints)


@st.composite
def plain_instances(
    draw: st.DrawFn, *, wake: tuple[int, ...] = (0,), network: bool = True
) -> Instance:
    """Only claims for one device each, and devices that are neither shared nor partitioned.

    With ``network``, several nodes may use a device.
    """
    nodes = tuple(
        Node(f"n{number}", wake_milliwatts=draw(st.sampled_from(wake)))
        for number in range(draw(st.integers(1, 3)))
    )
    reach = _reach([node.name for node in nodes], network and draw(st.booleans()))
    devices = tuple(
        Device(
            DRIVER,
            node.name,
            f"d{index}",
            draw(reach(node.name)),
            milliwatts=draw(st.sampled_from([0, 100, 700])),
        )
        for node in nodes
        for index in range(draw(st.integers(0, 2)))
    )
    matchers = tuple(
        Fixed(tuple(one for one in range(len(devices)) if draw(st.booleans()))) for _one in range(3)
    )
    ways = st.lists(st.integers(0, 2), min_size=1, max_size=3, unique=True)
    claims = tuple(
        Claim("default", f"c{number}", (Request("r", tuple(map(Alternative, draw(ways)))),))
        for number in range(draw(st.integers(1, 5)))
    )
    held = [HeldDevice(0)] if devices and draw(st.integers(0, 4)) == 0 else []
    names = [node.name for node in nodes]
    units = tuple(
        Unit(
            (number,),
            frozenset([draw(st.sampled_from(names))]) if draw(st.integers(0, 4)) == 0 else None,
            draw(st.sampled_from([0, 0, 5])),
        )
        for number in range(len(claims))
    )
    return Instance(nodes, devices, (), matchers, claims, units, tuple(held))


@st.composite
def _units(draw: st.DrawFn, claims: int, nodes: list[str]) -> tuple[Unit, ...]:
    units, left = [], list(range(claims))
    while left:
        size = min(len(left), draw(st.sampled_from([1, 1, 2])))
        own, left = left[:size], left[size:]
        only = frozenset([draw(st.sampled_from(nodes))]) if draw(st.integers(0, 4)) == 0 else None
        units.append(Unit(tuple(own), only, draw(st.sampled_from([0, 0, 5]))))
    return tuple(units)


def answers(instance: Instance, most: int) -> list[Answer]:
    """All answers, at most ``most`` and one more."""
    found: Iterator[Answer] = _extend(instance, list(instance.units), {})
    return list(itertools.islice(found, most + 1))


def _extend(instance: Instance, units: list[Unit], answer: Answer) -> Iterator[Answer]:
    if not units:
        yield answer
        return
    unit, *rest = units
    yield from _extend(instance, rest, answer)
    for node in instance.nodes:
        if unit.nodes is not None and node.name not in unit.nodes:
            continue
        ways = [list(_ways(instance, claim, node.name)) for claim in unit.claims]
        for chosen in itertools.product(*ways):
            more = {claim: (node.name, one) for claim, one in zip(unit.claims, chosen, strict=True)}
            extended = {**answer, **more}
            if used(instance, extended) is not None:
                yield from _extend(instance, rest, extended)


def _ways(instance: Instance, claim: int, node: str) -> Iterator[tuple[tuple[int, int, int], ...]]:
    """The sets of devices that satisfy one claim, considered alone."""
    asked = instance.claims[claim]
    choices = []
    for number, request in enumerate(asked.requests):
        choices.append(
            [
                tuple((number, way, device) for device in devices)
                for way, alternative in enumerate(request.alternatives)
                for devices in itertools.combinations(
                    [
                        one
                        for one in instance.matchers[alternative.matcher].devices
                        if node in instance.devices[one].nodes
                    ],
                    alternative.count,
                )
            ]
        )
    for combination in itertools.product(*choices):
        chosen = tuple(itertools.chain(*combination))
        if all(_holds(instance, one, chosen) for one in asked.constraints):
            yield chosen


def _numa(device: Device) -> set[int]:
    value = t.cast(t.Any, device.attributes.get(NUMA, ()))
    return set(value) if isinstance(value, tuple) else {value}


def _holds(
    instance: Instance, constraint: Constraint, chosen: tuple[tuple[int, int, int], ...]
) -> bool:
    sets = [_numa(instance.devices[device]) for _request, _way, device in chosen]
    if constraint.kind == "match":
        return bool(set.intersection(*sets))
    return all(sets) and all(not one & other for one, other in itertools.combinations(sets, 2))


def used(instance: Instance, answer: Answer) -> dict[int, int] | None:
    """Uses of each device, held ones included; None if a device or a counter is overdrawn."""
    count = {held.device: 1 for held in instance.held}
    for _node, chosen in answer.values():
        for _request, _way, device in chosen:
            count[device] = count.get(device, 0) + 1
    left = [counter.capacity for counter in instance.counters]
    for number, times in count.items():
        given = instance.devices[number]
        # A portion is 2 of 5.
        if times > (2 if given.shareable else 1):
            return None
        for counter, amount in given.consumes:
            left[counter] -= amount
    return None if any(amount < 0 for amount in left) else count


def levels(instance: Instance, answer: Answer) -> list[float]:
    """The objective levels in their order; less is better."""
    count = used(instance, answer)
    assert count is not None
    before = {held.device for held in instance.held}
    placed = [unit for unit in instance.units if unit.claims[0] in answer]
    nodes = [node.name for node in instance.nodes]
    satisfied = [
        -sum(len(unit.claims) for unit in placed if unit.priority == priority)
        for priority in sorted({unit.priority for unit in instance.units}, reverse=True)
    ]
    ranks = {(c, one[0]): one[1] for c, (_node, chosen) in answer.items() for one in chosen}
    awake = {node for node, _chosen in answer.values()}
    milliwatts = sum(node.wake_milliwatts for node in instance.nodes if node.name in awake)
    milliwatts += sum(instance.devices[one].milliwatts for one in count if one not in before)
    names = sum(nodes.index(answer[unit.claims[0]][0]) for unit in placed)
    names += sum(one[2] + 1 for _node, chosen in answer.values() for one in chosen)
    return [
        *satisfied,
        sum(ranks.values()),
        milliwatts / 1000,
        -_whole(instance, count),
        sum(_spread(instance, unit, answer) for unit in placed),
        names,
    ]


def _whole(instance: Instance, count: dict[int, int]) -> float:
    """Free devices, plus the largest available part of each set of counters."""
    total = 0.0
    for number, node in enumerate(instance.nodes):
        left = {2 * number: SLOTS, 2 * number + 1: MEMORY}
        partitions = [
            (index, dict(device.consumes))
            for index, device in enumerate(instance.devices)
            if device.pool == node.name and device.consumes
        ]
        for index, amounts in partitions:
            if index in count:
                left = {counter: left[counter] - amounts[counter] for counter in left}
        total += max(
            (
                (1000 * slots // SLOTS + 1000 * memory // MEMORY) // 2 / 1000
                for index, amounts in partitions
                for slots, memory in [tuple(amounts.values())]
                if index not in count and all(left[one] >= amounts[one] for one in left)
            ),
            default=0,
        )
    return total + sum(
        1
        for index, device in enumerate(instance.devices)
        if not device.consumes and index not in count
    )


def _spread(instance: Instance, unit: Unit, answer: Answer) -> int:
    sets = [
        _numa(instance.devices[device])
        for claim in unit.claims
        for _request, _way, device in answer[claim][1]
    ]
    known = [values for values in sets if values]
    if not known:
        return 0
    return 0 if set.intersection(*known) else 1


def answer_of(claims: t.Sequence[t.Any]) -> Answer:
    """An allocator's answer in the form of this file."""

    def triple(chosen: Pick) -> tuple[int, int, int]:
        return chosen.request, chosen.alternative, chosen.device

    return {
        number: (given.node, tuple(map(triple, given.chosen)))
        for number, given in enumerate(claims)
        if given is not None
    }
