# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Names of Kubernetes objects."""

from __future__ import annotations

import re
import typing as t

_SUBDOMAIN_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")


def is_subdomain(name: t.Any) -> bool:
    """Whether this is a valid name of a Node, Secret or NodeConfig (RFC 1123, 253 characters)."""
    return (
        isinstance(name, str)
        and len(name) <= 253
        and all(_SUBDOMAIN_LABEL.fullmatch(label) for label in name.split("."))
    )
