# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Certificates, keys and kubeconfigs of the control plane."""

from __future__ import annotations

import base64
import json
from pathlib import Path

from lab import pki
from lab.state import LabState

SERVICE_ADDRESS = "10.96.0.1"
SERVER_NAMES = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")
# Kubernetes takes a client certificate's common name as user and its organisations as groups.
CLIENTS: dict[str, tuple[str, ...]] = {
    "lab-admin": ("system:masters",),
    "kwok": ("system:masters",),
    "system:kube-controller-manager": (),
    "system:kube-scheduler": (),
}


def folder(state: LabState) -> Path:
    """Paths of this module's files."""
    return state.pki / "controlplane"


def kubeconfig_of(state: LabState, component: str) -> Path:
    return folder(state) / f"{component}.kubeconfig"


def write_credentials(state: LabState, port: int) -> None:
    """Write all of them; `state.kubeconfig` becomes the administrator's."""
    directory = folder(state)
    directory.mkdir(mode=0o700, exist_ok=True)
    authority = pki.load_authority(state.pki)
    pki.issue(authority, "server", ["127.0.0.1", SERVICE_ADDRESS], SERVER_NAMES, directory)
    pki.create_signing_key(directory, "service-accounts")
    # The API server trusts user names in headers from any client of the front-proxy authority, so
    # that authority must not be the one that signs all other certificates.
    proxy_folder = directory / "front-proxy"
    proxy_folder.mkdir(mode=0o700, exist_ok=True)
    proxy_authority = pki.create_authority(proxy_folder, "wattwise lab front proxy CA")
    pki.issue(proxy_authority, "front-proxy-client", [], [], proxy_folder, client=True)
    for user, groups in CLIENTS.items():
        files = pki.issue(authority, user, [], [], directory, True, groups)
        target = kubeconfig_of(state, user.removeprefix("system:"))
        _write_private(target, kubeconfig_text(user, port, authority.files.certificate, files))
    state.kubeconfig.unlink(missing_ok=True)
    _write_private(state.kubeconfig, kubeconfig_of(state, "lab-admin").read_text())


def kubeconfig_text(user: str, port: int, authority: Path, client: pki.KeyPair) -> str:
    """A self-contained kubeconfig: JSON, which is YAML, with embedded certificates and key."""
    cluster = {
        "server": f"https://127.0.0.1:{port}",
        "certificate-authority-data": _encoded(authority),
    }
    credentials = {
        "client-certificate-data": _encoded(client.certificate),
        "client-key-data": _encoded(client.key),
    }
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "lab", "cluster": cluster}],
        "users": [{"name": user, "user": credentials}],
        "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": user}}],
        "current-context": "lab",
    }
    return json.dumps(document, indent=2) + "\n"


def _encoded(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()


def _write_private(path: Path, text: str) -> None:
    path.touch(mode=0o600)
    path.write_text(text)
