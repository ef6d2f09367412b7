# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Workloads that the library and the roles render, judged by an API server and Pod Security."""

from __future__ import annotations

import contextlib
import typing as t

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import ApiError
from ansible_collections.wattwise.kube.plugins.module_utils.kube.client import (
    MERGE_CONTENT_TYPE,
    Kube,
)
from scripts.manifests import rendered

Json = dict[str, t.Any]

# Each level permits more than the one before it.
LEVELS = ("restricted", "baseline", "privileged")
PLURALS = {"DaemonSet": "daemonsets", "Deployment": "deployments", "Job": "jobs"}


@pytest.fixture(scope="module")
def workloads() -> list[Json]:
    return rendered.workloads()


def dry_run(kube: Kube, path: str, body: Json) -> None:
    """Raises ApiError; an unknown field is an error too."""
    query = {"dryRun": "All", "fieldValidation": "Strict"}
    kube.request("POST", path, body, query=query)


def test_an_api_server_takes_every_workload(
    workloads: list[Json], kube: Kube, namespace: str
) -> None:
    for item in workloads:
        metadata = {**item["metadata"], "namespace": namespace}
        place = f"/apis/{item['apiVersion']}/namespaces/{namespace}/{PLURALS[item['kind']]}"
        dry_run(kube, place, {**item, "metadata": metadata})


def test_every_pod_needs_its_level_of_pod_security_and_no_more(
    workloads: list[Json], kube: Kube, namespace: str
) -> None:
    """The namespace enforces one level after the other."""
    place = f"/api/v1/namespaces/{namespace}"
    for number, enforced in enumerate(LEVELS):
        labels = {"pod-security.kubernetes.io/enforce": enforced}
        kube.request("PATCH", place, {"metadata": {"labels": labels}}, MERGE_CONTENT_TYPE)
        for item in workloads:
            is_taken = LEVELS.index(rendered.pod_security_level(item)) <= number
            refusal = pytest.raises(ApiError, match="violates PodSecurity")
            spec = {**item["spec"]["template"]["spec"], "serviceAccountName": "default"}
            pod = {"metadata": {"name": item["metadata"]["name"]}, "spec": spec}
            with contextlib.nullcontext() if is_taken else refusal:
                dry_run(kube, f"{place}/pods", pod)
