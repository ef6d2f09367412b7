# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The rack of a node, by its labels."""

from __future__ import annotations

import typing as t

# In order of precedence.
RACK_LABELS = ("wattwise.github.io/rack", "topology.kubernetes.io/rack")


def rack_of(labels: t.Mapping[str, t.Any]) -> str:
    """The rack; empty without one."""
    return next((str(labels[one]) for one in RACK_LABELS if one in labels), "")
