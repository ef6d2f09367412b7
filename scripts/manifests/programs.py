# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Programs that build and judge manifests, from a pinned Go module."""

from __future__ import annotations

from pathlib import Path

from lab.gotools import GoTools

PROGRAMS = GoTools(
    name="manifests",
    module=Path(__file__).resolve().parent,
    programs={
        "kube-score": "github.com/zegl/kube-score/cmd/kube-score",
        "kustomize": "sigs.k8s.io/kustomize/kustomize/v5",
    },
    duration="a minute",
)
