# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the control plane's programs come from: installed ones first, else built ones."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from lab.gotools import GoTools, Say, build
from lab.promtool import PROMTOOL

LAB = Path(__file__).resolve().parent.parent
KUBERNETES_VERSION = "v1.34.2"
VERSION_VARIABLES = "k8s.io/component-base/version"

KUBERNETES = GoTools(
    name="controlplane",
    module=LAB / "controlplane",
    programs={
        "etcd": "go.etcd.io/etcd/server/v3",
        "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
        "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
        "kube-scheduler": "k8s.io/kubernetes/cmd/kube-scheduler",
        "kubectl": "k8s.io/kubernetes/cmd/kubectl",
    },
    duration="5 minutes",
    # Without these the API server calls itself v0.0.0-master, which clients that compare refuse.
    linker_flags="-s -w"
    f" -X {VERSION_VARIABLES}.gitVersion={KUBERNETES_VERSION}"
    f" -X {VERSION_VARIABLES}.gitMajor=1 -X {VERSION_VARIABLES}.gitMinor=34"
    f" -X {VERSION_VARIABLES}.gitTreeState=clean",
)
KWOK = GoTools(
    name="kwok",
    module=LAB / "kwok",
    programs={"kwok": "sigs.k8s.io/kwok/cmd/kwok"},
    duration="2 minutes",
)
# An API server is only taken together with the store that it came with.
INSEPARABLE = ("etcd", "kube-apiserver")


def find_programs(say: Say) -> dict[str, Path]:
    """Every program's path; those that `$KUBEBUILDER_ASSETS` and PATH lack are built."""
    found = _installed([*KUBERNETES.programs, *KWOK.programs])
    if not all(name in found for name in INSEPARABLE):
        found = {name: path for name, path in found.items() if name in KWOK.programs}
    for name, path in found.items():
        say(f"using the installed {name}: {path}")
    for tools in (KUBERNETES, KWOK):
        missing = [name for name in tools.programs if name not in found]
        if missing:
            folder = build(tools, say)
            found |= {name: folder / name for name in missing}
    return found


def build_programs(say: Say) -> None:
    """Fill the cache, whatever is installed; also with what only tests use."""
    for tools in (KUBERNETES, KWOK, PROMTOOL):
        say(f"{', '.join(tools.programs)} are in {build(tools, say)}")


def _installed(names: list[str]) -> dict[str, Path]:
    folders = [os.environ.get("KUBEBUILDER_ASSETS", ""), os.environ.get("PATH", os.defpath)]
    path = os.pathsep.join(folder for folder in folders if folder)
    return {name: Path(found) for name in names if (found := shutil.which(name, path=path))}
