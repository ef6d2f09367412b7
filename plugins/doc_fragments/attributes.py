# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Attributes of the modules: check mode, diff mode, idempotence and action group."""

from __future__ import annotations


class ModuleDocFragment:
    """Documentation only."""

    DOCUMENTATION = r"""
options: {}
attributes:
  action_group:
    description: Use C(group/wattwise.kube.wattwise) in C(module_defaults) to set options once.
    support: full
    membership:
      - wattwise.kube.wattwise
"""

    INFO_MODULE = r"""
options: {}
attributes:
  check_mode:
    description: Can run in C(check_mode) and returns the same.
    support: full
    details:
      - This module changes nothing.
  diff_mode:
    description: Returns the objects before and after the change when in diff mode.
    support: N/A
    details:
      - This module changes nothing.
  idempotent:
    description: Has the same effect when run again.
    support: full
    details:
      - This module changes nothing.
"""

    CHANGING_MODULE = r"""
options: {}
attributes:
  check_mode:
    description: Can run in C(check_mode) and returns the changes that it would make.
    support: full
  diff_mode:
    description: Returns the objects before and after the change when in diff mode.
    support: full
  idempotent:
    description: Has the same effect when run again; the second run changes nothing.
    support: full
"""
