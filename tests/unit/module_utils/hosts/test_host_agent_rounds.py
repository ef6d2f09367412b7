# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Order in which a host agent reads BMCs; tests/integration/test_host_agents.py covers the rest."""

from __future__ import annotations

import threading
import typing as t

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.base.context import Context
from ansible_collections.wattwise.kube.plugins.module_utils.hosts import redfish_hardware
from ansible_collections.wattwise.kube.plugins.module_utils.hosts.agent.refreshing import (
    CONCURRENCY,
    Rounds,
)
from ansible_collections.wattwise.kube.plugins.module_utils.kube.client import Resource
from ansible_collections.wattwise.kube.plugins.module_utils.nodeconfig.poll import PollTarget
from support.assignable_hosts import bare_metal_host, mac_of

Json = dict[str, t.Any]

PROVISIONING = {"metadata": {"name": "edge", "namespace": "bpa"}, "spec": {"master": {"count": 1}}}
COUNT = 3 * CONCURRENCY


class Cluster:
    """One Provisioning, and hosts whose BMCs have an address and a Secret."""

    def resource(self, api_version: str, kind: str) -> Resource:
        return Resource(f"/apis/{api_version}", kind, True)

    def serves(self, _api_version: str, _kind: str) -> bool:
        return False

    def find(self, _path: str) -> Json:
        return PROVISIONING

    def list(self, *_how: t.Any, **_more: t.Any) -> list[Json]:
        return [machine(number) for number in range(COUNT)]

    def guarded(self, _guard: t.Any) -> Cluster:
        return self

    def in_parallel(self, work: t.Any, items: t.Sequence[t.Any], _most: int) -> t.Any:
        return [work(item) for item in items]


def machine(number: int) -> Json:
    found = bare_metal_host(f"n-{number:02}", [{"name": "eth0", "mac": mac_of(number)}])
    found["metadata"]["uid"] = f"u-{number}"
    found["spec"]["bmc"] = {"address": f"redfish://10.0.0.{number + 1}", "credentialsName": "bmc"}
    return found


def test_bmcs_that_did_not_answer_are_asked_together_after_all_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    silent = {f"metal3/n-{number:02}" for number in range(0, COUNT, CONCURRENCY)}
    asked: list[list[str]] = []

    def read(targets: t.Sequence[PollTarget], *_how: t.Any) -> Json:
        names = [each.name for each in targets]
        asked.append(names)
        errors = [{"name": name, "detail": "no answer"} for name in names if name in silent]
        return {"authentication": [], "errors": errors, "hardware": []}

    monkeypatch.setattr(redfish_hardware, "read", read)
    said: list[str] = []
    kube = t.cast("t.Any", Cluster())
    rounds = Rounds(kube, ("bpa", "edge"), [], Context(), said.append, 1.0)
    for _round in range(2):
        rounds.run(lambda: 15.0, threading.Event())
    first, second = asked[:3], asked[3:]
    assert [len(silent.intersection(chunk)) for chunk in first] == [1, 1, 1]
    assert [len(silent.intersection(chunk)) for chunk in second] == [0, 0, 3]
    # The second round reports nothing new.
    assert len(said) == len(silent)
