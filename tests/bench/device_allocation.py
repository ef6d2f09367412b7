# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rows about allocating devices to claims."""

from __future__ import annotations

import random
import typing as t

from bench.device_fleets import cut_gpus, shared_gpus
from bench.kit.rows import Bench, Json, Row, at_least, at_most, exactly, metric
from bench.kit.stage import MIB, Call, Stage
from support.device_objects import dra_class, dra_device, resource_claim, resource_slice
from support.device_objects import exactly as exactly_one
from support.hard_devices import impossible, pathologies, pod_with

ALLOCATE = "devices.allocation:allocate"
LIBRARIES = (
    "ortools.graph.python.min_cost_flow",
    "ortools.sat.python.cp_model",
    "cel_expr_python.cel",
)
DRIVER = "gpu.example.com"
GPU = dra_class("gpu", f"device.driver == '{DRIVER}'")
MODELS = "abcdefgh"
DEVICES_OF_A_NODE = 10


def claims_of_one_shape(stage: Stage) -> Row:
    return _many_claims(stage, shapes=1, least=5000)


def claims_of_many_shapes(stage: Stage) -> Row:
    return _many_claims(stage, shapes=100, least=2000)


def _many_claims(stage: Stage, shapes: int, least: float) -> Row:
    nodes = stage.size(500, 20)
    count = nodes * DEVICES_OF_A_NODE
    calls = [
        stage.call(
            ALLOCATE,
            {"objects": fleet(nodes, count, shapes, seed), "strategy": "optimal"},
            LIBRARIES,
        )
        for seed in stage.runs(3)
    ]
    kinds = "one shape" if shapes == 1 else f"{shapes} shapes"
    return Row(
        title=f"{count:,} one-device claims of {kinds} on {nodes:,} nodes",
        work="`devices.allocate()` from ResourceSlices and ResourceClaims to AllocationResults, "
        "with its imports done; every device of the fleet is needed.",
        command="devices.allocate(objects, strategy='optimal')",
        metrics=[
            metric(
                "claims in a second of processor time",
                "",
                [count / call.cpu_seconds for call in calls],
                at_least(least),
            ),
            metric("claims left", "", [_left(call) for call in calls], exactly(0)),
            metric("gap over all levels", "%", [_gap(call) for call in calls], at_most(0)),
            metric("memory, highest", "MiB", [call.peak_bytes / MIB for call in calls]),
        ],
        equal="each level is compared with its proven bound.",
        notes=[
            "kube-scheduler's own benchmark of this shape passes 70 pods a second, including the "
            "API server's part: the two figures are not comparable.",
        ],
    )


def claims_for_parts_of_gpus(stage: Stage) -> Row:
    return _mixed_claims(
        stage,
        cut_gpus,
        gpus="GPUs cut as MIG does",
        claims="for partitions of four sizes, two whole GPUs of one NUMA node, and the first of "
        "three sizes that is there",
    )


def claims_for_shares_of_gpus(stage: Stage) -> Row:
    return _mixed_claims(
        stage,
        shared_gpus,
        gpus="GPUs with shared memory",
        claims="for four portions of memory, a portion with a network card of its PCIe root, and "
        "more of a large GPU or less of a small one",
    )


def _mixed_claims(
    stage: Stage, fleet_of: t.Callable[[int, int, int], list[Json]], gpus: str, claims: str
) -> Row:
    nodes = stage.size(200, 4)
    calls = {
        kind: [
            stage.call(
                ALLOCATE,
                {"objects": fleet_of(nodes, nodes * of_a_node, seed), "strategy": "optimal"},
                LIBRARIES,
            )
            for seed in stage.runs(3)
        ]
        for kind, of_a_node in {"few": 10, "many": 25}.items()
    }
    rows = []
    for kind, of_kind in calls.items():
        count = len(of_kind[0].result["claims"])
        rows += [
            metric(
                "claims in a second of processor time",
                f"/s, {kind} claims",
                [count / call.cpu_seconds for call in of_kind],
            ),
            metric(f"claims left of {count:,}", "", [_left(call) for call in of_kind]),
            *(
                metric(
                    f"gap in {level}, {kind} claims", "%", [_gap(call, level) for call in of_kind]
                )
                for level in ("satisfied", "rank", "fragmentation", "closeness")
            ),
        ]
    every = [call for of_kind in calls.values() for call in of_kind]
    rows.append(metric("memory, highest", "MiB", [call.peak_bytes / MIB for call in every]))
    return Row(
        title=f"Mixed claims on {nodes:,} nodes with {gpus}",
        work=f"`devices.allocate()` with its imports done, for claims {claims}; few claims leave "
        "devices unused, many exceed the devices.",
        command="devices.allocate(objects, strategy='optimal')",
        metrics=rows,
        equal="each level is compared with its proven bound; the level of names has none.",
    )


def _left(call: Call) -> int:
    return sum(found is None for found in call.result["allocations"])


def _gap(call: Call, *levels: str) -> float:
    """The largest gap of these levels, or of all levels if none is named."""
    gaps: list[float] = [
        100 * abs(level["value"] - level["bound"]) / max(1.0, abs(level["bound"]))
        for level in call.result["objective"]
        if not levels or level["level"] in levels
    ]
    return max(gaps)


def fleet(nodes: int, claims: int, shapes: int, seed: int) -> list[Json]:
    """Slices of random devices, and claims that were each made for another device."""
    chance = random.Random(seed)
    devices = [
        [
            {"model": chance.choice(MODELS), "memory": chance.choice([16, 24, 40, 80])}
            for _device in range(DEVICES_OF_A_NODE)
        ]
        for _node in range(nodes)
    ]
    slices = [
        resource_slice(
            f"node-{node:04}",
            [dra_device(f"gpu-{n}", attributes=values) for n, values in enumerate(of_node)],
        )
        for node, of_node in enumerate(devices)
    ]
    wishes = [
        ("".join(sorted(chance.sample(MODELS, 3))), chance.choice([16, 24, 40, 80]))
        for _shape in range(shapes)
    ]
    everywhere = [values for of_node in devices for values in of_node]
    chance.shuffle(everywhere)
    requests = [
        _request(chance, values, wishes if shapes > 1 else []) for values in everywhere[:claims]
    ]
    names = (f"claim-{number:05}" for number in range(claims))
    return [GPU, *slices, *map(resource_claim, names, requests)]


def _request(chance: random.Random, values: Json, wishes: list[tuple[str, int]]) -> Json:
    """A request that the device satisfies, with one of the shapes or for any device."""
    own = f"device.attributes['{DRIVER}']"
    fitting = [
        f"'{models}'.contains({own}.model) && {own}.memory >= {memory}"
        for models, memory in wishes
        if values["model"] in models and values["memory"] >= memory
    ]
    return exactly_one("gpu", "gpu", *([chance.choice(fitting)] if fitting else []))


def one_device_too_few(stage: Stage) -> Row:
    size = stage.size(32, 4)
    claims = [resource_claim(f"claim-{n}", exactly_one("gpu", "gpu")) for n in range(size + 1)]
    plain = resource_slice("node", [dra_device(f"gpu-{n}") for n in range(size)])
    calls = {
        kind: [
            stage.call(ALLOCATE, {"objects": objects, "strategy": "optimal"}, LIBRARIES)
            for _run in stage.runs(3)
        ]
        for kind, objects in {
            "of one pod": [GPU, plain, pod_with(claims), *claims],
            "each alone": [GPU, plain, *claims],
        }.items()
    }
    conflicts = [
        sum(len(part["claims"]) for part in call.result["conflict"])
        for of_kind in calls.values()
        for call in of_kind
    ]
    return Row(
        title=f"{size + 1} claims for {size} devices",
        work="`devices.allocate()` with its imports done, up to a minimal conflict: the question "
        "for which Kubernetes' search takes exponential time (its issue 131730).",
        command="devices.allocate(objects, strategy='optimal')",
        metrics=[
            *(
                metric(
                    f"claims {kind}, processor time",
                    "s",
                    [call.cpu_seconds for call in of_kind],
                    at_most(0.5),
                )
                for kind, of_kind in calls.items()
            ),
            metric("claims in the conflict", "", conflicts, exactly(size + 1)),
        ],
    )


def _no_with_a_conflict(objects: list[Json]) -> Json:
    return {"objects": [GPU, *objects], "strategy": "optimal"}


def more_than_there_is(stage: Stage) -> Row:
    """One row for unsatisfiable requests of five kinds, each as a pod and as separate claims."""
    kinds = impossible(stage.size(32, 8))
    metrics = []
    for name, (slices, claims) in kinds.items():
        for how, pods in (("of one pod", [pod_with(claims)]), ("each alone", [])):
            calls = [
                stage.call(ALLOCATE, _no_with_a_conflict([*slices, *pods, *claims]), LIBRARIES)
                for _run in stage.runs(3)
            ]
            conflicts = [bool(call.result["conflict"]) for call in calls]
            metrics += [
                metric(f"{name}, {how}", "s", [call.cpu_seconds for call in calls], at_most(0.5)),
                metric(f"{name}, {how}: with a conflict", "", conflicts, exactly(1)),
            ]
    return Row(
        title="One claim more than devices, of five kinds",
        work="`devices.allocate()` with its imports done, up to a minimal conflict: one claim more "
        "than the 32 devices or partitions that claims can get.",
        command="devices.allocate(objects, strategy='optimal')",
        metrics=metrics,
    )


def known_pathologies(stage: Stage) -> Row:
    metrics = []
    for name, (objects, satisfied) in pathologies().items():
        calls = [
            stage.call(ALLOCATE, _no_with_a_conflict(objects), LIBRARIES) for _run in stage.runs(3)
        ]
        given = [sum(one is not None for one in call.result["allocations"]) for call in calls]
        metrics += [
            metric(name, "s", [call.cpu_seconds for call in calls]),
            metric(f"{name}: claims with devices", "", given, exactly(satisfied)),
        ]
    return Row(
        title="Tasks on which Kubernetes' search has gone wrong",
        work="`devices.allocate()` with its imports done, for the devices and claims of its issues "
        "and of its benchmark for backtracking.",
        command="devices.allocate(objects, strategy='optimal')",
        metrics=metrics,
    )


BENCHES = [
    Bench("devices-one-shape", claims_of_one_shape),
    Bench("devices-many-shapes", claims_of_many_shapes),
    Bench("devices-too-few", one_device_too_few),
    Bench("devices-impossible", more_than_there_is),
    Bench("devices-pathologies", known_pathologies),
    Bench("devices-cut-gpus", claims_for_parts_of_gpus),
    Bench("devices-shared-gpus", claims_for_shares_of_gpus),
]
