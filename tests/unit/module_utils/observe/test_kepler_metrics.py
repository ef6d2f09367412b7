# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kepler's metrics as text: the parsed values, and no text does harm."""

from __future__ import annotations

import math
import typing as t

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import TargetFailure
from ansible_collections.wattwise.kube.plugins.module_utils.observe.metering import kepler
from ansible_collections.wattwise.kube.plugins.module_utils.observe.metering.kepler import (
    Amounts,
    PodName,
    of_text,
)
from support.examples import examples, generated
from support.kepler_exporter import RECORDED, Load, MeteredNode
from support.odd_values import TEXTS, bounded

POD = (
    'kepler_pod_cpu_watts{pod_id="u",pod_name="p",pod_namespace="n",state="running",zone="package"}'
)
NODE = 'kepler_node_cpu_watts{path="/0",zone="package"}'
NAME = PodName("u", "n", "p")
NODES = MeteredNode("n1", (Load("u1", "shop", "web", 3.0), Load("u2", "db", "pg", 1.0)))


def test_the_recorded_metrics_give_the_watts_of_package_and_memory_alone() -> None:
    found = of_text(RECORDED)
    assert found.node == {"package": 50.133, "dram": 8.02}
    assert found.pods == {PodName("u1", "shop", "web-1"): {"package": 15.04, "dram": 2.41}}
    expected = {"package": (50.0, 15.0), "dram": (8.0, 2.4)}
    for zone, (node, pod) in expected.items():
        assert found.node[zone] == pytest.approx(node, rel=0.005)
        assert found.pods[PodName("u1", "shop", "web-1")][zone] == pytest.approx(pod, rel=0.005)


def test_sockets_are_added_and_overlapping_zones_and_ended_pods_are_not() -> None:
    found = of_text(NODES.text())
    assert found.node == {"package": 100.0, "dram": 10.0}
    assert found.pods == {
        PodName("u1", "shop", "web"): {"package": 30.0, "dram": 3.0},
        PodName("u2", "db", "pg"): {"package": 10.0, "dram": 1.0},
    }


def test_older_names_give_joules_of_pods_without_their_idle_part() -> None:
    early, late = of_text(NODES.old_text(0.0)), of_text(NODES.old_text(10.0))
    assert early.are_joules
    assert early.pods.keys() == {PodName("", "shop", "web"), PodName("", "db", "pg")}
    web = PodName("", "shop", "web")
    assert late.pods[web]["package"] - early.pods[web]["package"] == pytest.approx(300.0)
    assert late.node["package"] - early.node["package"] == pytest.approx(1000.0)
    assert late.node.keys() == {"package", "dram"}


@pytest.mark.parametrize(
    ("line", "watts"),
    [
        (f"{POD} 1.5", 1.5),
        (f"{POD} 1.5e+01 1700000000000", 15.0),
        (f"{POD}\t 0", 0.0),
        (f"{POD} -0", 0.0),
        (POD.replace("{", " { ").replace(",", " , ").replace("}", " , }") + " 2", 2.0),
    ],
)
def test_what_the_format_allows_is_read(line: str, watts: float) -> None:
    assert of_text(f"{line}\n").pods == {NAME: {"package": watts}}
    assert math.copysign(1.0, of_text(line).pods[NAME]["package"]) == 1.0


def test_escaped_labels_are_the_texts_that_they_stand_for() -> None:
    line = POD.replace('"p"', r'"a\"b\\c\n}{,d"')
    assert [*of_text(f"{line} 1").pods] == [PodName("u", "n", 'a"b\\c\n}{,d')]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "<html>Kepler</html>",
        "go_goroutines 8\n",
        f"{POD} NaN",
        f"{POD} +Inf",
        f"{POD} -1",
        f"{POD} 1e999",
        f"{POD} 0x10",
        f"{POD} 1_000",
        f"{POD} ١",
        f"{POD} 1e9",
        f"{POD} 1 2 3",
        f"{POD}",
        f"{POD} 1\n{POD} 1",
        f"{POD} 1\n{POD.replace('{', '{' + 'x=' + chr(34) * 2 + ',')} 1",
        f"{POD.replace('pod_id', 'zone')} 1",
        POD[:-4],
        f"{POD.replace('p', chr(10))} 1",
        f"{NODE} 60000\n{NODE.replace('/0', '/1')} 60000",
    ],
)
def test_metrics_that_are_broken_impossible_or_twice_there_are_an_error(text: str) -> None:
    with pytest.raises(TargetFailure) as caught:
        of_text(text)
    assert caught.value.detail.isprintable()


def test_no_more_samples_are_kept_than_a_node_can_have(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kepler, "MAX_SAMPLES", 5)
    lines = [POD.replace('"u"', f'"u{number}"') + " 1" for number in range(6)]
    assert len(of_text("\n".join(lines[:5])).pods) == 5
    with pytest.raises(TargetFailure, match="more than 5 samples"):
        of_text("\n".join(lines))


@pytest.mark.parametrize(
    "text",
    [
        "kepler_pod_cpu_watts{" + 'a="' + "\\" * 4_000_000,
        "kepler_pod_cpu_watts{" + " " * 4_000_000,
        "kepler_pod_cpu_watts" + " " * 4_000_000 + "{",
        "kepler_pod_cpu_watts{" + ",".join(f'a{number}="{number}"' for number in range(300_000)),
        "kepler_pod_cpu_watts 1" + "1" * 4_000_000,
        "\n" * 8_000_000,
    ],
)
def test_long_texts_take_little_time(text: str) -> None:
    with bounded(), pytest.raises(TargetFailure):
        of_text(text)


# Texts close to the format, which get further into the parser than random ones.
_LINES = st.builds(
    lambda family, labels, value, end: f"{family}{labels}{value}{end}",
    st.sampled_from(
        [
            *("kepler_pod_cpu_watts", "kepler_node_cpu_watts"),
            *("kepler_node_dram_joules_total", "kepler_container_package_joules_total"),
        ]
    ),
    st.one_of(
        st.text(max_size=20),
        st.dictionaries(
            st.sampled_from(["zone", "state", "pod_id", "pod_name", "mode", "path"]),
            st.sampled_from(["package", "dram", "running", "dynamic", *TEXTS[:30]]),
        ).map(lambda labels: "{" + ",".join(f'{k}="{v}"' for k, v in labels.items()) + "}"),
    ),
    st.sampled_from([" ", "", "\t"]),
    st.one_of(st.text(max_size=10), st.floats().map(repr), st.sampled_from(TEXTS)),
)


@generated
@examples(400)
@given(st.one_of(st.text(), st.lists(_LINES, max_size=6).map("\n".join)))
def test_any_text_gives_finite_amounts_of_0_or_more_or_an_error(text: str) -> None:
    try:
        found: Amounts = of_text(text)
    except TargetFailure as failure:
        assert failure.reason in ("malformed", "no_sensor", "implausible")
        return
    amounts: list[t.Mapping[str, float]] = [found.node, *found.pods.values()]
    for zones in amounts:
        assert zones.keys() <= {"package", "dram"}
        assert all(math.isfinite(value) and value >= 0 for value in zones.values())
