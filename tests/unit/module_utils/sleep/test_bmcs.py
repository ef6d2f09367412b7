# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""BMCs of machines that sleep: identity, several machines behind one service, odd answers."""

from __future__ import annotations

import typing as t
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.wattwise.kube.plugins.module_utils.base.context import Context
from ansible_collections.wattwise.kube.plugins.module_utils.nodeconfig.targets import of_snapshot
from ansible_collections.wattwise.kube.plugins.module_utils.redfish import thermal
from ansible_collections.wattwise.kube.plugins.module_utils.sleep.cluster.bmcs import Bmcs, Power
from support.https_server import SHARED_CERTIFICATE, HttpsServer, Received, Reply
from support.redfish_trees import ROOT, collection
from support.scripted_api import Asked, ScriptedApi
from support.scripted_api import Reply as ApiReply
from support.snapshots import with_targets
from support.wao import node_config

Json = dict[str, t.Any]
READER, SWITCHER = (
    {"username": "reader", "password": "r"},
    {"username": "switcher", "password": "s"},
)
UUIDS = {
    "n1": "9a1c6f00-1234-4321-8888-000000000001",
    "n2": "9a1c6f00-1234-4321-8888-000000000002",
    "n3": "9a1c6f00-1234-4321-8888-000000000003",
}


class Enclosure:
    """One Redfish service with a system for each of the machines; ``posts`` are the resets."""

    def __init__(self, names: t.Sequence[str] = ("n1", "n2")) -> None:
        self.states = dict.fromkeys(names, "On")
        self.odd: dict[str, Json] = {}
        self.posts: list[str] = []

    def tree(self) -> Json:
        systems = [f"{ROOT}/Systems/{name}" for name in self.states]
        return {
            ROOT: {"Systems": {"@odata.id": f"{ROOT}/Systems"}},
            f"{ROOT}/Systems": collection(*systems),
        }

    def answer(self, received: Received) -> Reply | None:
        name = received.path.removeprefix(f"{ROOT}/Systems/").partition("/")[0]
        if name not in self.states:
            return None
        if received.method == "POST":
            self.posts.append(name)
            self.states[name] = "Off"
            return Reply(204)
        uri = f"{ROOT}/Systems/{name}"
        types = ["On", "ForceOff", "GracefulShutdown"]
        action = {
            "target": f"{uri}/Actions/ComputerSystem.Reset",
            "ResetType@Redfish.AllowableValues": types,
        }
        body: Json = {
            "@odata.id": uri,
            "@odata.type": "#ComputerSystem.v1_20_0.ComputerSystem",
            "UUID": UUIDS[name],
            "SerialNumber": f"S-{name}",
            "PowerState": self.states[name],
            "Actions": {"#ComputerSystem.Reset": action},
        }
        return Reply(body={**body, **self.odd.get(name, {})})


def bmcs(
    endpoints: dict[str, str], pin: str, uuids: dict[str, str] | None = None, api: str = ""
) -> Bmcs:
    """The BMCs of nodes by their endpoints; ``api`` is a cluster whose Metal3 manages them all."""
    configs = []
    for name, endpoint in endpoints.items():
        config = node_config(name, name)
        config["spec"]["metricsCollector"]["inletTemp"] = {"type": "Redfish", "endpoint": endpoint}
        configs.append(config)
    nodes = [
        {
            "metadata": {"name": name},
            "spec": {"providerID": f"metal3://metal3/{name}/m"} if api else {},
            "status": {"nodeInfo": {"systemUUID": (uuids or UUIDS).get(name, "")}},
        }
        for name in endpoints
    ]
    hosts = [{"metadata": {"namespace": "metal3", "name": name}} for name in endpoints if api]
    snapshot = with_targets({"nodes": nodes, "node_configs": configs, "bare_metal_hosts": hosts})
    options = thermal.SPEC.complete(
        {
            **({"host": api} if api else {}),
            "targets": [],
            "tls_fingerprint": [pin],
            "credentials": {"default": READER, "power": SWITCHER},
            "default_credential_namespaces": ["wao-system"],
        }
    )
    return Bmcs(snapshot, of_snapshot(snapshot), options, Context())


@pytest.mark.parametrize("has_path", [False, True])
def test_machines_behind_one_service_are_switched_by_their_own_systems(has_path: bool) -> None:
    enclosure = Enclosure()
    with HttpsServer(enclosure.tree(), answer=enclosure.answer) as server:
        of = {
            name: f"{server.endpoint}{ROOT}/Systems/{name}" if has_path else server.endpoint
            for name in ("n1", "n2")
        }
        found = bmcs(of, SHARED_CERTIFICATE.fingerprint)
        assert found.read(["n1", "n2"]) == {"n1": Power("On"), "n2": Power("On")}
        assert found.switch(["n2"], "off", Context()) == {}
        assert enclosure.posts == ["n2"]
        assert found.read(["n1", "n2"]) == {"n1": Power("On"), "n2": Power("Off")}


def test_a_path_of_another_machine_is_refused_before_the_first_request() -> None:
    enclosure = Enclosure()
    with HttpsServer(enclosure.tree(), answer=enclosure.answer) as server:
        of = {"n1": f"{server.endpoint}{ROOT}/Systems/n2", "n2": server.endpoint}
        found = bmcs(of, SHARED_CERTIFICATE.fingerprint)
        powers = found.read(["n1", "n2"])
        assert "so that nothing was sent" in powers["n1"].problem
        assert powers["n2"] == Power("On")
        assert "so that nothing was sent" in found.switch(["n1"], "off", Context())["n1"]
        assert enclosure.posts == []


def test_a_machine_that_the_service_does_not_have_is_told_to_name_its_system() -> None:
    enclosure = Enclosure()
    with HttpsServer(enclosure.tree(), answer=enclosure.answer) as server:
        found = bmcs({"n3": server.endpoint}, SHARED_CERTIFICATE.fingerprint)
        [power] = found.read(["n3"]).values()
        assert power.problem.startswith("0 of 2 computer systems at its address have the expected")
        assert "append the path" in power.problem
        assert "append the path" in found.switch(["n3"], "off", Context())["n3"]
        assert enclosure.posts == []


def test_a_node_without_a_uuid_gets_no_request() -> None:
    enclosure = Enclosure(["n1"])
    with HttpsServer(enclosure.tree(), answer=enclosure.answer) as server:
        found = bmcs({"n1": server.endpoint}, SHARED_CERTIFICATE.fingerprint, {"n2": "x"})
        assert "n1" in found
        assert "no systemUUID" in found.read(["n1"])["n1"].problem
        assert "no systemUUID" in found.switch(["n1"], "cycle", Context())["n1"]
        assert (enclosure.posts, server.requests) == ([], {})


class TestMetal3:
    """Machines that Metal3 switches; its BareMetalHosts have serial numbers, and no UUIDs."""

    def switched(self, serial: str, odd: Json | None = None) -> tuple[dict[str, str], list[Json]]:
        """The problems of a wake, and the patches of the BareMetalHost."""
        enclosure, patches = Enclosure(["n1"]), []
        enclosure.states["n1"] = "Off"
        enclosure.odd["n1"] = odd or {}
        host: Json = {
            "metadata": {"namespace": "metal3", "name": "n1", "resourceVersion": "5"},
            "spec": {"online": False},
            "status": {
                "poweredOn": False,
                "provisioning": {"state": "provisioned"},
                "hardware": {"systemVendor": {"serialNumber": serial}},
            },
        }
        kind = {"name": "baremetalhosts", "kind": "BareMetalHost", "namespaced": True}

        def script(asked: Asked) -> ApiReply:
            if asked.path == "/apis/metal3.io/v1alpha1":
                return ApiReply({"kind": "APIResourceList", "resources": [kind]})
            if asked.method == "PATCH":
                patches.append(asked.body["spec"])
                host["status"]["poweredOn"] = True
                host["spec"] = asked.body["spec"]
            return ApiReply(host)

        with (
            ScriptedApi(script) as api,
            HttpsServer(enclosure.tree(), answer=enclosure.answer) as server,
        ):
            of = {"n1": server.endpoint}
            found = bmcs(of, SHARED_CERTIFICATE.fingerprint, api=api.url)
            assert found.read(["n1"]) == {"n1": Power("Off")}
            problems = found.switch(["n1"], "on", Context())
        assert enclosure.posts == []
        return problems, patches

    def test_they_are_switched_by_their_own_field(self) -> None:
        assert self.switched("S-n1") == ({}, [{"online": True}])

    def test_a_host_of_another_machine_gets_no_request(self) -> None:
        problems, patches = self.switched("S-other")
        assert "so that nothing was sent" in problems["n1"]
        assert patches == []

    def test_a_machine_without_a_serial_number_gets_no_request(self) -> None:
        problems, patches = self.switched("S-n1", {"SerialNumber": None})
        assert problems["n1"].startswith("its BMC gives no serial number")
        assert patches == []


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=6,
)
_MEMBERS = ("@odata.id", "UUID", "PowerState", "SerialNumber", "Actions", "Links", "Members")


@pytest.fixture(scope="module")
def odd_and_good() -> Iterator[tuple[Enclosure, Bmcs]]:
    """A BMC that answers anything, and one that works, with both machines."""
    odd, good = Enclosure(["n1"]), Enclosure(["n2"])
    with (
        HttpsServer(odd.tree(), answer=odd.answer) as one,
        HttpsServer(good.tree(), answer=good.answer) as two,
    ):
        of = {"n1": one.endpoint, "n2": two.endpoint}
        yield odd, bmcs(of, SHARED_CERTIFICATE.fingerprint)


@settings(max_examples=15, deadline=None)
@given(answer=st.dictionaries(st.sampled_from(_MEMBERS), _JSON, max_size=3))
def test_odd_answers_concern_no_other_machine(
    odd_and_good: tuple[Enclosure, Bmcs], answer: dict[str, t.Any]
) -> None:
    odd, found = odd_and_good
    odd.odd["n1"], odd.states["n1"] = answer, "On"
    before = len(odd.posts)
    powers = found.read(["n1", "n2"])
    assert powers["n2"] == Power("On")
    states = ("On", "Off", "PoweringOn", "PoweringOff", "Paused", None)
    assert powers["n1"].state in states
    assert found.read_standby(["n1", "n2"]).keys() <= {"n1"}
    if answer.get("UUID", UUIDS["n1"]) != UUIDS["n1"]:
        assert "n1" in found.switch(["n1"], "off", Context())
        assert len(odd.posts) == before
