# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""A whole run in one process: composition of the library, and nothing else.

Others call ``reconciliation.reconcile_fleet`` and read ``options.SPEC``. Each step is one call of
the function that the module of that step calls. Only ``report`` lies above this room.
"""
