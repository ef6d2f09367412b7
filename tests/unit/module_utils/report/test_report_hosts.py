# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The part of the report about bare-metal hosts, from the assignment to the page."""

from __future__ import annotations

import dataclasses
import typing as t
from pathlib import Path

from ansible_collections.wattwise.kube.plugins.module_utils.base import documents
from ansible_collections.wattwise.kube.plugins.module_utils.hosts.deployment.status import (
    hosts_document,
)
from ansible_collections.wattwise.kube.plugins.module_utils.report.building import build_from
from ansible_collections.wattwise.kube.plugins.module_utils.report.page import page
from support.assignable_hosts import answer_of, host
from support.report_documents import Case, write

Json = dict[str, t.Any]

CASE = Case(nodes=4, pods=8)


def report(folder: Path, **changed: t.Any) -> Json:
    """The report of a fleet beside three hosts in two racks."""
    hosts = [
        host(1, rack="r2", can_sriov=True, has_qat=True, gpus=2),
        host(2, 8, None, rack="r10", can_sriov=None),
        host(3, operational_status="error", error_message="<b>no power</b>"),
    ]
    answer = answer_of({"master": {"cpu": 16}, "worker": {"cpu": 4}}, hosts)
    path = str(write(folder, CASE))
    body = {"time": "2026-01-01T00:00:00Z", **hosts_document(answer, "edge"), **changed}
    documents.write(f"{path}/hosts.json", "hosts", body)
    return build_from(path)


def test_hosts_are_listed_by_rack_with_role_capabilities_and_reason(tmp_path: Path) -> None:
    found = report(tmp_path)
    data = found["sections"]["hosts"]
    assert [rack["rack"] for rack in data["racks"]] == ["r2", "r10", "no rack"]
    [master], [worker], [failing] = [rack["hosts"] for rack in data["racks"]]
    assert (master["roles"], master["sriov"], master["qat"], master["gpus"]) == (
        ["master"],
        True,
        True,
        2,
    )
    # Nothing was reported about SR-IOV, which is different from no.
    assert (worker["roles"], worker["sriov"], worker["memory_mib"]) == (["worker"], None, None)
    assert failing["roles"] == [] and "no power" in failing["why"]
    text = page(found)
    assert "32 threads, 64 GiB, SR-IOV, QuickAssist, 2 GPUs" in text
    assert "Cluster edge has 1 master and 1 worker on 3 known hosts." in text
    assert "<b>no power" not in text


def test_without_hosts_the_report_is_what_it_was(tmp_path: Path) -> None:
    without = build_from(str(write(tmp_path / "without", CASE)))["sections"]
    sections = report(tmp_path / "with")["sections"]
    assert {name: data for name, data in sections.items() if name != "hosts"} == without


def test_a_master_that_works_is_one_host_with_both_roles() -> None:
    one = dataclasses.replace(host(1), name="node-1")
    [entry] = hosts_document(answer_of({"master": {}}, [one]), "edge")["hosts"]
    assert entry["roles"] == ["master", "worker"]
