# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Bare-metal hosts: their capabilities, and their roles in a cluster.

A host comes from a BareMetalHost or from Redfish, as a ``host.Host``. ``bare_metal_host`` reads
hosts of all sources, ``assignment_request`` reads a Provisioning, ``roles`` assigns, and ``outputs``
has inventories and objects of the assignment.
"""
