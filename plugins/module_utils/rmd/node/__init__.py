# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""CPUs of containers, read on the node itself from control groups and kubelet's records.

Subroom ``node`` needs only the standard library, because it runs on the pods' nodes.
"""
