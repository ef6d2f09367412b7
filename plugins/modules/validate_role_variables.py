#!/usr/bin/python
# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation of the action validate_role_variables, which runs where Ansible runs."""

from __future__ import annotations

DOCUMENTATION = r"""
module: validate_role_variables
short_description: Check the variables of all roles of a play before its first change
version_added: 0.1.0
author: Contributors to the wattwise.kube project (@wattwise)
description:
  - Checks types, choices, required members, ranges, names and paths of every variable of the given
    roles. One message lists all problems, each with the variable, its value and the expected one.
  - Warns of variables that no role has but whose name resembles a known one.
  - Runs as an action on the controller. It connects to nothing, writes nothing, and shows no value
    that may be a password.
options:
  roles:
    description: Names of the roles, without C(wattwise.kube).
    type: list
    elements: str
    default: []
  tags:
    description: Tags that a role has in the play, by the name of the role. Where a run leaves the
      role out by C(--tags) or C(--skip-tags), its required variables may be missing.
    type: dict
    default: {}
  entry_point:
    description: Entry point of the roles.
    type: str
    default: main
  group:
    description: Inventory group that must contain the host. The task fails for other hosts and
      tells the lines to add to the inventory.
    type: str
extends_documentation_fragment:
  - wattwise.kube.attributes.info_module
notes:
  - A play that uses this module can import the same roles with C(rolespec_validate=false), because
    the validation that Ansible adds to each role checks nothing more.
seealso:
  - module: ansible.builtin.validate_argument_spec
"""

EXAMPLES = r"""
- name: Check all variables first
  wattwise.kube.validate_role_variables:
    roles:
      - observe
      - placement
      - report
    group: clusters
  tags: [always]

- name: Ask for the variables of the rmd role only where a run with tags makes its tasks
  wattwise.kube.validate_role_variables:
    roles: [rmd, rmd_workloads]
    tags:
      rmd: [rmd_daemons]
  tags: [always]

- name: Check the variables of a teardown
  wattwise.kube.validate_role_variables:
    roles: [node_configs, crds]
    entry_point: teardown

- name: Keep the problems for later
  wattwise.kube.validate_role_variables:
    roles: [observe]
  register: checked
  failed_when: false
"""

RETURN = r"""
checked:
  description: Number of variables of the roles.
  returned: success
  type: int
  sample: 41
problems:
  description: Problems of the variables.
  returned: always
  type: list
  elements: dict
  contains:
    variable:
      description: Name of the variable.
      type: str
    roles:
      description: Roles that have the variable.
      type: list
      elements: str
    problem:
      description: Sentence with the variable, its value and the expected one.
      type: str
  sample:
    - variable: observe_timeout
      roles: [observe]
      problem: observe_timeout is 'soon', but must be a number
"""
