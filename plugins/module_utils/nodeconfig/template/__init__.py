# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The subset of Go's text/template and of sprig's functions for NodeConfigTemplates.

Actions may have variables, pipelines, parentheses and literals. Control structures, definitions and
other functions are refused by name. A text renders completely or raises InvalidInput, which names
the column.
"""
