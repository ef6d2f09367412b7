# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation of options that host_role_assignment and provisioning_reconciliation have."""

from __future__ import annotations


class ModuleDocFragment:
    """Options of the assignment of roles to hosts."""

    DOCUMENTATION = r"""
options:
  curves:
    description:
      - Path of a curves document with power curves by the name of the host. Other hosts draw the
        idle power that is published for their processor.
    type: path
  require_ip:
    description:
      - Whether a host needs an IP address. V(false) suits Cluster API, which installs hosts itself.
    type: bool
    default: true
  group_names:
    description:
      - Names of the groups in RV(inventory). V(current) stands for the names of kubespray
        since 2.16, V(legacy) for older names such as C(kube-master).
    type: str
    default: current
    choices:
      - current
      - legacy
  ssh:
    description:
      - Ways to reach the hosts. Host keys are always checked, and there are no passwords.
    type: dict
    default: {}
    suboptions:
      private_key_file:
        description:
          - Path of the private key, on the host that runs the installer.
        type: str
      known_hosts_file:
        description:
          - Path at which the installer finds RV(known_hosts).
        type: str
      known_hosts:
        description:
          - Text of a known_hosts file, also with hashed names. Keys of the chosen hosts are taken.
          - Keys of C(@revoked) lines are dropped from every source.
        type: str
        default: ""
      hosts:
        description:
          - By label or name of a host a dictionary with C(user), C(port), C(private_key_file) and
            C(host_keys), which go before all other sources.
        type: dict
        default: {}
"""
