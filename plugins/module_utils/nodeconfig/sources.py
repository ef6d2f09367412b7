# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Where NodeConfigs and their templates are read."""

from __future__ import annotations

import typing as t

from ..base.json_types import MutableObject
from ..fleet.urls import masked
from ..kube.source import Source, trim_custom
from .nodeconfig import GROUPS


def trim_node_config(obj: MutableObject) -> MutableObject:
    """A NodeConfig with its status; a password in an endpoint is masked."""
    trimmed = trim_custom(obj)
    if not isinstance(trimmed.get("spec"), dict):
        return trimmed
    spec = {
        part: {name: _masked_term(term) for name, term in terms.items()}
        if isinstance(terms, dict)
        else terms
        for part, terms in trimmed["spec"].items()
    }
    return {**trimmed, "spec": spec}


def _masked_term(term: t.Any) -> t.Any:
    endpoint = term.get("endpoint") if isinstance(term, dict) else None
    return {**term, "endpoint": masked(endpoint)} if isinstance(endpoint, str) else term


def _custom_paths(plural: str) -> tuple[str, ...]:
    return tuple(f"/apis/{group}/v1beta1/{plural}" for group in GROUPS)


NODE_CONFIGS = Source(_custom_paths("nodeconfigs"), trim_node_config, {}, optional=True)
NODE_CONFIG_TEMPLATES = Source(_custom_paths("nodeconfigtemplates"), trim_custom, {}, optional=True)
