# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Hardware of one machine in its Redfish tree: processors, memory, disks, interfaces, PCI devices.

Entry points: ``walk.Walk`` reads the tree, ``facts.Facts`` checks each fact of any source.
"""
