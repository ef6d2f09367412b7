# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A BareMetalHost whose API server fails in the middle of a switch, and names of BareMetalHosts."""

from __future__ import annotations

import asyncio
import typing as t

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import (
    InvalidInput,
    TargetFailure,
)
from ansible_collections.wattwise.kube.plugins.module_utils.kube.client import Kube
from ansible_collections.wattwise.kube.plugins.module_utils.redfish.power_control.metal3 import (
    HostHand,
    host_name,
)
from ansible_collections.wattwise.kube.plugins.module_utils.redfish.power_control.system import (
    ExpectedMachine,
)
from support.bare_metal import bare_metal_host
from support.scripted_api import Asked, Reply, ScriptedApi, status_reply

KINDS = Reply(
    {"resources": [{"name": "baremetalhosts", "kind": "BareMetalHost", "namespaced": True}]}
)


def looks(*answers: Reply) -> list[str | None]:
    """The power states of one look after the other."""
    left = list(answers)

    def answer(asked: Asked) -> Reply:
        return left.pop(0) if "/namespaces/metal3/baremetalhosts/" in asked.path else KINDS

    async def look(hand: HostHand) -> list[str | None]:
        return [(await hand.look()).power_state for _answer in answers]

    with ScriptedApi(answer) as api:
        kube = Kube.connect({"host": api.url}).unrepeating()
        hand = HostHand(kube, ("metal3", "host-1"), "off", ExpectedMachine())
        return asyncio.run(look(hand))


def host(online: bool, powered: bool | None) -> Reply:
    status = {} if powered is None else {"poweredOn": powered}
    found = bare_metal_host(spec={"online": online}, status=status)
    if powered is None:
        del found["status"]["poweredOn"]
    return Reply(found)


def test_the_field_and_the_power_tell_the_state() -> None:
    states = looks(host(True, True), host(False, True), host(False, False), host(True, False))
    assert states == ["On", "PoweringOff", "Off", "PoweringOn"]
    assert looks(host(True, None)) == [None]


def test_a_failure_after_the_first_look_is_an_unknown_state() -> None:
    failure = status_reply(500, "etcd is away")
    assert looks(host(True, True), failure, host(True, True)) == ["On", None, "On"]
    with pytest.raises(TargetFailure, match="etcd is away"):
        looks(failure)


def test_a_host_that_is_paused_meanwhile_is_left_alone() -> None:
    paused = bare_metal_host(annotations={"baremetalhost.metal3.io/paused": ""})
    with pytest.raises(TargetFailure, match="is paused meanwhile"):
        looks(Reply(paused))


@pytest.mark.parametrize("given", ["", "host-1", "metal3/", "/host-1", "a/b/c", "../x", "A/b"])
def test_a_name_that_leads_elsewhere_is_refused(given: t.Any) -> None:
    with pytest.raises(InvalidInput, match="bare_metal_host"):
        host_name(given)
