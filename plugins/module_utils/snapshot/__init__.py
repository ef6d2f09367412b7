# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The cluster as one document.

Entry points are ``snapshot.take``, and ``snapshot.read_cluster`` for the value only. ``run_owner``
keeps the documents of two runs apart.
"""
