# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Placement of pods so that the fleet draws the least power, the work of power_placement."""

from __future__ import annotations

import math
import typing as t
from dataclasses import replace

from ..base import documents, metrics
from ..base.argspec import ArgumentSpec
from ..base.boundary import warn_of
from ..base.context import Context, Parameters, Result
from ..base.errors import InvalidInput
from ..scheduling.model import MICROCORES_PER_CORE, Node
from ..scheduling.plan import Plan
from ..solving.limits import LIMITS, Limits
from . import optimal
from .baselines import placers
from .bounds.answer import Answer, answer_with_bound, bound_with, is_proof
from .bounds.lower_bound import LowerBounds
from .limits.domains import Limited
from .limits.enforcement import within
from .limits.options import WATTS, PowerLimits
from .model.assignment import Assignment
from .model.problem import Problem, build_problem
from .model.repair import can_be_bound
from .rebalance import propose
from .results import outcome, plan_of
from .search import greedy
from .sources import Source, instance_of, read_source

_BASELINES: t.Mapping[str, t.Callable[[Problem], Assignment]] = {
    "greedy": placers.greedy,
    "minimize_power": placers.minimize_power,
    "peaks": placers.peaks,
    "spread": placers.spread,
}

STRATEGIES = ("optimal", *_BASELINES)

# Parameters that a snapshot or a file supplies, in addition to the nodes.
_PARTS = (
    *("pods", "running", "namespaces", "replica_sets", "pod_disruption_budgets"),
    *("rmd_node_states", "device_objects", "volume_objects"),
)

# Options of the placement itself, which the step of a run has, too.
OPTIONS = ArgumentSpec(
    {
        "device_power": {"type": "str"},
        "scheduler_name": {"type": "str", "default": "wattwise"},
        "usage_source": {
            "type": "str",
            "default": "auto",
            "choices": ["auto", "metrics", "requests"],
        },
        "pod_usage_assumption": {"type": "float", "default": 0.8},
        "strategy": {"type": "str", "default": "optimal", "choices": list(STRATEGIES)},
        "compare": {"type": "list", "elements": "str", "default": [], "choices": list(STRATEGIES)},
        "allow_power_off": {"type": "bool", "default": False},
        "standby_watts": {"type": "float", "default": 0.0},
        "preference_watts": {"type": "float", "default": 1.0},
        "unpriced": {
            "type": "str",
            "default": "last_resort",
            "choices": ["last_resort", "exclude"],
        },
        "rebalance": {"type": "bool", "default": False},
        "min_gain_watts": {"type": "float", "default": 5.0},
        "max_moves": {"type": "int", "default": 10},
        "textfile": {"type": "path"},
        "textfile_labels": {"type": "dict", "default": {}},
    }
).merge(LIMITS)

SPEC = ArgumentSpec(
    {
        "snapshot": {"type": "path"},
        "curves": {"type": "path"},
        "src": {"type": "list", "elements": "path"},
        **{part: {"type": "list", "elements": "dict"} for part in ("nodes", *_PARTS)},
        "previous": {"type": "path"},
        "previous_placements": {"type": "list", "elements": "dict"},
        "path": {"type": "path"},
        "limits": {"type": "dict", "options": dict(WATTS), "default": {}},
    },
    mutually_exclusive=(
        ("snapshot", "nodes"),
        ("snapshot", "src"),
        *(("snapshot", part) for part in _PARTS),
        ("previous", "previous_placements"),
    ),
    required_one_of=(("snapshot", "nodes", "src"),),
    required_by={"snapshot": ["curves"]},
).merge(OPTIONS)

_RANGES: tuple[tuple[str, str, t.Callable[[float], bool]], ...] = (
    ("pod_usage_assumption", "from 0 to 1", lambda value: 0 <= value <= 1),
    ("standby_watts", "0 watts or more", lambda value: value >= 0),
    ("preference_watts", "0 watts or more", lambda value: value >= 0),
    ("min_gain_watts", "more than 0 watts", lambda value: value > 0),
    ("max_moves", "0 or more", lambda value: value >= 0),
)
_NODES_NAMED_IN_A_WARNING = 3


def place(parameters: Parameters, context: Context = Context()) -> Result:
    """Find a node for every pod that waits for one; change nothing in the cluster.

    The result is that of the module; with ``path`` it is also written as a plan document. Raises
    InvalidInput and MissingLibrary.
    """
    parameters = SPEC.complete(parameters)
    check_options(parameters)
    made_from = documents.MadeFrom.read(parameters["snapshot"], parameters["curves"])
    limits = Limits.of(parameters)
    source = replace(read_source(parameters), limited=Limited(PowerLimits.of(parameters["limits"])))
    plan = place_pods(source, parameters, limits, context)
    result = plan.as_document()
    if parameters["path"]:
        digest = documents.write(parameters["path"], "plan", result, made_from)
        result.update(path=parameters["path"], sha256=digest)
    return {"changed": False, **result}


def place_pods(source: Source, parameters: Parameters, limits: Limits, context: Context) -> Plan:
    """The plan for the readable parts of a cluster; ``parameters`` are completed and checked.

    ``limits`` come from the parameters, and began before the parts were read. With ``textfile`` the
    predicted power of nodes is written there. Raises InvalidInput and MissingLibrary.
    """
    instance = instance_of(source, parameters, limits)
    findings = [*source.findings, *instance.findings]
    warn_of(findings, context)
    problem = build_problem(instance, limits.is_too_late)
    strategy, is_late = parameters["strategy"], limits.hit
    answer = _within_limits(_feasible(_solve(problem, strategy, limits.begin())), strategy, limits)
    if is_late:
        answer = replace(answer, proven=False, stopped_by="wall_clock")
    _warn_of_short_curves(answer.assignment, context)
    plan = replace(plan_of(answer), findings=[finding.as_dict() for finding in findings])
    if parameters["rebalance"]:
        plan = replace(plan, steps=propose(source, parameters, answer.assignment))
    if parameters["compare"]:
        found = {strategy: answer.assignment}
        for name in parameters["compare"]:
            if name not in found:
                found[name] = _assigned(answer.assignment.problem, name, Limits.of(parameters))
        kept = [
            (name, _kept(found[name], name, Limits.of(parameters)))
            for name in parameters["compare"]
        ]
        plan = replace(plan, comparison=[outcome(*each) for each in kept])
    if parameters["textfile"]:
        text = _predicted_power(instance.nodes, parameters["textfile_labels"])
        metrics.write(parameters["textfile"], text)
    return plan


def _predicted_power(nodes: t.Iterable[Node], labels: metrics.Labels) -> str:
    """The metrics of the predicted power by node, from its curve at its present CPU use.

    A node without a curve, without a known use, or with a use beyond the ends of its curve is left
    out, because its model does not cover the present. The metrics are in a separate file from the
    readings, which other steps write at other times. Raises InvalidInput for labels that Prometheus
    does not accept.
    """
    metrics.check_labels(labels)
    uses = ((node, node.use_microcores / MICROCORES_PER_CORE) for node in nodes)
    watts = {
        node.name: node.curve.watts_at(use)
        for node, use in uses
        if node.curve is not None and node.curve.covers(use)
    }
    samples = [({"node": name}, watts[name]) for name in sorted(watts)]
    text = "Power that the model of a node predicts at its present CPU use."
    return metrics.family("wattwise_predicted_power_watts", text, samples, labels)


def _solve(problem: Problem, strategy: str, limits: Limits) -> Answer:
    """The answer of a strategy to a problem."""
    if strategy == "optimal":
        return optimal.solve(problem, limits)
    return answer_with_bound(_BASELINES[strategy](problem), strategy)


def _assigned(problem: Problem, strategy: str, limits: Limits) -> Assignment:
    """The assignment of a strategy, without a bound for baselines."""
    if strategy == "optimal":
        return optimal.solve(problem, limits).assignment
    return _BASELINES[strategy](problem)


def _feasible(answer: Answer) -> Answer:
    """The answer, or its bindable part.

    Strategies that imitate other placers may break rules between pods that these ignore.
    """
    assignment = answer.assignment
    if assignment.is_feasible() and can_be_bound(assignment):
        return answer
    problem = assignment.problem
    repaired = greedy.filled(problem, assignment.counts)
    lower_bound = bound_with(LowerBounds(problem), repaired, None)
    proven = is_proof(repaired, lower_bound)
    stopped_by = "completed" if answer.stopped_by == "proof" and not proven else answer.stopped_by
    return replace(
        answer, assignment=repaired, lower_bound=lower_bound, proven=proven, stopped_by=stopped_by
    )


def _within_limits(answer: Answer, strategy: str, limits: Limits) -> Answer:
    """The answer, or the best one found that keeps the power limits."""
    kept = _kept(answer.assignment, strategy, limits)
    if kept is answer.assignment:
        return answer
    found = answer_with_bound(kept, answer.method)
    return replace(found, stopped_by="wall_clock") if limits.hit else found


def _kept(assignment: Assignment, strategy: str, limits: Limits) -> Assignment:
    """The assignment, or the best one found within the power limits."""

    def kept(start: Assignment, name: str) -> Assignment:
        def again(problem: Problem) -> Assignment:
            return _feasible(_solve(problem, name, limits.begin())).assignment

        return within(start, again, limits.is_too_late)

    found = kept(assignment, strategy)
    if found is assignment or strategy != "optimal":
        return found
    # Within limits the greedy order sometimes has room for another pod.
    greedily = _feasible(_solve(assignment.problem, "greedy", limits)).assignment
    return max(found, kept(greedily, "greedy"), key=Assignment.rank)


def check_options(parameters: Parameters) -> None:
    """Check the ranges of numbers, which an argument specification cannot express.

    Raises InvalidInput.
    """
    Limits.of(parameters)
    PowerLimits.of(parameters["limits"])
    for name, meaning, is_valid in _RANGES:
        value = parameters[name]
        if not math.isfinite(value) or not is_valid(value):
            raise InvalidInput(f"{name}: {value} is not allowed; it must be {meaning}")


def _warn_of_short_curves(assignment: Assignment, context: Context) -> None:
    """A warning about uses beyond the ends of curves, which are never extrapolated."""
    outside = [
        node.name
        for node, added in zip(assignment.problem.instance.nodes, assignment.use.tolist())
        if node.curve is not None
        and not all(
            node.curve.covers(use / MICROCORES_PER_CORE)
            for use in (node.use_microcores, node.use_microcores + added)
        )
    ]
    if outside:
        named = ", ".join(outside[:_NODES_NAMED_IN_A_WARNING])
        more = len(outside) - _NODES_NAMED_IN_A_WARNING
        context.warn(
            f"The CPU use of {named}{f' and {more} more nodes' if more > 0 else ''} is beyond the "
            "ends of their power curves, which count as flat there; predict, record or "
            "state a wider range"
        )
