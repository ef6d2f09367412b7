# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The steps of a run: one function each, from the outputs of earlier steps to its own.

Each step records its time, counts and errors in the log of the run, and writes its documents.
"""
