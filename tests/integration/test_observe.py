# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The ``observe`` role and playbook on the whole lab: bad machines, gateways, secrets, second runs.

Its library parts are redfish_thermal_info, redfish_ml_model_info, differential_pressure_info and
fleet_reconciliation.
"""

from __future__ import annotations

import json
import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from ansible_collections.wattwise.kube.plugins.module_utils.kube.client import (
    MERGE_CONTENT_TYPE,
    Kube,
)
from lab import faults
from lab.inventory import CLUSTER, NAMESPACE
from lab.machines import build_machines
from lab.process import wait_until
from support.kepler_exporter import Load, MeteredNode, exporter
from support.lab import RunningLab
from support.playbook import PlaybookRun, run_playbook

Json = dict[str, t.Any]

DEAD, SLOW, NULL = (
    [f"{rack}-n{number:02d}" for number in range(1, 6)] for rack in ("r1", "r3", "r4")
)
TIMEOUT = 8
SLOW_SECONDS = 60


@pytest.fixture(scope="module")
def with_node_configs(
    whole_lab: RunningLab, tmp_path_factory: pytest.TempPathFactory
) -> RunningLab:
    """The lab with its NodeConfigs, after the removal of earlier tests' templates."""
    kube = Kube.connect({"kubeconfig": whole_lab.kubeconfig})
    wait_until(lambda: not foreign_templates(kube), 60.0, "the templates of other tests to go")
    tags = ("--tags", "crds,node_configs")
    folder = tmp_path_factory.mktemp("site")
    run = run_playbook("wattwise.kube.site", folder, *inventory(whole_lab), *tags)
    assert run.returncode == 0, run.output
    return whole_lab


def foreign_templates(kube: Kube) -> list[Json]:
    path = "/apis/wao.bitmedia.co.jp/v1beta1/nodeconfigtemplates"
    found = kube.list(path) if kube.find(path) else []
    return [item for item in found if item["metadata"]["namespace"] != NAMESPACE]


@pytest.fixture
def configured(with_node_configs: RunningLab) -> Iterator[RunningLab]:
    """The same lab with its clock stopped, and without faults afterwards."""
    settings = with_node_configs.settings
    faults.call(settings, "POST", "/clock", {"offset_seconds": 0, "frozen": True})
    yield with_node_configs
    faults.call(settings, "DELETE", "/faults")


def inventory(lab: RunningLab) -> tuple[str, str]:
    return ("-i", str(lab.state.inventory))


def observe(lab: RunningLab, folder: Path, *arguments: str, **options: t.Any) -> PlaybookRun:
    run_dir = ("-e", f"wattwise_run_dir={folder}")
    name = "wattwise.kube.observe"
    return run_playbook(name, folder, *inventory(lab), *run_dir, *arguments, **options)


def document(folder: Path, kind: str) -> Json:
    return t.cast("Json", json.loads((folder / CLUSTER / f"{kind}.json").read_text()))


def ready(kube: Kube) -> dict[str, tuple[str, str]]:
    """Node → status and reason of the condition Ready of its NodeConfig."""
    found = {}
    for config in kube.list("/apis/wao.bitmedia.co.jp/v1beta1/nodeconfigs"):
        [condition] = [item for item in config["status"]["conditions"] if item["type"] == "Ready"]
        found[config["spec"]["nodeName"]] = (condition["status"], condition["reason"])
    return found


def break_machines(lab: RunningLab) -> None:
    asked = [
        *({"kind": "dead-bmc", "node": node} for node in DEAD),
        *({"kind": "slow-bmc", "node": node, "seconds": SLOW_SECONDS} for node in SLOW),
        *({"kind": "null-reading", "node": node} for node in NULL),
    ]
    faults.call(lab.settings, "POST", "/faults", asked)


def test_bad_machines_are_named_and_all_others_read_as_they_are(
    configured: RunningLab, kube: Kube, tmp_path: Path
) -> None:
    break_machines(configured)
    faults.call(configured.settings, "DELETE", "/requests")
    run = observe(configured, tmp_path, "-e", f"observe_timeout={TIMEOUT}", as_json=True)
    assert run.returncode == 0, run.output
    readings = document(tmp_path, "readings")
    reasons = {error["name"]: error["reason"] for error in readings["errors"]}
    assert reasons == {
        **dict.fromkeys(DEAD, "unreachable"),
        **dict.fromkeys(SLOW, "timeout"),
        **dict.fromkeys(NULL, "no_sensor"),
    }
    truth = faults.call(configured.settings, "GET", "/truth")
    good = truth.keys() - reasons.keys()
    assert len(good) == len(truth) - 15 >= 35
    for node in good:
        reading = readings["readings"][node]
        assert reading["inlet_celsius"] == truth[node]["shown"]["inlet_celsius"], node
        assert reading["power_watts"] == truth[node]["shown"]["power_watts"], node
        assert reading["delta_p_pascal"] == pytest.approx(truth[node]["delta_p_pascal"], abs=0.01)
    for node in reasons:
        assert readings["readings"][node]["inlet_celsius"] is None
    conditions = ready(kube)
    assert {node for node in conditions if conditions[node][0] == "False"} == reasons.keys()
    assert conditions[DEAD[0]] == ("False", "Unreachable")
    # Each slow one was asked once and abandoned at its own timeout: after the missing temperature
    # it is not asked for the power, and no request to it is repeated.
    asked = faults.call(configured.settings, "GET", "/requests")["nodes"]
    assert {node: asked[node]["requests"] for node in SLOW} == dict.fromkeys(SLOW, 1)
    for error in readings["errors"]:
        if error["name"] in SLOW:
            assert f"within {TIMEOUT} s for the whole target" in error["detail"]


def test_a_second_run_asks_each_machine_twice_changes_nothing_and_writes_no_status(
    configured: RunningLab, kube: Kube, tmp_path: Path
) -> None:
    first = observe(configured, tmp_path, as_json=True)
    path = "/apis/wao.bitmedia.co.jp/v1beta1/nodeconfigs"
    before = [item["metadata"]["resourceVersion"] for item in kube.list(path)]
    faults.call(configured.settings, "DELETE", "/requests")
    second = observe(configured, tmp_path, as_json=True)
    assert first.returncode == second.returncode == 0
    assert second.stats()[CLUSTER]["changed"] == 0
    assert [item["metadata"]["resourceVersion"] for item in kube.list(path)] == before
    asked = faults.call(configured.settings, "GET", "/requests")["nodes"]
    rack_with_models = {node for node in asked if node.startswith("r1-")}
    # The sensors are known.
    steady = {node: asked[node]["requests"] for node in asked.keys() - rack_with_models}
    assert set(steady.values()) <= {1, 2}
    # A slow machine may still be busy with a request of an earlier test.
    assert {asked[node]["peak_in_flight"] for node in asked.keys() - set(SLOW)} == {1}


def test_pods_are_metered_beside_their_machines_and_a_silent_kepler_changes_nothing(
    configured: RunningLab, kube: Kube, tmp_path: Path
) -> None:
    pods, name = "/api/v1/namespaces/default/pods", "metered"
    container = {"name": "main", "image": "none"}
    spec = {"nodeName": "r2-n01", "containers": [container], "schedulerName": "nobody"}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
    load = Load(kube.request("POST", pods, pod)["metadata"]["uid"], "default", name, 3.0)
    variables = tmp_path / "variables.yml"
    try:
        with exporter(MeteredNode("r2-n01", (load,))) as kepler:
            targets = [
                {"name": "r2-n01", "endpoint": kepler.url},
                {"name": "r2-n02", "endpoint": "http://127.0.0.1:9"},
            ]
            given = {
                "observe_metering_source": "kepler",
                "observe_metering_targets": targets,
                "observe_metering_textfile": str(tmp_path / "metering.prom"),
            }
            variables.write_text(yaml.safe_dump(given))
            run = observe(configured, tmp_path, "-e", f"@{variables}", as_json=True)
    finally:
        kube.request("DELETE", f"{pods}/{name}", {"gracePeriodSeconds": 0})
    assert run.returncode == 0, run.output
    body, readings = document(tmp_path, "metering"), document(tmp_path, "readings")
    assert [(one["workload"], one["package_watts"], one["dram_watts"]) for one in body["pods"]] == [
        ("metered", 30.0, 3.0)
    ]
    assert [(error["name"], error["reason"]) for error in body["errors"]] == [
        ("r2-n02", "unreachable")
    ]
    measured = readings["readings"]["r2-n01"]["power_watts"]
    node = body["nodes"]["r2-n01"]
    assert (node["rapl_watts"], node["measured_watts"]) == (110.0, measured)
    assert node["difference_watts"] == pytest.approx(measured - 110.0)
    truth = faults.call(configured.settings, "GET", "/truth")["r2-n01"]["shown"]
    assert measured == truth["power_watts"]
    series = f'wattwise_namespace_metered_watts{{namespace="default",cluster="{CLUSTER}"}} 33'
    assert series in (tmp_path / "metering.prom").read_text()


def test_two_gateways_read_their_shares_and_a_dead_one_is_named(
    configured: RunningLab, tmp_path: Path
) -> None:
    gateways = {
        "gateway-1": {
            "ansible_connection": "local",
            "ansible_python_interpreter": "{{ ansible_playbook_python }}",
            "wattwise_gateway_selector": "topology.kubernetes.io/zone in (r1, r2)",
        },
        "gateway-2": {
            "ansible_host": "127.0.0.1",
            "ansible_port": 9,
            "ansible_ssh_common_args": "-o ConnectTimeout=2",
            "wattwise_gateway_selector": "topology.kubernetes.io/zone notin (r1, r2)",
        },
    }
    hosts = tmp_path / "gateways.yml"
    hosts.write_text(yaml.safe_dump({"bmc_gateways": {"hosts": gateways}}))
    arguments = ("-i", str(hosts), "-e", "observe_min_success=0.3", "-vvv")
    run = observe(configured, tmp_path, *arguments)
    assert run.returncode == 0, run.output
    kubeconfig = yaml.safe_load(configured.state.kubeconfig.read_text())
    assert kubeconfig["users"][0]["user"]["client-key-data"] not in run.output
    readings = document(tmp_path, "readings")
    read = {
        node
        for node, item in readings["readings"].items()
        if item["source"].get("inlet_celsius") == "read"
    }
    assert read == {node for node in readings["readings"] if node.startswith(("r1-", "r2-"))}
    missing = [error for error in readings["errors"] if error["name"] == "r3-n01"]
    assert [error["reason"] for error in missing] == ["unreachable"]
    assert missing[0]["detail"].startswith("The host that reads this node failed: ")


def test_a_refused_password_is_not_tried_again_until_its_secret_changes(
    configured: RunningLab, kube: Kube, tmp_path: Path
) -> None:
    """This also holds if an annotation of its NodeConfig is not a number."""
    plain, annotated = "r2-n01", "r2-n03"
    refused = [{"kind": "unauthorized", "node": node} for node in (plain, annotated)]
    faults.call(configured.settings, "POST", "/faults", refused)
    faults.call(configured.settings, "DELETE", "/requests")
    annotate(kube, annotated, "warm")
    try:
        run = observe(configured, tmp_path)
        assert "fallback-inlet-celsius]: 'warm' is not a number" in run.output
        assert node_config(kube, annotated)["status"]["authentication"]["failures"] == 1
        again = observe(configured, tmp_path)
    finally:
        annotate(kube, annotated, None)
    assert run.returncode == again.returncode == 0, run.output
    asked = faults.call(configured.settings, "GET", "/requests")["nodes"]
    assert [asked[node]["statuses"].get("401") for node in (plain, annotated)] == [1, 1]
    assert ready(kube)[plain] == ("False", "Unauthorized")
    assert not faults.call(configured.settings, "GET", "/accounts")[plain]["locked"]
    faults.call(configured.settings, "DELETE", "/faults")
    assert observe(configured, tmp_path).returncode == 0
    assert ready(kube)[plain][0] == "False"
    changed = {"metadata": {"annotations": {"example.org/rotated": "now"}}}
    secret = "/api/v1/namespaces/wao-system/secrets/bmc-r2"
    kube.request("PATCH", secret, changed, MERGE_CONTENT_TYPE)
    assert observe(configured, tmp_path).returncode == 0
    assert ready(kube)[plain] == ready(kube)[annotated] == ("True", "Read")


def annotate(kube: Kube, node: str, inlet: str | None) -> None:
    """The inlet temperature of an unreadable machine, or None without an annotation."""
    metadata = node_config(kube, node)["metadata"]
    path = f"/apis/wao.bitmedia.co.jp/v1beta1/namespaces/{metadata['namespace']}/nodeconfigs"
    body = {"metadata": {"annotations": {"wattwise.github.io/fallback-inlet-celsius": inlet}}}
    kube.request("PATCH", f"{path}/{metadata['name']}", body, MERGE_CONTENT_TYPE)


def test_a_refused_password_is_in_the_status_although_a_later_step_failed(
    configured: RunningLab, kube: Kube, tmp_path: Path
) -> None:
    node = "r2-n02"
    forget_refusals(kube, node)
    faults.call(configured.settings, "POST", "/faults", [{"kind": "unauthorized", "node": node}])
    run = play_role(configured, tmp_path, "-e", f"observe_textfile={tmp_path}/none/x.prom")
    assert run.returncode != 0
    assert "check that the folder exists" in run.output, run.output
    status = node_config(kube, node)["status"]
    assert status["authentication"]["failures"] == 1
    forget_refusals(kube, node)


def play_role(lab: RunningLab, folder: Path, *arguments: str) -> PlaybookRun:
    """The role in a user's own play."""
    connection = {"kubeconfig": "{{ wattwise_kubeconfig }}"}
    play = {
        "hosts": "clusters",
        "gather_facts": False,
        "module_defaults": {"group/wattwise.kube.wattwise": connection},
        "vars": {
            "ansible_connection": "local",
            "ansible_python_interpreter": "{{ ansible_playbook_python }}",
        },
        "roles": [{"role": "wattwise.kube.observe"}],
    }
    path = folder / "role.yml"
    path.write_text(yaml.safe_dump([play]))
    run_dir = ("-e", f"wattwise_run_dir={folder}")
    return run_playbook(str(path), folder, *inventory(lab), *run_dir, *arguments)


def node_config(kube: Kube, node: str) -> Json:
    configs = kube.list("/apis/wao.bitmedia.co.jp/v1beta1/nodeconfigs")
    return next(item for item in configs if item["spec"]["nodeName"] == node)


def forget_refusals(kube: Kube, node: str) -> None:
    metadata = node_config(kube, node)["metadata"]
    path = f"/apis/wao.bitmedia.co.jp/v1beta1/namespaces/{metadata['namespace']}/nodeconfigs"
    body = {"status": {"authentication": None}}
    kube.request("PATCH", f"{path}/{metadata['name']}/status", body, MERGE_CONTENT_TYPE)


def test_a_reading_younger_than_its_interval_is_not_read_again(
    configured: RunningLab, kube: Kube, tmp_path: Path
) -> None:
    node = "r2-n04"
    metadata = node_config(kube, node)["metadata"]
    path = f"/apis/wao.bitmedia.co.jp/v1beta1/namespaces/{metadata['namespace']}/nodeconfigs"

    def set_interval(interval: str) -> None:
        terms = {name: {"fetchInterval": interval} for name in ("inletTemp", "deltaP")}
        body = {"spec": {"metricsCollector": terms}}
        kube.request("PATCH", f"{path}/{metadata['name']}", body, MERGE_CONTENT_TYPE)

    def requests() -> int:
        asked = faults.call(configured.settings, "GET", "/requests")["nodes"]
        return int(asked.get(node, {}).get("requests", 0))

    set_interval("1h")
    try:
        assert observe(configured, tmp_path).returncode == 0
        first = document(tmp_path, "readings")["readings"][node]
        faults.call(configured.settings, "DELETE", "/requests")
        faults.call(configured.settings, "POST", "/faults", [{"kind": "dead-bmc", "node": node}])
        again = observe(configured, tmp_path, "-e", "observe_refresh=false")
        kept = document(tmp_path, "readings")
        asked = requests()
    finally:
        set_interval("15s")
    assert again.returncode == 0, again.output
    assert asked == 0
    reading = kept["readings"][node]
    assert set(reading["source"].values()) == {"kept"}
    assert reading["times"] == first["times"]
    assert reading["inlet_celsius"] == first["inlet_celsius"]
    assert not [error for error in kept["errors"] if error["name"] == node]


def test_no_password_is_in_any_output_document_or_status(
    configured: RunningLab, kube: Kube, tmp_path: Path
) -> None:
    default = {"default": {"username": "monitor", "password": "d3fault-pa55"}}
    variables = {
        "observe_credentials": default,
        "observe_default_credential_namespaces": ["wao-system", "tenant"],
        "observe_allow_plain_http": True,
    }
    given = tmp_path / "variables.json"
    given.write_text(json.dumps(variables))
    run = observe(configured, tmp_path, "-vvvv", "--diff", "-e", f"@{given}")
    assert run.returncode == 0
    assert "default_credential_namespaces" in run.output
    settings = configured.settings
    machines = build_machines(settings.nodes, settings.racks, settings.seed)
    stored = json.dumps(kube.list("/apis/wao.bitmedia.co.jp/v1beta1/nodeconfigs"))
    written = "".join(path.read_text() for path in (tmp_path / CLUSTER).iterdir())
    of_machines = {
        password
        for machine in machines
        for password in (machine.bmc_password, machine.power_password)
    }
    for password in {"d3fault-pa55", *of_machines}:
        assert password not in run.output
        assert password not in stored
        assert password not in written
