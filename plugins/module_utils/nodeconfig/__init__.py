# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""NodeConfigs and their templates, their targets, and the poll of targets.

Room ``nodeconfig`` imports ``base``, ``kube`` and ``fleet``.
"""
