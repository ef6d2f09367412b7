#!/usr/bin/python
# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation and entry of the module kepler_node_info."""

from __future__ import annotations

DOCUMENTATION = r"""
module: kepler_node_info
short_description: Read whether Kepler can meter the power of a node
version_added: 0.1.0
author: Contributors to the wattwise.kube project (@wattwise)
description:
  - Runs on a node and returns its power meters, its processor, its hypervisor, and the verdict
    whether Kepler can run and meter there.
  - Reads C(/proc), C(/sys), C(/lib/modules), C(/usr/src) and C(/var/lib/kubelet) below O(root).
    Other paths are never opened, and symbolic links never lead out of O(root).
  - Requires only Python's standard library, and Linux on any processor architecture.
options:
  root:
    description: Folder at which the node's file system is mounted, for a task in a container.
    type: path
    default: /
  kepler_version:
    description: Version of Kepler, such as V(0.11.4), or V(latest). Kepler V(0.10.0) and later
      exits without a CPU meter, which are RAPL zones or, from V(0.11.4), hwmon sensors. Earlier
      versions need BTF or kernel headers for eBPF, and estimate the power of nodes without a meter.
    type: str
    default: 0.11.4
extends_documentation_fragment:
  - wattwise.kube.attributes.info_module
requirements:
  - root on the node, because only root may read RAPL counters
seealso:
  - module: wattwise.kube.kepler_node_labels
    description: It adds BMCs to the verdict and labels the nodes.
attributes:
  platform:
    description: Operating systems of the node.
    support: full
    platforms: linux
"""

EXAMPLES = r"""
- name: Read the meters of the nodes
  wattwise.kube.kepler_node_info:
  become: true
  register: probe

- name: Read them in a container with the node's file system in /host
  wattwise.kube.kepler_node_info:
    root: /host

- name: Read whether Kepler 0.7 would run
  wattwise.kube.kepler_node_info:
    kepler_version: 0.7.12
  become: true
"""

RETURN = r"""
supported:
  description: Whether Kepler of this version can run and meter on the node.
  returned: success
  type: bool
  sample: true
meter:
  description:
    - V(rapl) is the energy counters of processor and memory, V(hwmon) the power sensors of the
      machine's drivers, V(model) the estimate of Kepler 0.9 and earlier.
    - V(none) is no meter. This module knows no BMCs and therefore never returns V(redfish).
  returned: success
  type: str
  sample: rapl
reasons:
  description: Sentences why Kepler can or cannot meter the node, one at least.
  returned: success
  type: list
  elements: str
  sample: ["RAPL zones package-0 and dram can be read"]
source:
  description: V(host), because the host was read.
  returned: success
  type: str
  sample: host
architecture:
  description: Processor architecture as Kubernetes names it; V(unknown) if it is not visible.
  returned: success
  type: str
  sample: amd64
operating_system:
  description: V(linux).
  returned: success
  type: str
  sample: linux
kernel:
  description: Release of the kernel.
  returned: success
  type: str
  sample: 5.14.0-427.13.1.el9_4.x86_64
cpu_model:
  description: Model name of the processor.
  returned: success
  type: str
  sample: Intel(R) Xeon(R) Gold 6338 CPU @ 2.00GHz
microarchitecture:
  description: Name of the microarchitecture in small letters.
  returned: success
  type: str
  sample: icelake
virtualization:
  description: V(none) on bare metal, else the hypervisor as systemd-detect-virt names it, such as
    V(kvm) or V(vmware). V(vm-other) is an unknown hypervisor, V(unknown) no evidence.
  returned: success
  type: str
  sample: none
cgroup_version:
  description: V(v1), V(v2), V(hybrid) or V(unknown).
  returned: success
  type: str
  sample: v2
cgroup_driver:
  description: Driver of the kubelet, V(systemd), V(cgroupfs) or V(unknown).
  returned: success
  type: str
  sample: systemd
rapl_zones:
  description: RAPL zones; null if C(/sys/class/powercap) is not visible.
  returned: success
  type: list
  elements: dict
  contains:
    path:
      description: Folder of the zone in C(/sys/class/powercap).
      type: str
      sample: intel-rapl:0
    name:
      description: Name of the zone, such as V(package-0), V(core), V(uncore), V(dram) or V(psys).
      type: str
      sample: package-0
    max_energy_range_uj:
      description: Microjoules at which the counter starts again; null if they cannot be read.
      type: int
      sample: 262143328850
    readable:
      description: Whether the counter can be read.
      type: bool
      sample: true
    problem:
      description: Reason why it cannot be read; empty if it can.
      type: str
      sample: ""
hwmon_sensors:
  description: Sensors of power and energy, and pairs of voltage and current, which Kepler
    multiplies; null if C(/sys/class/hwmon) is not visible. Disabled sensors are left out.
  returned: success
  type: list
  elements: dict
  contains:
    path:
      description: File of the sensor, of a pair that of the voltage, in C(/sys/class/hwmon).
      type: str
      sample: hwmon0/power1_average
    chip:
      description: Name of the chip.
      type: str
      sample: power_meter
    label:
      description: Label of the sensor; empty if it has none.
      type: str
      sample: ""
    type:
      description: V(power), V(energy), or V(voltage_current) for a pair of voltage and current.
      type: str
      sample: power
    scope:
      description: V(machine) for the ACPI meter of the whole machine, else V(component).
      type: str
      sample: machine
    readable:
      description: Whether the sensor can be read, and its reading is plausible.
      type: bool
      sample: true
    problem:
      description: Reason why it cannot be used; empty if it can.
      type: str
      sample: ""
kernel_headers:
  description: Whether headers of the running kernel are installed; null if that is not visible.
  returned: success
  type: bool
  sample: true
btf:
  description: Whether the kernel has BTF, its type information; null if that is not visible.
  returned: success
  type: bool
  sample: true
gpus:
  description: Display controllers and accelerators on PCI, without those of BMCs and hypervisors;
    null if C(/sys/bus/pci) is not visible.
  returned: success
  type: list
  elements: dict
  contains:
    address:
      description: PCI address.
      type: str
      sample: "0000:3b:00.0"
    vendor:
      description: V(nvidia), V(amd), V(intel) or V(other).
      type: str
      sample: nvidia
    vendor_id:
      description: PCI vendor ID.
      type: str
      sample: "0x10de"
    device_id:
      description: PCI device ID.
      type: str
      sample: "0x20b5"
    type:
      description: V(vga), V(3d), V(display) or V(accelerator).
      type: str
      sample: 3d
problems:
  description: Files and folders that could not be read, each with its reason.
  returned: success
  type: list
  elements: str
  sample: []
"""

from ..module_utils.kepler.node.probe import SPEC, read_node
from ..module_utils.module_runner import run_module


def main() -> None:
    run_module(SPEC, read_node)


if __name__ == "__main__":
    main()
