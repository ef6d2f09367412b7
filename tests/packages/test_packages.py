# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The Helm chart and OLM's bundle, made from the overlays of this tree, and the list of packages."""

from __future__ import annotations

import json
import subprocess
import tarfile
import typing as t
from pathlib import Path

import pytest
import yaml

from lab.gotools import build
from scripts.release import archives, chart, olm, overlays, programs, sbom
from scripts.release.__main__ import validate_bundle
from scripts.release.overlays import NAMESPACE, OVERLAYS, Key, Object, key_of
from scripts.release.source import ReleaseError, Source, version_of

ROOT = Path(__file__).resolve().parents[2]
SOURCE = Source(ROOT, version_of(ROOT), commit="0" * 40, time=1_700_000_000)
OWN_IMAGE = "registry.example/wattwise-operator"

Rendered = dict[Key, Object]


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("chart") / "chart.tgz"
    archives.write(path, chart.files(SOURCE), SOURCE.time)
    return path


def helm(*arguments: str) -> subprocess.CompletedProcess[str]:
    program = build(programs.HELM, print) / "helm"
    return subprocess.run([str(program), *arguments], capture_output=True, text=True, check=False)


def render(archive: Path, **values: str) -> Rendered:
    """Objects that Helm renders with these values; `__` in a name is a dot."""
    values = {"image__repository": overlays.image(ROOT), **values}
    given = [f"--set={name.replace('__', '.')}={value}" for name, value in values.items()]
    done = helm("template", "any", str(archive), *given)
    assert done.returncode == 0, done.stderr
    documents = yaml.load_all(done.stdout, Loader=yaml.CSafeLoader)
    return {key_of(each): each for each in documents if each}


def without_keep(items: Rendered) -> Rendered:
    """The objects without the annotation for Helm, which every CRD must have."""
    for (kind, _namespace, _name), item in items.items():
        if kind == "CustomResourceDefinition":
            annotations = item["metadata"]["annotations"]
            assert [annotations.pop(name) for name in chart.KEEP] == list(chart.KEEP.values())
            if not annotations:
                del item["metadata"]["annotations"]
    return items


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_helm_and_kustomize_render_equal_objects(overlay: str, archive: Path) -> None:
    given = overlays.objects(ROOT, overlay)
    assert len(given) > 15
    assert without_keep(render(archive, overlay=overlay)) == given


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_values_choose_namespace_image_and_resources(overlay: str, archive: Path) -> None:
    digest = "sha256:" + "1" * 64
    image = {"image__repository": OWN_IMAGE, "image__digest": digest}
    resources = {"resources__watcher__limits__memory": "1Gi"}
    items = render(archive, overlay=overlay, namespace__name="hall-1", **image, **resources)
    assert NAMESPACE not in json.dumps(list(items.values()))
    deployment = items["Deployment", "hall-1", "wattwise-operator"]
    given = overlays.objects(ROOT, overlay)["Deployment", NAMESPACE, "wattwise-operator"]
    pods = [each["spec"]["template"]["spec"]["containers"] for each in (deployment, given)]
    assert {container["image"] for container in pods[0]} == {f"{OWN_IMAGE}@{digest}"}
    for own, other in zip(*pods, strict=True):
        if own["name"] == "watcher":
            assert own["resources"]["limits"].pop("memory") == "1Gi"
            del other["resources"]["limits"]["memory"]
        assert own["resources"] == other["resources"]


def test_crds_and_namespace_can_be_left_out(archive: Path) -> None:
    items = render(archive, overlay="full", crds="false", namespace__create="false")
    left_out = {"CustomResourceDefinition", "Namespace"}
    every = overlays.objects(ROOT, "full")
    assert set(items) == {key for key in every if key[0] not in left_out}


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("image.repository=", "make image"),
        ("namespace.name=-", "/namespace/name"),
        ("overlay=everything", "/overlay"),
        ("images.repository=x", "images"),
    ],
)
def test_a_wrong_value_is_refused(setting: str, message: str, archive: Path) -> None:
    image = f"--set=image.repository={OWN_IMAGE}"
    done = helm("template", "any", str(archive), image, "--set", setting)
    assert done.returncode != 0 and message in done.stderr


def test_helm_finds_no_fault_with_the_chart(archive: Path) -> None:
    done = helm("lint", "--strict", str(archive), f"--set=image.repository={OWN_IMAGE}")
    assert done.returncode == 0, done.stdout + done.stderr
    with tarfile.open(archive) as tar:
        assert all(member.name.startswith(f"{chart.NAME}/") for member in tar)


def test_braces_of_an_object_are_not_helms() -> None:
    item = {"kind": "ConfigMap", "data": {"text": "{{ never }} in wattwise-system"}}
    text = chart.with_values(item, "i:1")
    assert '{{ "{{" }} never }}' in text and chart.NAMESPACE_VALUE in text


# OLM


def bundle() -> dict[str, t.Any]:
    return {
        path: yaml.safe_load(content)
        for path, content in olm.files(SOURCE, f"{OWN_IMAGE}:1").items()
        if path.endswith(".yaml")
    }


def test_the_bundle_is_valid(tmp_path: Path) -> None:
    validate_bundle(olm.files(SOURCE, f"{OWN_IMAGE}:1"), tmp_path)


def test_a_bundle_without_its_crd_is_refused(tmp_path: Path) -> None:
    files = olm.files(SOURCE, f"{OWN_IMAGE}:1")
    [crd] = [name for name in files if "customresourcedefinition" in name]
    del files[crd]
    with pytest.raises(ReleaseError, match="PowerFleet"):
        validate_bundle(files, tmp_path)


def test_the_bundles_image_has_its_annotations_as_labels() -> None:
    dockerfile = olm.files(SOURCE, f"{OWN_IMAGE}:1")["Dockerfile"].decode()
    labels = dict(line[6:].split("=", 1) for line in dockerfile.splitlines() if line[:5] == "LABEL")
    assert labels == bundle()["metadata/annotations.yaml"]["annotations"]


def test_the_bundle_grants_what_its_overlay_grants_in_one_namespace() -> None:
    given = overlays.objects(ROOT, olm.OVERLAY)
    install = bundle()["manifests/clusterserviceversion.yaml"]["spec"]["install"]["spec"]
    for kind, name in (("Role", "permissions"), ("ClusterRole", "clusterPermissions")):
        [entry] = install[name]
        expected = [
            rule
            for (each, namespace, _name), item in given.items()
            if each == kind and namespace in ("", NAMESPACE)
            for rule in item["rules"]
        ]
        assert entry == {"serviceAccountName": "wattwise-operator", "rules": expected}


def test_no_kind_of_the_bundles_overlay_is_lost() -> None:
    """OLM installs these kinds; it knows no admission policies."""
    kinds = {kind for kind, _namespace, _name in overlays.objects(ROOT, olm.OVERLAY)}
    installed = {"CustomResourceDefinition", "ConfigMap", "NetworkPolicy"}
    assert kinds - set(olm.INLINED) <= installed


# SBOM


def test_the_list_of_packages_names_each_locked_requirement(tmp_path: Path) -> None:
    archive = tmp_path / "wattwise-kube.tar.gz"
    archive.write_bytes(b"archive")
    document = json.loads(sbom.document(SOURCE, archive))
    lock = (ROOT / sbom.LOCK).read_text().splitlines()
    locked = [line.split()[0].partition("==")[::2] for line in lock if "==" in line]
    collection, *others = document["packages"]
    assert [(each["name"], each["versionInfo"]) for each in others] == locked
    assert {"aiohttp", "ansible-core", "ortools"} <= {name for name, _version in locked}
    ids = [each["SPDXID"] for each in document["packages"]]
    assert len(set(ids)) == len(ids)
    related = {
        (each["spdxElementId"], each["relatedSpdxElement"]) for each in document["relationships"]
    }
    first = ("SPDXRef-DOCUMENT", collection["SPDXID"])
    assert related == {first, *((collection["SPDXID"], each) for each in ids[1:])}
