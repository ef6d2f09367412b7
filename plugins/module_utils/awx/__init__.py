# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""AWX: objects that run the playbooks, and their differences from the objects of an AWX.

Entry points are ``configuration.configure``, ``comparison.compare`` and
``files.as_variables_file``. The room plans only; the modules of the ``awx.awx`` collection read and
write.
"""
