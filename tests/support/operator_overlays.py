# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The operator's overlays as kubectl builds them, and kubeconfigs of the operator's account."""

from __future__ import annotations

import json
import subprocess
import typing as t
from pathlib import Path

import yaml

from lab.api import Api
from lab.controlplane.programs import find_programs
from support.dockerfile import ROOT

Json = dict[str, t.Any]

OVERLAYS = ROOT / "operator" / "config" / "overlays"
NAMESPACE, ACCOUNT = "wattwise-system", "wattwise-operator"


def built(overlay: str) -> list[Json]:
    """The objects of an overlay."""
    command = [str(find_programs(print)["kubectl"]), "kustomize", str(OVERLAYS / overlay)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return list(yaml.safe_load_all(done.stdout))


def write_kubeconfig(path: Path, admin: Path, **cluster: str) -> None:
    """A kubeconfig of the operator's account, whose token the administrator asks for.

    ``cluster`` replaces or adds what the file says of the API server.
    """
    with Api(admin) as api:
        account = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{ACCOUNT}/token"
        answer = api.request("POST", account, {"spec": {"expirationSeconds": 3600}})
        server = {"server": api.server, **cluster}
    user = {"token": answer["status"]["token"]}
    context = {"cluster": "c", "user": "u"}
    content = {
        "current-context": "x",
        "clusters": [{"name": "c", "cluster": server}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "x", "context": context}],
    }
    path.write_text(json.dumps(content))
