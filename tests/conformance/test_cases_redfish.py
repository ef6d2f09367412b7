# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Redfish trees of public bug reports, served over HTTPS and read as a user would."""

from __future__ import annotations

import json
import re
import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.wattwise.kube.plugins.module_utils.hosts.redfish_hardware import SPEC
from ansible_collections.wattwise.kube.plugins.module_utils.hosts.redfish_hardware import (
    read as read_hardware,
)
from ansible_collections.wattwise.kube.plugins.module_utils.nodeconfig.bare_metal import (
    redfish_endpoint,
)
from ansible_collections.wattwise.kube.plugins.module_utils.nodeconfig.poll import PollTarget
from ansible_collections.wattwise.kube.plugins.module_utils.published.curves import (
    Published,
    System,
    match,
)
from ansible_collections.wattwise.kube.plugins.module_utils.redfish.power_control.info import (
    read_power,
)
from ansible_collections.wattwise.kube.plugins.module_utils.redfish.power_control.limiting import (
    limit_power,
)
from ansible_collections.wattwise.kube.plugins.module_utils.redfish.power_control.switching import (
    switch_power,
)
from ansible_collections.wattwise.kube.plugins.module_utils.redfish.thermal import read_thermal
from support.https_server import SHARED_CERTIFICATE, Document, HttpsServer

CASES = Path(__file__).resolve().parent / "cases"
PINNED = {"tls_fingerprint": [SHARED_CERTIFICATE.fingerprint]}
ACCOUNT = {"username": "monitor", "password": "secret"}
# Expected match and measured processors (a regular expression) of each server of case 22.
PROCESSORS = [
    ("processor", "intel_xeon_e5_2670"),
    ("processor", "intel_xeon_e5_2650l"),
    *[("series|generation", r"amd_epyc_7\d\d2p?")] * 3,
    ("model", r"intel_xeon_(gold|silver|platinum)_\d[12]\d\d\w*"),
    ("model", r"intel_xeon_e5_\d{4}l?(v2)?"),
]


def case(*parts: str) -> dict[str, Document]:
    tree = json.loads(CASES.joinpath(*parts).read_text())
    return {path.rstrip("/"): body for path, body in tree.items()}


def read(server: HttpsServer, **target: t.Any) -> dict[str, t.Any]:
    one = {"name": "node-1", "endpoint": server.endpoint, **ACCOUNT, **target}
    return read_thermal({"targets": [one], **PINNED})


@pytest.mark.parametrize(
    ("folder", "file", "watts"),
    [
        ("01-irmc-oem-power", "tree.json", 162),
        ("02-huawei-inspur-oem-power", "huawei.json", 239),
        ("02-huawei-inspur-oem-power", "inspur.json", 307),
        ("04-subsystem-named-controls", "tree.json", 276),
    ],
)
def test_the_watts_are_those_of_the_whole_server(folder: str, file: str, watts: float) -> None:
    with HttpsServer(case(folder, file)) as server:
        first = read(server)
        server.forget()
        later = read(server, sensors=first["sensors"][0])
        assert server.total == 2
    for result in (first, later):
        [reading] = result["readings"]
        assert (reading["power_watts"], reading["inlet_celsius"]) == (watts, 23)
        assert result["errors"] == []


@pytest.mark.parametrize(
    "path", ["", "/redfish/", "/redfish/v1", "/redfish/v1/?x=1#y", "/redfish/v1/Systems/"]
)
@pytest.mark.parametrize("kind", ["redfish", "idrac-virtualmedia", "redfish-uefihttp+https"])
def test_an_address_of_the_service_root_means_the_only_system(kind: str, path: str) -> None:
    with HttpsServer(case("14-bmc-address-of-service-root", "tree.json")) as server:
        found = redfish_endpoint(f"{kind}://127.0.0.1:{server.port}{path}")
        assert found == (server.endpoint, "")
        target = PollTarget("host", found[0], "Redfish", "test", extra={"system": found[1]})
        result = read_hardware([target], SPEC.complete({"targets": [], **PINNED}))
        reading = read(server, endpoint=found[0])["readings"][0]
    [hardware] = result["hardware"]
    assert (hardware["system_uri"], hardware["product"]) == ("/redfish/v1/Systems/0", "R720")
    assert hardware["memory_mib"] == 65536
    # The supplies of this machine state their rated input, 900 W each.
    assert (reading["power_watts"], reading["inlet_celsius"]) == (133, 23)


@pytest.mark.parametrize("elsewhere", ["https://192.0.2.7", "https://ilo.example", "", "//[::1]:1"])
def test_a_bmc_that_redirects_to_its_own_address_is_read_where_it_is(elsewhere: str) -> None:
    documents = case("18-ilo4-redirect-to-own-address", "tree.json")
    with HttpsServer(documents, own_address=elsewhere) as server:
        first = read(server)
        server.forget()
        later = read(server, sensors=first["sensors"][0])
        # The links of the BMC end in a slash, so that no later read is redirected.
        assert dict(server.requests) == {
            "/redfish/v1/Chassis/1/Thermal/": 1,
            "/redfish/v1/Chassis/1/Power/": 1,
        }
    for result in (first, later):
        [reading] = result["readings"]
        assert (reading["inlet_celsius"], reading["power_watts"]) == (21, 93)
        assert result["errors"] == []


def test_a_redirect_to_another_machine_sends_nothing_there() -> None:
    documents = case("18-ilo4-redirect-to-own-address", "tree.json")
    with HttpsServer(documents) as stranger:
        with HttpsServer(documents, own_address=stranger.endpoint) as server:
            assert read(server)["readings"][0]["power_watts"] == 93
        assert stranger.total == 0


@pytest.mark.parametrize(
    ("server", "expected"),
    list(
        zip(
            yaml.safe_load((CASES / "22-processor-names" / "processors.yaml").read_text()),
            PROCESSORS,
            strict=True,
        )
    ),
)
def test_names_of_processors_and_servers(
    server: dict[str, t.Any], expected: tuple[str, str]
) -> None:
    found = match(System(**server), 2.0 * server["cores"])
    assert isinstance(found, Published)
    assert re.fullmatch(expected[0], found.match)
    assert all(re.fullmatch(expected[1], row.processor) for row in found.rows), found.rows


@pytest.mark.parametrize(
    ("folder", "file"),
    [
        ("01-irmc-oem-power", "tree.json"),
        ("02-huawei-inspur-oem-power", "huawei.json"),
        ("02-huawei-inspur-oem-power", "inspur.json"),
        ("04-subsystem-named-controls", "tree.json"),
        ("14-bmc-address-of-service-root", "tree.json"),
        ("18-ilo4-redirect-to-own-address", "tree.json"),
    ],
)
def test_a_machine_without_a_reset_is_read_and_not_switched(folder: str, file: str) -> None:
    with HttpsServer(case(folder, file), own_address="https://10.0.0.1") as server:
        target = {"name": "node-1", "endpoint": f"{server.endpoint}/redfish/v1", **ACCOUNT}
        [state] = read_power({"targets": [target], **PINNED})["states"]
        assert (state["power_state"], state["reset_types"]) == ("On", None)
        server.forget()
        target["system"] = state["system"]
        result = switch_power({"targets": [target], "state": "off", **PINNED})
        assert not server.seen.contents
    [error] = result["errors"]
    assert (error["reason"], "offers no Reset action" in error["detail"]) == ("refused", True)


def test_a_limit_of_the_processors_is_not_the_servers() -> None:
    tree = case("04-subsystem-named-controls", "tree.json")
    power = t.cast("dict[str, t.Any]", tree["/redfish/v1/Chassis/1/Power"])
    for entry in power["PowerControl"][1:]:
        entry["PowerLimit"] = {"LimitInWatts": 100}
    with HttpsServer(tree) as server:
        target = {"name": "node-1", "endpoint": server.endpoint, **ACCOUNT}
        result = limit_power({"targets": [target], "limit_watts": 90, **PINNED})
        assert not server.seen.contents
    assert result["errors"][0]["reason"] == "not_found"
