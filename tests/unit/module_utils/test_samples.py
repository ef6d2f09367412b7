# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A run's samples of its nodes, and the bounded size of the record."""

from __future__ import annotations

import datetime
import random
import typing as t

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.inference.samples import (
    BINS,
    PER_BIN,
    NodeSamples,
    Sample,
    Samples,
    extended,
    observe,
    read,
)
from ansible_collections.wattwise.kube.plugins.module_utils.nodeconfig.readings import (
    Reading,
    readings_of,
)
from support.examples import each_seed
from support.odd_values import bounded, spoilt

Json = dict[str, t.Any]
NOON = datetime.datetime(2026, 1, 31, 12, tzinfo=datetime.UTC)
TIME = "2026-01-31T12:00:00Z"
DAY = 86_400.0
NODE: Json = {"metadata": {"name": "n1"}, "status": {"capacity": {"cpu": "64"}}}
METRICS: Json = {"metadata": {"name": "n1"}, "usage": {"cpu": "16"}, "timestamp": TIME}


def reading(**changes: t.Any) -> Json:
    sources = dict.fromkeys(("inlet_celsius", "delta_p_pascal", "power_watts"), "read")
    return {
        "inlet_celsius": 22.5,
        "delta_p_pascal": 7.0,
        "power_watts": 310.0,
        "time": TIME,
        "times": dict.fromkeys(sources, TIME),
        "source": sources,
        **changes,
    }


def running(
    cpu: str, phase: str = "Running", name: str = "a", created: str = "2026-01-31T11:58:59Z"
) -> Json:
    return {
        "metadata": {"namespace": "shop", "name": name, "creationTimestamp": created},
        "spec": {"nodeName": "n1", "containers": [{"resources": {"requests": {"cpu": cpu}}}]},
        "status": {"phase": phase},
    }


def with_condition(changed: str) -> Json:
    """A pod that was pending and was bound at this time."""
    pod = running("20")
    pod["status"]["conditions"] = [{"type": "PodScheduled", "lastTransitionTime": changed}]
    return pod


def observed(given: Json, **parts: t.Any) -> NodeSamples | None:
    snapshot = {"nodes": [NODE], "node_metrics": [METRICS], "pods": [running("20")], **parts}
    return observe(snapshot, {"n1": Reading.from_document(given)}).get("n1")


def test_a_sample_has_load_air_and_the_whole_machine_s_watts() -> None:
    expected = Sample(NOON.timestamp(), 16.0, 20.0, 22.5, 7.0, 310.0)
    assert observed(reading()) == NodeSamples(64.0, (expected,))


def test_without_metrics_the_load_is_that_of_the_requests() -> None:
    found = observed(reading(), node_metrics=[])
    assert found is not None
    assert (found.samples[0].metered_cores, found.samples[0].requested_cores) == (None, 20.0)


def test_air_that_was_not_read_is_not_recorded() -> None:
    sources = {"inlet_celsius": "last", "delta_p_pascal": "fallback", "power_watts": "read"}
    found = observed(reading(source=sources))
    assert found is not None
    assert found.samples[0][3:] == (None, None, 310.0)


@pytest.mark.parametrize("source", ["kept", "last", "fallback", None])
def test_watts_of_another_moment_are_no_sample(source: str | None) -> None:
    assert observed(reading(source={"power_watts": source})) is None


@pytest.mark.parametrize(
    ("given", "parts"),
    [
        (reading(power_watts=0.0), {}),
        (reading(power_watts=1e6), {}),
        (reading(), {"pods": [running("20", "Pending")]}),
        (reading(), {"pods": [running("twenty")]}),
        (reading(), {"pods": [running("20", created="2026-01-31T11:59:01Z")]}),
        (reading(), {"pods": [with_condition("2026-01-31T11:59:01Z")]}),
        (reading(), {"nodes": [{**NODE, "status": {}}]}),
        (reading(), {"nodes": []}),
    ],
)
def test_a_load_or_watts_that_are_not_known_are_no_sample(given: Json, parts: Json) -> None:
    assert observed(given, **parts) is None


def test_only_the_cpu_of_a_pod_has_to_be_readable() -> None:
    pod = running("20")
    pod["spec"]["containers"][0]["ports"] = [{"hostPort": "http"}]
    found = observed(reading(), pods=[pod])
    assert found is not None and found.samples[0].requested_cores == 20.0


def test_metrics_of_another_moment_do_not_count() -> None:
    old = {**METRICS, "timestamp": "2026-01-31T11:57:00Z"}
    found = observed(reading(), node_metrics=[old])
    assert found is not None and found.samples[0].metered_cores is None


def at(seconds: float, cores: float, watts: float = 300.0) -> Sample:
    return Sample(NOON.timestamp() + seconds, cores, 0.0, 22.0, 5.0, watts)


def grown(known: Samples, *samples: Sample, capacity: float = 64.0) -> Samples:
    one = {"n1": NodeSamples(capacity, samples)}
    now = NOON + datetime.timedelta(seconds=max(s.unix_seconds for s in samples) - NOON.timestamp())
    return extended(known, one, now, DAY)


def test_a_node_keeps_the_last_samples_of_each_twentieth_of_its_load() -> None:
    known = grown(Samples(), at(0, 60.0))
    source = random.Random(1)
    for run in range(1, 200):
        known = grown(known, at(60.0 * run, source.uniform(0, 10)))
    kept = known.nodes["n1"].samples
    assert kept[0] == at(0, 60.0)
    assert len(kept) <= 1 + 4 * PER_BIN
    newest = [sample for sample in kept if sample.unix_seconds > NOON.timestamp() + 60 * 190]
    assert len(newest) == 9


def test_the_document_of_a_node_has_a_largest_size() -> None:
    known = Samples()
    for run in range(BINS * PER_BIN * 2):
        known = grown(known, at(60.0 * run, 64.0 * (run % BINS + 0.5) / BINS))
    assert len(known.nodes["n1"].samples) == BINS * PER_BIN
    assert read(known.as_document()).nodes == known.nodes


def test_old_samples_go_and_so_does_a_node_that_is_not_seen_any_more() -> None:
    known = grown(Samples(), at(0, 10.0))
    later = extended(known, {}, NOON + datetime.timedelta(seconds=DAY - 1), DAY)
    assert later.nodes == known.nodes
    assert not extended(known, {}, NOON + datetime.timedelta(seconds=DAY + 1), DAY).nodes
    # A wrong clock leaves no entries for years.
    assert not extended(known, {}, NOON - datetime.timedelta(seconds=DAY), DAY).nodes


def test_another_capacity_is_another_machine() -> None:
    known = grown(grown(Samples(), at(0, 10.0)), at(60, 12.0), capacity=128.0)
    assert known.nodes["n1"] == NodeSamples(128.0, (at(60, 12.0),))


@each_seed(60)
def test_whatever_is_told_of_one_node_others_are_recorded_as_if_they_were_alone(seed: int) -> None:
    source = random.Random(seed)
    parts = [{**NODE, "metadata": {"name": "bad"}}, reading()]
    bad_node, bad_reading = (spoilt(source, part, keep=[("metadata",)]) for part in parts)
    bad_pod = spoilt(source, running("3", name="bad"), keep=[("spec", "nodeName")])
    if isinstance(bad_pod, dict) and isinstance(bad_pod.get("spec"), dict):
        bad_pod["spec"]["nodeName"] = "bad"
    snapshot = {
        "nodes": [bad_node, NODE],
        "node_metrics": [spoilt(source, {**METRICS, "metadata": {"name": "bad"}}), METRICS],
        "pods": [bad_pod, running("20")],
    }
    with bounded():
        found = observe(snapshot, readings_of({"readings": {"bad": bad_reading, "n1": reading()}}))
    assert found["n1"] == observed(reading())
    assert read(Samples(found).as_document()).nodes == found
