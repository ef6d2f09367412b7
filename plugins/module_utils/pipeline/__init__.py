# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""A whole run in one process: only composition of the library.

Entry points are ``reconciliation.reconcile_fleet`` and ``options.SPEC``. Each step is one call of
the function behind the module of that step.
"""
