# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The CRDs of RMD's resources on a real API server: accepted, refused and shown fields."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import yaml

from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import ApiError
from ansible_collections.wattwise.kube.plugins.module_utils.base.json_types import MutableObject
from ansible_collections.wattwise.kube.plugins.module_utils.kube.apply.work import apply
from ansible_collections.wattwise.kube.plugins.module_utils.kube.client import Kube
from support.kubectl_table import row

ROOT = Path(__file__).resolve().parents[2]
SAMPLES = sorted((ROOT / "tests" / "conformance" / "rmd").glob("*.yaml"))
PLURALS = {
    "RmdWorkload": "rmdworkloads",
    "RmdNodeState": "rmdnodestates",
    "RmdConfig": "rmdconfigs",
}


@pytest.fixture(scope="module")
def definitions(kubeconfig: str) -> None:
    """The CRDs, established; they belong to the whole lab and stay."""
    folder = ROOT / "roles" / "crds" / "files"
    files = [str(path) for path in sorted(folder.glob("intel.com_*.yaml"))]
    apply({"kubeconfig": kubeconfig, "src": files, "wait": True})


def sample(path: Path, namespace: str) -> MutableObject:
    loaded: MutableObject = yaml.safe_load(path.read_text(encoding="utf-8"))
    loaded["metadata"]["namespace"] = namespace
    return loaded


def create(kube: Kube, obj: MutableObject) -> MutableObject:
    """Create like kubectl, with strict field validation."""
    namespace, plural = obj["metadata"]["namespace"], PLURALS[obj["kind"]]
    path = f"/apis/{obj['apiVersion']}/namespaces/{namespace}/{plural}"
    return kube.request("POST", path, obj, query={"fieldValidation": "Strict"})


@pytest.mark.usefixtures("definitions")
@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_every_sample_manifest_is_accepted_as_it_is(kube: Kube, namespace: str, path: Path) -> None:
    obj = sample(path, namespace)
    assert create(kube, copy.deepcopy(obj))["spec"] == obj["spec"]


CACHE = {"max": 2, "min": 2}
REFUSED: dict[str, tuple[MutableObject, str]] = {
    "more than none, but at least none": (
        {"coreIds": ["0"], "cache": {"max": 2, "min": 0}},
        "cache.min must equal cache.max",
    ),
    "less than the least": (
        {"coreIds": ["0"], "cache": {"max": 1, "min": 2}},
        "cache.min must equal cache.max",
    ),
    "the same of v0.3": (
        {"coreIds": ["0"], "rdt": {"cache": {"max": 2, "min": 0}}},
        "rdt.cache.min must equal rdt.cache.max",
    ),
    "half a cache": ({"coreIds": ["0"], "cache": {"max": 2}}, "give both max and min"),
    "a negative number": ({"coreIds": ["0"], "cache": {"max": -1, "min": -1}}, "spec.cache.max"),
    "cache in both shapes": (
        {"coreIds": ["0"], "cache": CACHE, "rdt": {"cache": CACHE}},
        "give either cache or rdt.cache",
    ),
    "no CPU": ({"coreIds": [], "cache": CACHE}, "give coreIds, or set allCores"),
    "CPUs left out of nothing": (
        {"coreIds": ["0"], "reservedCoreIds": ["1"], "cache": CACHE},
        "reservedCoreIds are taken from allCores",
    ),
    "a word for a CPU": ({"coreIds": ["abc"], "cache": CACHE}, "spec.coreIds[0]"),
    "nothing asked for": ({"coreIds": ["0"]}, "ask for something"),
    "nothing but empty strings": (
        {"coreIds": ["0"], "policy": "", "pstate": {"ratio": "", "monitoring": ""}},
        "ask for something",
    ),
    "a ratio of 0": (
        {"coreIds": ["0"], "cache": CACHE, "pstate": {"ratio": "0"}},
        "ratio must be more than 0",
    ),
    "a negative ratio": (
        {"coreIds": ["0"], "cache": CACHE, "pstate": {"ratio": "-1.5"}},
        "spec.pstate.ratio",
    ),
    "a ratio that is not a number": (
        {"coreIds": ["0"], "cache": CACHE, "plugins": {"pstate": {"ratio": "fast"}}},
        "spec.plugins.pstate.ratio",
    ),
    "monitoring of nothing": (
        {"coreIds": ["0"], "cache": CACHE, "pstate": {"monitoring": "on"}},
        "monitoring needs a ratio",
    ),
    "101 percent": (
        {"coreIds": ["0"], "rdt": {"cache": CACHE, "mba": {"percentage": 101}}},
        "spec.rdt.mba.percentage",
    ),
    "bandwidth in two units": (
        {"coreIds": ["0"], "rdt": {"cache": CACHE, "mba": {"percentage": 50, "mbps": 50}}},
        "give percentage or mbps, not both",
    ),
    "bandwidth with best effort": (
        {"coreIds": ["0"], "rdt": {"cache": {"max": 2, "min": 1}, "mba": {"percentage": 50}}},
        "rdt.mba goes with guaranteed ways only",
    ),
    "bandwidth with the shared ways of v0.1.1": (
        {"coreIds": ["0"], "cache": {"max": 0, "min": 0}, "rdt": {"mba": {"percentage": 50}}},
        "rdt.mba goes with guaranteed ways only",
    ),
    "a misspelled field": ({"coreIds": ["0"], "cahce": CACHE}, "cahce"),
}


@pytest.mark.usefixtures("definitions")
@pytest.mark.parametrize("case", REFUSED)
def test_what_a_daemon_would_refuse_never_reaches_it(kube: Kube, namespace: str, case: str) -> None:
    spec, words = REFUSED[case]
    obj = sample(SAMPLES[0], namespace)
    obj.update(kind="RmdWorkload", metadata={"name": "refused", "namespace": namespace}, spec=spec)
    with pytest.raises(ApiError) as refusal:
        create(kube, obj)
    assert words in str(refusal.value)


@pytest.mark.usefixtures("definitions")
def test_there_is_one_rmdconfig_and_it_has_one_name(kube: Kube, namespace: str) -> None:
    obj = {
        "apiVersion": "intel.com/v1alpha1",
        "kind": "RmdConfig",
        "metadata": {"name": "another", "namespace": namespace},
        "spec": {},
    }
    with pytest.raises(ApiError, match="its name is rmdconfig"):
        create(kube, obj)


@pytest.mark.usefixtures("definitions")
def test_columns_show_what_people_look_for(kube: Kube, namespace: str, kubeconfig: str) -> None:
    path = next(path for path in SAMPLES if path.stem == "rmdworkload-guaranteed-cache")
    create(kube, sample(path, namespace))
    shown = row(kubeconfig, f"/apis/intel.com/v1alpha1/namespaces/{namespace}/rmdworkloads")
    assert shown[:3] == ['["0","1","2","3"]', 2, 2]
