# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Bring many Kubernetes objects to their desired state in one go."""

from __future__ import annotations

from ansible_collections.wattwise.kube.plugins.module_utils.apply.work import SPEC, apply

__all__ = ["SPEC", "apply"]
