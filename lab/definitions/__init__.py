# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""CRDs of other projects, from their Go modules, only for tests. No lab installs them."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

from lab.errors import LabError
from lab.gotools import Say, go_command

MODULE = Path(__file__).resolve().parent
_PROMETHEUS = "example/prometheus-operator-crd/monitoring.coreos.com_{}.yaml"
_CERT_MANAGER = "deploy/crds/cert-manager.io_{}.yaml"
_GRAFANA = "config/crd/bases/grafana.integreatly.org_{}.yaml"
# Go module → its files and, for each file, the plurals.
FILES = {
    "github.com/prometheus-operator/prometheus-operator": (
        _PROMETHEUS,
        ("servicemonitors", "podmonitors", "prometheusrules"),
    ),
    "github.com/cert-manager/cert-manager": (_CERT_MANAGER, ("certificates", "issuers")),
    "github.com/grafana/grafana-operator/v5": (
        _GRAFANA,
        ("grafanas", "grafanadatasources", "grafanadashboards"),
    ),
}


def find_crds(say: Say) -> list[Path]:
    """The pinned CRDs; Go downloads their modules first if necessary. Raises LabError."""
    folders = dict(_folders(go_command(MODULE, say)))
    return [
        folders[module] / pattern.format(plural)
        for module, (pattern, plurals) in FILES.items()
        for plural in plurals
    ]


def _folders(go: str) -> Iterator[tuple[str, Path]]:
    """Module → its source folder, whose contents go.sum verifies."""
    environment = os.environ | {"GOWORK": "off", "GOFLAGS": "-mod=readonly"}
    done = subprocess.run(
        [go, "mod", "download", "-json"],
        cwd=MODULE,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise LabError(
            f"Cannot download the modules of {MODULE / 'go.mod'}; check that the Go module proxy "
            f"can be reached ($GOPROXY): {done.stderr.strip() or done.stdout.strip()}"
        )
    decoder, text = json.JSONDecoder(), done.stdout.strip()
    while text:
        found, end = decoder.raw_decode(text)
        yield found["Path"], Path(found["Dir"])
        text = text[end:].strip()
