# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The part of Go's text/template, with some of sprig's functions, that NodeConfigTemplates use.

Actions with variables, pipelines, parentheses and literals. Control structures, definitions and
other functions are refused by name. Nothing is ever left as it stands: a text either renders
wholly or raises InvalidInput, which tells the column.
"""
