# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import typing as t

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import InvalidInput
from ansible_collections.wattwise.kube.plugins.module_utils.scheduling.anti_affinity import (
    RunningAntiAffinity,
)

Json = dict[str, t.Any]
LABELS = {
    "n1": {"kubernetes.io/hostname": "n1", "zone": "a"},
    "n2": {"kubernetes.io/hostname": "n2", "zone": "a"},
    "n3": {"kubernetes.io/hostname": "n3", "zone": "b"},
}
WEB = {"matchLabels": {"app": "web"}}


def running(term: Json, namespace: str = "shop", phase: str = "Running") -> Json:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    return {
        "metadata": {"name": "old", "namespace": namespace},
        "spec": {"nodeName": "n1", "affinity": {"podAntiAffinity": required}},
        "status": {"phase": phase},
    }


def closed(term: Json, namespace: str = "shop", app: str = "web", **old: str) -> set[str]:
    new = {"metadata": {"name": "new", "namespace": namespace, "labels": {"app": app}}}
    return set(RunningAntiAffinity([running(term, **old)], LABELS).nodes_closed_to(new))


def test_a_pod_that_is_not_wanted_is_kept_from_the_whole_domain() -> None:
    assert closed({"labelSelector": WEB, "topologyKey": "kubernetes.io/hostname"}) == {"n1"}
    assert closed({"labelSelector": WEB, "topologyKey": "zone"}) == {"n1", "n2"}


def test_others_are_not_kept_away() -> None:
    term = {"labelSelector": WEB, "topologyKey": "zone"}
    assert closed(term, app="db") == set()
    assert closed(term, namespace="other") == set()
    assert closed(term, phase="Succeeded") == set()
    assert closed({"topologyKey": "zone"}) == set()
    assert closed({"labelSelector": WEB, "topologyKey": "rack"}) == set()


def test_namespaces_widen_a_term() -> None:
    term = {"labelSelector": WEB, "topologyKey": "zone"}
    assert closed({**term, "namespaces": ["other"]}, namespace="other") == {"n1", "n2"}
    assert closed({**term, "namespaces": ["other"]}) == set()
    assert closed({**term, "namespaceSelector": {}}, namespace="any") == {"n1", "n2"}


def test_a_selector_that_is_none_is_named_with_its_pod() -> None:
    with pytest.raises(InvalidInput, match=r"labelSelector: 'app' is not"):
        closed({"labelSelector": {"app": "web"}, "topologyKey": "zone"})
