# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The BPA operator's own unit cases and samples, and its defects, which the collection avoids.

Source: akraino-edge-stack/icn, cmd/bpa-operator, v0.4.0 and the tree before e7e71a0.
"""

from __future__ import annotations

import re
import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.wattwise.kube.plugins.module_utils.base.context import Context
from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import InvalidInput
from ansible_collections.wattwise.kube.plugins.module_utils.hosts.outputs.cluster_objects import (
    installer_job,
)
from ansible_collections.wattwise.kube.plugins.module_utils.hosts.provisioning import read_request
from ansible_collections.wattwise.kube.plugins.module_utils.hosts.role_assignment import assign
from ansible_collections.wattwise.kube.plugins.module_utils.kube.crd_schema import CrdValidator
from support.assignable_hosts import Json, bare_metal_host

SAMPLES = Path(__file__).parent / "bpa"
DEFINITION = SAMPLES.parents[2] / "roles/crds/files/bpa.akraino.org_provisionings.yaml"
KNOWN, OTHER, UNKNOWN = "08:00:27:00:ab:2c", "08:00:27:00:ab:1c", "08:00:27:00:ab:3d"


def nic(name: str, mac: str, ip: str | None) -> Json:
    entry: Json = {"name": name, "mac": mac, "model": "0x8086 0x1572", "speedGbps": 0}
    return entry if ip is None else {**entry, "ip": ip}


FAKE = bare_metal_host(
    "fake-test-bmh",
    [nic("eth3", KNOWN, "192.168.50.63"), nic("eth4", OTHER, "192.168.60.73")],
    spec={"bootMACAddress": KNOWN},
)
SAMPLE_MACS = [f"c2:b4:57:49:47:f{n}" for n in range(3, 8)]
FLEET = [
    bare_metal_host(f"pod-{n}", [nic("eth0", mac, f"10.10.110.2{n}")])
    for n, mac in enumerate([*SAMPLE_MACS, "00:1e:67:f1:5b:91", "00:1e:67:fe:f4:1a"])
]


def sample(name: str) -> Json:
    loaded: Json = yaml.safe_load((SAMPLES / f"{name}.yaml").read_text("utf-8"))
    return loaded


def answer(request: Json, hosts: t.Sequence[Json] = FLEET, **options: t.Any) -> Json:
    return assign({"hosts": list(hosts), "request": request, **options})


def one_master(mac: str, name: str = "bpa-test-cr", cluster: str = "test-cluster") -> Json:
    return {
        "metadata": {"name": name, "namespace": "default", "labels": {"cluster": cluster}},
        "spec": {"masters": [{"test-master": {"mac-address": mac}}]},
    }


def roles(result: Json) -> list[tuple[str, str, str]]:
    return [(each["role"], each["label"], each["host"]) for each in result["assignments"]]


def test_case_1_the_master_is_found_and_its_job_is_named_after_the_cluster() -> None:
    request = one_master(KNOWN)
    result = answer(request, [FAKE])
    assert result["hosts_ini"] == (
        "[all]\ntest-master  ansible_ssh_host=192.168.50.63 ansible_ssh_port=22\n\n"
        + "\n".join(
            f"[{group}]\ntest-master\n"
            for group in (
                *("kube-master", "kube-node", "etcd", "ovn-central", "ovn-controller"),
                "virtlet",
            )
        )
        + "\n[k8s-cluster:children]\nkube-node\nkube-master\n"
    )
    assert result["config_map"] == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": "test-cluster-configmap",
            "namespace": "default",
            "labels": {"cluster": "test-cluster"},
        },
        "data": {"MASTER_test-master": "192.168.50.63", "WORKER_test-master": "192.168.50.63"},
    }
    job = installer_job(read_request(request["spec"]), "test-cluster", "default", "kud:1")
    assert job["metadata"]["name"] == "kud-test-cluster"
    assert job["metadata"]["labels"] == {"cluster": "test-cluster"}


def test_case_2_a_mac_address_of_no_host_is_told_in_the_words_of_the_original() -> None:
    with pytest.raises(InvalidInput, match=f"Host with MAC Address {UNKNOWN} not found"):
        answer(one_master(UNKNOWN, "bpa-test-2", "test-cluster-2"), [FAKE])


def test_deviation_case_3_the_address_is_that_of_the_host_and_not_of_a_lease() -> None:
    result = answer(one_master(OTHER, "bpa-test-3", "test-cluster-3"), [FAKE])
    assert result["assignments"][0]["ip"] == "192.168.60.73"


def test_case_4_a_host_without_address_is_told_in_the_words_of_the_original() -> None:
    host = bare_metal_host("bare", [nic("eth0", UNKNOWN, None)])
    with pytest.raises(InvalidInput, match=f"IP address not found for host with MAC .*{UNKNOWN}"):
        answer(one_master(UNKNOWN), [host])


@pytest.mark.parametrize("path", sorted(SAMPLES.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_sample_follows_the_definition_unless_it_has_placeholders(path: Path) -> None:
    validator = CrdValidator(yaml.safe_load(DEFINITION.read_text("utf-8")))
    assert validator.serves("bpa.akraino.org/v1alpha1", "Provisioning")
    assert bool(validator.problem(sample(path.stem))) == ("placeholders" in path.stem)


def test_the_sample_of_the_design_gets_one_master_and_all_others_as_workers() -> None:
    small = bare_metal_host(
        "small", [nic("eth0", UNKNOWN, "10.10.110.9")], hardware={"cpu": {"count": 12}}
    )
    result = answer(sample("design-sample"), [*FLEET, small])
    assert roles(result)[0] == ("master", "small", "small")
    assert [role for role, *_rest in roles(result)[1:]] == ["worker"] * len(FLEET)
    assert result["proven"] and not result["unassigned"]
    assert read_request(sample("design-sample")["spec"]).replicas == 2


def test_the_sample_of_a_virtlet_cluster() -> None:
    result = answer(sample("remote-vvm115"))
    assert [label for _role, label, _host in roles(result)] == [
        *("master-1", "master-2", "master-3", "worker-1", "worker-2")
    ]
    assert "ovn" not in result["hosts_ini"] and "root" not in result["hosts_ini"]
    networks = result["inventory"]["all"]["children"]["k8s_cluster"]["vars"]
    assert networks == {"kube_pods_subnet": "172.21.64.0/18"}
    assert result["config_map"]["metadata"]["name"] == "remote-vvm115-configmap"


@pytest.mark.parametrize("name", ["single-master", "worker-is-master"])
def test_a_single_master_is_also_a_worker(name: str) -> None:
    result = answer(sample(name))
    assert roles(result) == [("master", "master-1", "pod-0"), ("worker", "master-1", "pod-0")]


def test_a_worker_without_value_is_the_master_of_its_label() -> None:
    assert roles(answer(sample("worker-without-value"))) == [
        ("master", "master-1", "pod-0"),
        ("worker", "master-1", "pod-0"),
        ("worker", "worker-1", "pod-3"),
    ]


def test_two_masters_are_warned_about_and_only_one_runs_etcd() -> None:
    warnings: list[str] = []
    parameters = {"hosts": FLEET, "request": sample("two-masters")}
    result = assign(parameters, Context(warn=warnings.append))
    assert any("2 masters tolerate no more failures than 1" in each for each in warnings)
    children = result["inventory"]["all"]["children"]
    assert list(children["kube_control_plane"]["hosts"]) == ["master-1", "master-2"]
    assert list(children["etcd"]["hosts"]) == ["master-1"]


def test_placeholders_are_no_mac_addresses() -> None:
    with pytest.raises(InvalidInput, match="'<pn4-IF2-mac>' is not a MAC address"):
        answer(sample("cluster101-placeholders"))


def test_the_sample_of_two_machines() -> None:
    assert [host for _role, _label, host in roles(answer(sample("test-bmh")))] == ["pod-5", "pod-6"]


class TestDefectsOfTheOriginal:
    """Numbered as in docs/reference/compatibility.md."""

    def test_p1_a_mac_address_that_another_host_only_mentions_is_not_its(self) -> None:
        hostile = bare_metal_host(
            "mentions",
            [nic("eth0", UNKNOWN, "10.0.0.9")],
            metadata={"annotations": {"note": f"{KNOWN}"}},
        )
        result = answer(one_master(KNOWN), [hostile, FAKE])
        assert result["assignments"][0]["host"] == "fake-test-bmh"

    @pytest.mark.parametrize("mac", [KNOWN.upper(), KNOWN.replace(":", "-")])
    def test_p1_letters_and_separators_of_a_mac_address_do_not_count(self, mac: str) -> None:
        assert answer(one_master(mac), [FAKE])["assignments"][0]["mac"] == KNOWN

    def test_p2_a_worker_without_address_is_an_error(self) -> None:
        hosts = [*FLEET[:1], bare_metal_host("bare", [nic("eth0", UNKNOWN, None)])]
        spec = {
            "masters": [{"m": {"mac-address": SAMPLE_MACS[0]}}],
            "workers": [{"w": {"mac-address": UNKNOWN}}],
        }
        with pytest.raises(InvalidInput, match="IP address not found for host with MAC"):
            answer(spec, hosts)

    def test_p3_a_worker_of_a_virtlet_cluster_has_its_own_label(self) -> None:
        lines = answer(sample("remote-vvm115"))["hosts_ini"].splitlines()
        assert "worker-2  ansible_ssh_host=10.10.110.24 ansible_ssh_port=22" in lines
        assert len([line for line in lines if line.startswith("master-1 ")]) == 1

    def test_p4_a_label_within_another_is_a_label_of_its_own(self) -> None:
        spec = {
            "masters": [{"m": {"mac-address": SAMPLE_MACS[0]}}],
            "workers": [
                {"worker-10": {"mac-address": SAMPLE_MACS[1]}},
                {"worker-1": {"mac-address": SAMPLE_MACS[2]}},
            ],
        }
        assert [label for _r, label, _h in roles(answer(spec))] == ["m", "worker-10", "worker-1"]
        both = {
            "masters": [
                {"master-10": {"mac-address": SAMPLE_MACS[0]}},
                {"master-1": {"mac-address": SAMPLE_MACS[1]}},
            ]
        }
        ini = answer(both)["hosts_ini"]
        assert "[kube-node]\nmaster-10\nmaster-1\n" in ini

    @pytest.mark.parametrize("given", [None, {"mac-address": SAMPLE_MACS[1]}])
    def test_p5_a_worker_may_share_the_label_of_any_master(self, given: Json | None) -> None:
        spec = {
            "masters": [
                {"master-1": {"mac-address": SAMPLE_MACS[0]}},
                {"master-2": {"mac-address": SAMPLE_MACS[1]}},
            ],
            "workers": [{"master-2": given}],
        }
        result = answer(spec)
        assert roles(result)[2:] == [("worker", "master-2", "pod-1")]
        assert result["hosts_ini"].count("master-2  ansible_ssh_host") == 1

    def test_p6_equal_labels_and_mac_addresses_are_refused(self) -> None:
        first, second = ({"mac-address": mac} for mac in SAMPLE_MACS[:2])
        for masters, told in (
            ([{"m": first}, {"m": second}], "the label m is also that of"),
            ([{"m": first}, {"n": first}], "the MAC address .* is also that of"),
        ):
            with pytest.raises(InvalidInput, match=told):
                answer({"masters": masters})
        reserving = {
            "metadata": {"name": "other", "namespace": "default"},
            "status": {
                "assignments": [
                    {"role": "master", "label": "x", "host": "pod-0", "namespace": "metal3"}
                ]
            },
        }
        with pytest.raises(InvalidInput, match="is reserved by Provisioning default/other"):
            answer({"masters": [{"m": first}]}, provisionings=[reserving])

    def test_p7_an_answer_says_why_and_a_refusal_what_to_do(self) -> None:
        result = answer({"master": {"cpu": 64}}, on_error="report")
        assert result["outcome"] == "infeasible"
        assert result["shortages"][0]["failing"] == [
            {"requirement": "cpu >= 64", "hosts": 7, "unknown": 0}
        ]
        assert result["changes"] == ["lower cpu of spec.master to 32"]

    @pytest.mark.parametrize(
        "facts",
        [
            {"status": {"operationalStatus": "error", "errorMessage": "x"}},
            {"status": {"provisioning": {"state": "deprovisioning"}}},
            {"spec": {"consumerRef": {"kind": "Metal3Machine", "namespace": "a", "name": "b"}}},
        ],
    )
    def test_p8_a_host_in_no_state_to_be_taken_is_refused(self, facts: Json) -> None:
        host = bare_metal_host("h", [nic("eth0", KNOWN, "10.0.0.9")], **facts)
        with pytest.raises(InvalidInput, match="host metal3/h is"):
            answer(one_master(KNOWN), [host])

    def test_p8_resources_count(self) -> None:
        spec = {"masters": [{"m": {"mac-address": KNOWN, "cpu": 64}}]}
        with pytest.raises(InvalidInput, match="cpu: 32 hardware threads, 64 wanted"):
            answer(spec, [FAKE])

    def test_p9_no_password_and_host_keys_are_checked(self) -> None:
        result = answer(sample("remote-vvm115"), ssh={"known_hosts_file": "/etc/kud/known_hosts"})
        variables = result["inventory"]["all"]["vars"]
        assert variables["ansible_host_key_checking"] is True
        assert "StrictHostKeyChecking=yes" in variables["ansible_ssh_args"]
        assert not re.search(r"pass|StrictHostKeyChecking=no", str(result))
        job = installer_job(read_request({"master": {}}), "c", "n", "kud:1")
        pod = job["spec"]["template"]["spec"]
        assert not {"hostNetwork", "hostPID", "serviceAccountName"} & pod.keys()
        assert pod["automountServiceAccountToken"] is False
        assert "privileged" not in str(job) and "hostPath" not in str(job)

    def test_p10_plugins_are_the_third_argument_and_the_job_is_where_the_resource_is(self) -> None:
        request = read_request({"master": {}, "KUDPlugins": ["emco", "bpa"]})
        job = installer_job(request, "c", "edge", "kud:1")
        [container] = job["spec"]["template"]["spec"]["containers"]
        assert container["args"] == ["--cluster", "c", "--plugins", "emco", "bpa"]
        assert job["metadata"]["namespace"] == "edge"
