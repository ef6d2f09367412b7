# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Reasons why a device does not match a request, in the prototype's words, for both APIs."""

from __future__ import annotations

WRONG_DRIVER = "claim and pool driver do not match"
NOT_MET = "constraints not met"
