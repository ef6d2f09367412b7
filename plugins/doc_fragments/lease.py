# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The options of the Lease that excludes concurrent runs; see argspec.LEASE."""

from __future__ import annotations


class ModuleDocFragment:
    """Documentation only."""

    DOCUMENTATION = r"""
options:
  # begin generated: lease
  lease_namespace:
    description:
      - Namespace of the Lease C(wattwise-binding). Its holder is the only run in the cluster that
        binds pods, moves pods or allocates devices. All runs in a cluster need the same namespace.
      - The Lease is taken before the first write. If another run held it since the cluster was
        read, the module reads the cluster again. Check mode and runs that write nothing take no
        Lease.
      - The Lease of a run that was killed expires after 15 seconds.
    type: str
    default: kube-system
  lease_timeout:
    description: Seconds to wait while another run holds the Lease. After that the task fails and
      names the holder.
    type: float
    default: 60.0
  # end generated
"""
