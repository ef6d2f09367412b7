# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Typed access to the fields of objects that others wrote.

``strict`` raises for a value of another type, ``lenient`` counts it as missing.
"""
