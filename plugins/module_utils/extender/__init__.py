# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The kube-scheduler extender: scores of nodes by added power, and power limits.

``serving.main`` is the program. ``publication`` is the document that runs publish for it.
"""
