# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Helm, and the validator of OLM's bundles: programs of the release, from pinned Go modules."""

from __future__ import annotations

from pathlib import Path

from lab.gotools import GoTools

FOLDER = Path(__file__).resolve().parent
HELM = GoTools(
    name="helm",
    module=FOLDER / "helm",
    programs={"helm": "helm.sh/helm/v4/cmd/helm"},
    duration="three minutes",
)
CRD_OF_VERSIONS = "clusterserviceversions.yaml"
# The command of operator-sdk's validation library, and a CRD of OLM; two modules, because the library
# is older than Helm's libraries of Kubernetes.
VERIFY = GoTools(
    name="operator-verify",
    module=FOLDER / "bundle",
    programs={"operator-verify": "github.com/operator-framework/api/cmd/operator-verify"},
    files_module="github.com/operator-framework/api",
    files={CRD_OF_VERSIONS: "crds/operators.coreos.com_clusterserviceversions.yaml"},
    duration="a minute",
)
