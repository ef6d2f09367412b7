# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Objects of our kinds on a real API server, which the tests of a lab share."""

from __future__ import annotations

from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import ApiError
from ansible_collections.wattwise.kube.plugins.module_utils.kube.client import Kube
from support.cluster_nodes import remove
from support.lab import OURS


def remove_ours(kube: Kube) -> None:
    """Delete all objects of our kinds that earlier tests may have left in any namespace."""
    for group_version, plurals in OURS.items():
        for plural in plurals:
            try:
                left = kube.list(f"/apis/{group_version}/{plural}")
            except ApiError as error:
                # No test has installed this CRD yet.
                if error.status != 404:
                    raise
                continue
            for item in left:
                metadata = item["metadata"]
                namespace, name = metadata["namespace"], metadata["name"]
                remove(kube, f"/apis/{group_version}/namespaces/{namespace}/{plural}/{name}")
