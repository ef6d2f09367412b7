# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The options of the Lease that lets one run at a time send pods to nodes; see argspec.LEASE."""

from __future__ import annotations


class ModuleDocFragment:
    """Documentation only."""

    DOCUMENTATION = r"""
options:
  lease_namespace:
    description:
      - Namespace of the Lease C(wattwise-binding), which lets one run at a time bind, move or give
        devices in a cluster. It must be the same for all runs in the cluster.
      - The Lease is taken before the first write, and nothing is written that rests on a state from
        before another run had it. A run that writes nothing takes none, check mode neither.
      - A run that dies leaves the Lease behind; another one takes it over 15 seconds later.
    type: str
    default: kube-system
  lease_timeout:
    description:
      - Seconds to wait for another run that holds the Lease. The task fails after that, and the
        message names the holder.
    type: float
    default: 60.0
"""
