#!/usr/bin/python
# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation of the action validate_role_variables, which runs where Ansible runs."""

from __future__ import annotations

DOCUMENTATION = r"""
module: validate_role_variables
short_description: Check the variables of all roles of a play before it touches anything
version_added: 0.1.0
author:
  - Contributors to the wattwise.kube project (@wattwise)
description:
  - Checks types, choices and required parts of every variable that these roles of the collection
    take, and ranges, names and paths beside them. All problems stand in one message, each with the
    variable, the given value and the expected one.
  - Warns of variables that no role takes and that are almost called like one.
  - Runs as an action on the controller. It connects to nothing, writes nothing, and shows no value
    that could be a password.
options:
  roles:
    description:
      - Names of roles of this collection, without C(wattwise.kube).
    type: list
    elements: str
    default: []
  tags:
    description:
      - Tags that a role has in the play, by the name of the role. Where a run leaves the role out by
        C(--tags) or C(--skip-tags), its required variables may be missing.
    type: dict
    default: {}
  entry_point:
    description:
      - Entry point of these roles whose variables are checked.
    type: str
    default: main
  group:
    description:
      - Inventory group that the host must be in. The task fails for all others, and says what to
        write into the inventory.
    type: str
extends_documentation_fragment:
  - wattwise.kube.attributes.info_module
notes:
  - A play that uses it can import the same roles with C(rolespec_validate=false), because the tasks
    that Ansible adds to each role check nothing more.
seealso:
  - module: ansible.builtin.validate_argument_spec
"""

EXAMPLES = r"""
- name: Check everything first
  wattwise.kube.validate_role_variables:
    roles:
      - observe
      - placement
      - report
    group: clusters
  tags: [always]

- name: Ask for the variables of role rmd only where a run with tags makes its tasks
  wattwise.kube.validate_role_variables:
    roles: [rmd, rmd_workloads]
    tags:
      rmd: [rmd_daemons]
  tags: [always]

- name: Check what a teardown reads
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
  description: How many variables the roles take.
  returned: success
  type: int
  sample: 41
problems:
  description: Everything that is wrong.
  returned: always
  type: list
  elements: dict
  contains:
    variable:
      description: Name of the variable.
      type: str
    roles:
      description: The roles that take it.
      type: list
      elements: str
    problem:
      description: The variable, its value and the expected one in a sentence.
      type: str
  sample:
    - variable: observe_timeout
      roles:
        - observe
      problem: observe_timeout is 'soon', but must be a number
"""
