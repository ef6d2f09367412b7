#!/usr/bin/python
# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation and entry of the module fleet_report."""

from __future__ import annotations

DOCUMENTATION = r"""
module: fleet_report
short_description: Report the power draw of a fleet, the savings, and the reasons
version_added: 0.1.0
author: Contributors to the wattwise.kube project (@wattwise)
description:
  - Writes one HTML file, its data as JSON and a summary from the documents of a run folder.
    M(wattwise.kube.fleet_reconciliation) or the modules of its steps write these documents.
  - Connects to no cluster and no machine. Equal documents give equal bytes.
  - The files are readable by their owner only. They contain names of nodes and pods, and no
    secrets.
  - The task is never changed, because a report is an observation. Check mode writes the files too.
options:
  run_dir:
    description: Folder of the documents. C(report.json) and C(summary.json) are written there.
    type: path
    required: true
  path:
    description: Path of the page. C(report.html) in O(run_dir) by default.
    type: path
  title:
    description: Name of the cluster on the page.
    type: str
    default: ""
  # begin generated: report
  settle_seconds:
    description: Seconds between the last binding and the first reading that counts as measured
      after it; until then the report shows the measurement as pending. Raise it for BMCs that
      average power over more than a minute.
    type: float
    default: 60.0
  type_label:
    description: Node label with the type of the server.
    type: str
    default: node.kubernetes.io/instance-type
  rack_labels:
    description: Node labels with the rack, in order of precedence.
    type: list
    elements: str
    default: [wattwise.github.io/rack, topology.kubernetes.io/zone]
  position_label:
    description: Node label with the rack unit, a whole number counted from the floor. Racks of
      nodes without it are drawn in the order of names.
    type: str
    default: wattwise.github.io/rack-unit
  price_per_kwh:
    description: Price of one kWh, V(0) or more. With a price the page shows the cost of namespaces
      and workloads. Their energy is the growth of Kepler's counters in the period that the page
      names. Without counts the page shows an estimate of 30 days at the metered power.
    type: float
  currency:
    description: Unit of O(price_per_kwh), such as V(EUR), to show beside costs.
    type: str
    default: ""
  # end generated
extends_documentation_fragment:
  - wattwise.kube.attributes.info_module
requirements:
  - fastjsonschema >= 2.20
"""

EXAMPLES = r"""
- name: Write the report of a run
  wattwise.kube.fleet_report:
    run_dir: /var/lib/wattwise/hall-1
    title: hall-1

- name: Write the page to the folder of a web server

  wattwise.kube.fleet_report:
    run_dir: /var/lib/wattwise/hall-1
    path: /srv/www/hall-1.html

- name: Report by custom labels

  wattwise.kube.fleet_report:
    run_dir: /var/lib/wattwise/hall-1
    rack_labels:
      - example.com/rack
    position_label: example.com/unit

- name: Report the cost of each namespace

  wattwise.kube.fleet_report:
    run_dir: /var/lib/wattwise/hall-1
    price_per_kwh: 0.31
    currency: EUR
"""

RETURN = r"""
path:
  description: Path of the page.
  returned: always
  type: str
  sample: /var/lib/wattwise/hall-1/report.html
lines:
  description: Lines of the summary.
  returned: always
  type: list
  elements: str
  sample: [150 pods placed on 12 nodes]
summary:
  description: Document C(summary.json), with watts, savings in watts, numbers of nodes and pods,
    and the hottest inlet in degrees Celsius.
  returned: always
  type: dict
  sample: {failing: 0, nodes: 12, not_bound: 0, placed: 150, state: current, waiting: 0}
"""

from ..module_utils.module_runner import run_module
from ..module_utils.report import building


def main() -> None:
    run_module(building.SPEC, building.write)


if __name__ == "__main__":
    main()
