# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Events when a fleet gets hot, draws too much, loses machines or leaves pods waiting."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

DOCUMENTATION = r"""
short_description: Events of a fleet that is hot, draws too much, or leaves pods waiting
description:
  - Reads what the cluster stores of the fleet, and asks no machine. Each event tells that an alarm
    was raised or cleared.
  - An alarm has C(alarm), C(state) (V(raised) or V(cleared)), C(time), and, where there is one,
    C(subject), C(value), C(limit) and C(message).
  - The alarms are C(hot_inlet), C(fleet_watts), C(lost_machine), C(model_drift), C(pods_waiting)
    and C(cluster_unreachable).
options:
  kubeconfig:
    description:
      - Path of the kubeconfig file. The other options of the connection are those of the modules,
        such as C(context), C(host) and C(api_key).
    type: str
  hot_inlet_celsius:
    description:
      - Inlet temperature above which a node is hot. The alarm ends 1 °C below.
    type: float
    default: 27.0
  fleet_watts:
    description:
      - Power draw of all machines in W above which the fleet draws too much. None by default.
    type: float
  model_drift_percent:
    description:
      - Difference between the predicted and the measured power of a PowerFleet, in per cent.
    type: float
    default: 20.0
  max_age:
    description:
      - Age in seconds up to which a reading counts. An older one raises no alarm, and ends none.
    type: float
    default: 900.0
  waiting_seconds:
    description:
      - Age in seconds from which a pod without a node counts as waiting too long.
    type: float
    default: 300.0
  scheduler_name:
    description:
      - C(spec.schedulerName) of the pods that count.
    type: str
    default: wattwise
  interval:
    description:
      - Seconds between two looks, at least 5.
    type: float
    default: 30.0
"""

EXAMPLES = r"""
- name: Move work away from hot racks
  hosts: localhost
  sources:
    - wattwise.kube.fleet:
        hot_inlet_celsius: 30
  rules:
    - name: Place again
      condition: event.alarm == "hot_inlet" and event.state == "raised"
      action:
        run_playbook:
          name: wattwise.kube.place
"""


def _find_the_collection() -> None:
    """Make the library importable where Ansible's own import of collections is not set up."""
    root = str(Path(__file__).resolve().parents[7])
    if root not in sys.path:
        sys.path.append(root)


async def main(queue: asyncio.Queue[Any], args: dict[str, Any]) -> None:
    """Put an event into the queue for each alarm that is raised or cleared."""
    _find_the_collection()
    from ansible_collections.wattwise.kube.plugins.module_utils.observe.alarms import AlarmWatch

    watch = AlarmWatch.of(args)
    while True:
        for event in await asyncio.to_thread(watch.look):
            await queue.put(event)
        await asyncio.sleep(watch.options["interval"])
