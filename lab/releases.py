# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The releases of Kubernetes that the lab can run; the newest is the default."""

from __future__ import annotations

import os
from dataclasses import dataclass

from lab.errors import LabError

VARIABLE = "LAB_KUBERNETES"


@dataclass(frozen=True)
class Release:
    """A release pinned in controlplane/v<minor>/go.mod.

    `features` are the gates that the library supports and this release disables by default; `apis`
    are API versions that it serves only on request.
    """

    version: str
    features: tuple[str, ...] = ()
    apis: tuple[str, ...] = ()

    @property
    def minor(self) -> str:
        """The minor version, as in `1.37`."""
        return ".".join(self.version.lstrip("v").split(".")[:2])


CURRENT = Release("v1.37.2", features=("DRAListTypeAttributes",))
OLDEST = Release(
    "v1.34.2",
    features=(
        "DRAConsumableCapacity",
        "DRADeviceBindingConditions",
        "DRADeviceTaints",
        "DRAPartitionableDevices",
    ),
    apis=("resource.k8s.io/v1alpha3",),
)
RELEASES = {release.minor: release for release in (CURRENT, OLDEST)}


def asked() -> str:
    """The minor version in $LAB_KUBERNETES; "" if unset."""
    return os.environ.get(VARIABLE, "")


def release_of(minor: str) -> Release:
    """The release of a minor version; the current one for "". Raises LabError."""
    if not minor:
        return CURRENT
    if minor not in RELEASES:
        raise LabError(
            f"The lab has no Kubernetes {minor}; choose {' or '.join(RELEASES)}"
            f" with --kubernetes or ${VARIABLE}."
        )
    return RELEASES[minor]
