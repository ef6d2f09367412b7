# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One visit of RMD daemons, for a process that imports only the library."""

from __future__ import annotations

import typing as t

from ansible_collections.wattwise.kube.plugins.module_utils.rmd.cluster import reconcile_objects


def visit(given: dict[str, t.Any]) -> None:
    """Raises WattwiseError if a daemon does not answer."""
    if failure := reconcile_objects(given["objects"], given["options"]).failure:
        raise failure
