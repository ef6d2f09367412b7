# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The allow-list of pod fields, compared with the schema that the API server publishes."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.kube.client import Kube
from ansible_collections.wattwise.kube.plugins.module_utils.scheduling import pod_fields
from ansible_collections.wattwise.kube.plugins.module_utils.scheduling.pod_fields import Fields
from lab.releases import CURRENT

Json = dict[str, t.Any]

TABLES = {
    "PodSpec": pod_fields.POD,
    "Container": pod_fields.CONTAINER,
    "ContainerPort": pod_fields.PORT,
    "ContainerRestartRule": pod_fields.RESTART_RULE,
    "ResourceRequirements": pod_fields.RESOURCES,
    "Volume": pod_fields.VOLUME,
    "Affinity": pod_fields.AFFINITY,
    "NodeAffinity": pod_fields.NODE_AFFINITY,
    "PodAffinity": pod_fields.POD_AFFINITY,
    "PodAntiAffinity": pod_fields.POD_AFFINITY,
    "PodAffinityTerm": pod_fields.POD_AFFINITY_TERM,
    "WeightedPodAffinityTerm": pod_fields.WEIGHTED_POD_AFFINITY_TERM,
    "PreferredSchedulingTerm": pod_fields.PREFERRED_SCHEDULING_TERM,
    "TopologySpreadConstraint": pod_fields.TOPOLOGY_SPREAD,
    "Toleration": pod_fields.TOLERATION,
    "NodeSelectorTerm": pod_fields.NODE_SELECTOR_TERM,
    "NodeSelectorRequirement": pod_fields.NODE_SELECTOR_REQUIREMENT,
}


@pytest.fixture(scope="module")
def schemas(kubeconfig: str) -> Json:
    kube = Kube.connect({"kubeconfig": kubeconfig})
    return t.cast(Json, kube.request("GET", "/openapi/v3/api/v1")["components"]["schemas"])


@pytest.mark.parametrize("kind", TABLES)
def test_every_field_that_the_server_knows_stands_in_exactly_one_table(
    kind: str, schemas: Json, kube: Kube
) -> None:
    fields: Fields = TABLES[kind]
    listed = [*fields.read, *fields.harmless, *fields.refused]
    assert len(listed) == len(set(listed))
    served = set(schemas[f"io.k8s.api.core.v1.{kind}"]["properties"])
    assert served <= set(listed)
    version = kube.request("GET", "/version")
    if f"{version['major']}.{version['minor']}" == CURRENT.minor:
        assert served == set(listed)
