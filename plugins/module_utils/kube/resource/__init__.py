# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""A custom resource: its spec as options, its conditions, and one run for it with a status.

Entry points: ``run.Work``, ``conditions.condition``, ``spec_options.of_manifest``.
"""
