# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The CRDs of Provisioning on a real API server: upstream's samples, and refused objects."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import ApiError
from ansible_collections.wattwise.kube.plugins.module_utils.kube.apply.work import apply
from ansible_collections.wattwise.kube.plugins.module_utils.kube.client import Kube
from support.wao import DEFINITIONS

Json = dict[str, t.Any]

SAMPLES = sorted((Path(__file__).resolve().parents[1] / "conformance" / "bpa").glob("*.yaml"))


@pytest.fixture(scope="module")
def definition(kubeconfig: str) -> None:
    """The CRD, established."""
    files = [str(DEFINITIONS / "bpa.akraino.org_provisionings.yaml")]
    apply({"kubeconfig": kubeconfig, "src": files, "wait": True})


def create(kube: Kube, namespace: str, obj: Json) -> Json:
    path = f"/apis/bpa.akraino.org/v1alpha1/namespaces/{namespace}/provisionings"
    return kube.request("POST", path, obj, query={"fieldValidation": "Strict"})


@pytest.mark.usefixtures("definition")
def test_samples_are_stored_as_they_are_and_placeholders_are_refused(
    kube: Kube, namespace: str
) -> None:
    for path in SAMPLES:
        obj = yaml.safe_load(path.read_text("utf-8"))
        if "placeholders" in path.stem:
            with pytest.raises(ApiError, match="mac-address"):
                create(kube, namespace, obj)
        else:
            stored = create(kube, namespace, obj)["spec"]
            assert obj["spec"].items() <= stored.items(), path.name


@pytest.mark.usefixtures("definition")
@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ({"masters": [{"m": {"cpus": 1}}]}, "cpus"),
        ({"masters": [{"m": {"cpu": -1}}]}, "spec.masters"),
        ({"master": {}, "PodSubnet": "everywhere"}, "PodSubnet"),
        ({"master": {}, "ssh": {"password": "x"}}, "password"),
    ],
)
def test_what_no_provisioning_can_mean_is_refused(
    kube: Kube, namespace: str, spec: Json, told: str
) -> None:
    obj = {
        "apiVersion": "bpa.akraino.org/v1alpha1",
        "kind": "Provisioning",
        "metadata": {"name": "wrong"},
        "spec": spec,
    }
    with pytest.raises(ApiError, match=told):
        create(kube, namespace, obj)
