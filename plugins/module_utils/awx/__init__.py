# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""AWX: the objects that run the playbooks there, and their differences from those that AWX has.

The room plans only; the modules of collection ``awx.awx`` read and write. Room ``awx`` imports
``base``.
"""
