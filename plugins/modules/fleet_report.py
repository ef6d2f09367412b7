#!/usr/bin/python
# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation and entry of the module fleet_report."""

from __future__ import annotations

DOCUMENTATION = r"""
module: fleet_report
short_description: Show what a fleet draws, what was saved, and why
version_added: 0.1.0
author:
  - Contributors to the wattwise.kube project (@wattwise)
description:
  - Makes one HTML file, its data as JSON and a summary from the documents of a run folder, which
    M(wattwise.kube.fleet_reconciliation) or the modules of its steps left there.
  - Reaches neither a cluster nor a machine. The same documents give the same bytes.
  - The files are readable by their owner only. They hold names of nodes and pods, and no secrets.
  - A report is an observation, so the task is never changed, and check mode writes it too.
options:
  run_dir:
    description:
      - Folder of the documents; C(report.json) and C(summary.json) are written there.
    type: path
    required: true
  path:
    description:
      - File for the page; C(report.html) in O(run_dir) by default.
    type: path
  title:
    description:
      - Name of the cluster on the page.
    type: str
    default: ""
  settle_seconds:
    description:
      - Seconds after the last binding from which on readings count as those of the new state.
    type: float
    default: 60.0
  type_label:
    description:
      - Label of the nodes that says which type of server they are.
    type: str
    default: node.kubernetes.io/instance-type
  rack_labels:
    description:
      - Labels of the nodes that say in which rack they are. The first that a node bears counts.
    type: list
    elements: str
    default:
      - wattwise.github.io/rack
      - topology.kubernetes.io/zone
  position_label:
    description:
      - Label of the nodes that says at which rack unit they are, a whole number counted from the
        floor.
    type: str
    default: wattwise.github.io/rack-unit
extends_documentation_fragment:
  - wattwise.kube.attributes.info_module
requirements:
  - fastjsonschema >= 2.20
"""

EXAMPLES = r"""
- name: Make the report of a run
  wattwise.kube.fleet_report:
    run_dir: /var/lib/wattwise/hall-1
    title: hall-1

- name: Put the page where a web server has it
  wattwise.kube.fleet_report:
    run_dir: /var/lib/wattwise/hall-1
    path: /srv/www/hall-1.html

- name: Report by labels of one's own
  wattwise.kube.fleet_report:
    run_dir: /var/lib/wattwise/hall-1
    rack_labels:
      - example.com/rack
    position_label: example.com/unit
"""

RETURN = r"""
path:
  description: Path of the page.
  returned: always
  type: str
  sample: /var/lib/wattwise/hall-1/report.html
lines:
  description: The summary, line by line.
  returned: always
  type: list
  elements: str
  sample:
    - 150 pods placed on 12 nodes
"""

from ansible_collections.wattwise.kube.plugins.module_utils.module_runner import run_module
from ansible_collections.wattwise.kube.plugins.module_utils.report import building


def main() -> None:
    run_module(building.SPEC, building.write)


if __name__ == "__main__":
    main()
