# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Hardware facts of a node, read on the node itself from /proc, /sys, /lib and /var/lib/kubelet.

Subroom ``node`` needs only the standard library, because it runs on nodes.
"""
