# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The objects of operator/config, as kustomize builds its overlays."""

from __future__ import annotations

import functools
import subprocess
from pathlib import Path
from typing import Any

import yaml

from lab.gotools import build
from scripts.manifests.programs import PROGRAMS

CONFIG = "operator/config"
# From the fewest permissions to the most.
OVERLAYS = ("minimal", "default", "extender", "full")
NAMESPACE = "wattwise-system"

Object = dict[str, Any]
# Kind, namespace and name.
Key = tuple[str, str, str]


def objects(tree: Path, overlay: str) -> dict[Key, Object]:
    """The objects of one overlay."""
    documents = yaml.load_all(_built(tree, overlay), Loader=yaml.CSafeLoader)
    return {key_of(each): each for each in documents}


@functools.cache
def _built(tree: Path, overlay: str) -> str:
    program = build(PROGRAMS, print) / "kustomize"
    folder = tree / CONFIG / "overlays" / overlay
    return subprocess.run(
        [str(program), "build", str(folder)], check=True, capture_output=True, text=True
    ).stdout


def key_of(item: Object) -> Key:
    metadata = item["metadata"]
    return item["kind"], metadata.get("namespace", ""), metadata["name"]


def image(tree: Path) -> str:
    """Name of the image in the overlays, without its tag; no registry has it."""
    path = tree / CONFIG / "manager" / "kustomization.yaml"
    [entry] = yaml.safe_load(path.read_text(encoding="utf-8"))["images"]
    return str(entry["newName"])
