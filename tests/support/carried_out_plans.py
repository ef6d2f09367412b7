# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The library functions of steps ``bind`` and ``evict`` for a plan document or literal entries."""

from __future__ import annotations

import typing as t

from ansible_collections.wattwise.kube.plugins.module_utils.base import documents
from ansible_collections.wattwise.kube.plugins.module_utils.base.argspec import ArgumentSpec
from ansible_collections.wattwise.kube.plugins.module_utils.base.context import Context
from ansible_collections.wattwise.kube.plugins.module_utils.bind import binding
from ansible_collections.wattwise.kube.plugins.module_utils.eviction import eviction
from ansible_collections.wattwise.kube.plugins.module_utils.kube.client import Kube
from ansible_collections.wattwise.kube.plugins.module_utils.scheduling.plan import Plan

Json = dict[str, t.Any]


def bind(parameters: Json, context: Context = Context()) -> Json:
    """Bind ``placements`` and mark ``unplaced``, or those of the document ``plan``."""
    options = _of(binding.SPEC, parameters)
    plan, kube = plan_of(parameters), Kube.connect(options)
    return binding.bind(kube, plan, options, context, lambda _bindings: None).as_result()


def move_pods(parameters: Json, context: Context = Context()) -> Json:
    """Make the moves of ``steps``, or those of the document ``plan``."""
    options = _of(eviction.SPEC, parameters)
    steps = plan_of(parameters).steps or ()
    return eviction.move_pods(Kube.connect(options), steps, options, context).as_result()


def _of(spec: ArgumentSpec, parameters: Json) -> Json:
    return spec.complete({key: value for key, value in parameters.items() if key in spec.options})


def plan_of(parameters: Json) -> Plan:
    """The plan of these parts in short form, or of the document ``plan``."""
    if parameters.get("plan"):
        return Plan.from_document(documents.load(parameters["plan"], "plan"))
    steps = [_step(one) for one in parameters.get("steps") or ()]
    return Plan.from_document({"placements": [], **parameters, "steps": steps})


def _step(short: Json) -> Json:
    moves = [{"namespace": "default", "gain_watts": 0.0, **move} for move in short.get("moves", ())]
    return {"gain_watts": 0.0, "cost_if_stopped_watts": 0.0, "asleep": [], **short, "moves": moves}
