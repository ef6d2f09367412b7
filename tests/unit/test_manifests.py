# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The gate `manifests`: what it judges, and its exceptions. The gate itself runs the linters."""

from __future__ import annotations

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.base.units import parse_quantity
from scripts.manifests import rendered
from scripts.manifests.__main__ import Finding, complaints, files, overlays
from support.dockerfile import ROOT

FOUND = Finding("pod-probes", "Deployment/a/b", "no probe", "operator/config/overlays/x")
EXCEPTION = {"check": "pod-probes", "object": "Deployment/a/b", "reason": "It has no port."}


def test_every_overlay_and_every_document_with_manifests_is_judged() -> None:
    names = {path.name for path in overlays(ROOT)}
    assert names == {"default", "extender", "full", "minimal"}
    folders = {path.parent.relative_to(ROOT).as_posix() for path in files(ROOT)}
    assert folders == {"docs/rbac", "docs/examples/kubernetes"}


def test_a_finding_with_an_exception_is_accepted_wherever_the_object_is_found() -> None:
    assert complaints([FOUND, FOUND], [EXCEPTION]) == []


@pytest.mark.parametrize("field", ["check", "object"])
def test_an_exception_is_for_one_check_of_one_object(field: str) -> None:
    told = complaints([FOUND], [{**EXCEPTION, field: "another"}])
    assert [line for line in told if line.endswith("pod-probes: no probe")]
    assert [line for line in told if "another" in line and line.endswith("remove it")]


def test_an_exception_without_finding_is_told() -> None:
    [line] = complaints([], [EXCEPTION])
    assert "Deployment/a/b" in line and "pod-probes" in line


@pytest.mark.parametrize("reason", ["", " "])
def test_an_exception_without_reason_is_told(reason: str) -> None:
    [line] = complaints([FOUND], [{**EXCEPTION, "reason": reason}])
    assert "no reason" in line


def test_an_exception_given_twice_is_told() -> None:
    [line] = complaints([FOUND], [EXCEPTION, EXCEPTION])
    assert "twice" in line


def test_every_rendered_workload_limits_its_storage() -> None:
    """Volumes count among the limits of their pod, and the kubelet keeps 50 MiB of each log."""
    found = rendered.workloads()
    assert {each["kind"] for each in found} == set(rendered.KINDS)
    for item in found:
        pod, name = item["spec"]["template"]["spec"], item["metadata"]["name"]
        parts = [each["resources"] for each in pod["containers"]]
        limits = [parse_quantity(each["limits"]["ephemeral-storage"]) for each in parts]
        requests = [parse_quantity(each["requests"]["ephemeral-storage"]) for each in parts]
        assert all(0 < one <= other for one, other in zip(requests, limits, strict=True)), name
        volumes = [each["emptyDir"] for each in pod["volumes"] if "emptyDir" in each]
        assert all(parse_quantity(each["sizeLimit"]) <= sum(limits) for each in volumes), name
        assert sum(limits) >= len(limits) * parse_quantity("50Mi"), name
