# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The control plane's programs: installed ones if there are any, else built ones."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from pathlib import Path

from lab.gotools import GoTools, Say, build
from lab.operator import ANSIBLE_OPERATOR
from lab.prometheus import PROGRAMS as PROMETHEUS
from lab.releases import Release, release_of

LAB = Path(__file__).resolve().parent.parent
VERSION_VARIABLES = "k8s.io/component-base/version"


def kubernetes(release: Release) -> GoTools:
    """The control plane's programs of a release."""
    return GoTools(
        name="controlplane",
        module=LAB / "controlplane" / f"v{release.minor}",
        programs={
            "etcd": "go.etcd.io/etcd/server/v3",
            "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
            "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
            "kube-scheduler": "k8s.io/kubernetes/cmd/kube-scheduler",
            "kubectl": "k8s.io/kubernetes/cmd/kubectl",
        },
        duration="5 minutes",
        linker_flags=_linker_flags(release),
    )


def kubelet() -> GoTools:
    """The kubelet of the current release, which only the real node needs."""
    release = release_of("")
    return GoTools(
        name="kubelet",
        module=LAB / "controlplane" / f"v{release.minor}",
        programs={"kubelet": "k8s.io/kubernetes/cmd/kubelet"},
        duration="3 minutes",
        linker_flags=_linker_flags(release),
    )


def _linker_flags(release: Release) -> str:
    major, minor = release.minor.split(".")
    variables = {
        # Otherwise the API server is v0.0.0-master, which version-checking clients refuse.
        "gitVersion": release.version,
        "gitMajor": major,
        "gitMinor": minor,
        "gitTreeState": "clean",
    }
    stamps = (f"-X {VERSION_VARIABLES}.{name}={variables[name]}" for name in variables)
    return " ".join(["-s -w", *stamps])


# KWOK's simulation: nodes become Ready and renew their Leases, pods run until deleted.
KWOK_STAGES = {
    "node-initialize.yaml": "kustomize/stage/node/fast/node-initialize.yaml",
    "node-heartbeat-with-lease.yaml": (
        "kustomize/stage/node/heartbeat-with-lease/node-heartbeat-with-lease.yaml"
    ),
    "pod-ready.yaml": "kustomize/stage/pod/fast/pod-ready.yaml",
    "pod-complete.yaml": "kustomize/stage/pod/fast/pod-complete.yaml",
    "pod-delete.yaml": "kustomize/stage/pod/fast/pod-delete.yaml",
}
KWOK = GoTools(
    name="kwok",
    module=LAB / "kwok",
    programs={"kwok": "sigs.k8s.io/kwok/cmd/kwok"},
    duration="a minute",
    files_module="sigs.k8s.io/kwok",
    files=KWOK_STAGES,
)
# An installed API server is used only together with its own store.
INSEPARABLE = ("etcd", "kube-apiserver")


def find_programs(say: Say, minor: str = "") -> dict[str, Path]:
    """Every program's path; those that `$KUBEBUILDER_ASSETS` and PATH lack are built.

    KWOK is always built, because an installed one lacks its stages. If a minor version of
    Kubernetes is requested, its programs are built: installed ones may have another version.
    """
    tools = kubernetes(release_of(minor))
    found = _installed(tools.programs)
    if minor or not all(name in found for name in INSEPARABLE):
        found = {}
    for name, path in found.items():
        say(f"using the installed {name}: {path}")
    for group in (tools, KWOK):
        missing = [name for name in group.programs if name not in found]
        if missing:
            folder = build(group, say)
            found |= {name: folder / name for name in missing}
    return found


def build_programs(say: Say, minor: str = "") -> None:
    """Fill the cache, regardless of installed programs; also with programs that only tests use."""
    for tools in (kubernetes(release_of(minor)), KWOK, PROMETHEUS, ANSIBLE_OPERATOR):
        say(f"{', '.join(tools.programs)} are in {build(tools, say)}")


def _installed(names: Iterable[str]) -> dict[str, Path]:
    folders = [os.environ.get("KUBEBUILDER_ASSETS", ""), os.environ.get("PATH", os.defpath)]
    path = os.pathsep.join(folder for folder in folders if folder)
    return {name: Path(found) for name in names if (found := shutil.which(name, path=path))}
