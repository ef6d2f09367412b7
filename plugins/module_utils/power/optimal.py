# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The best placement found, with a bound on its distance from the optimum.

The linear relaxation of the fleet's node classes gives prices for the bound and a start, which local
search improves. Small tasks are then solved by HiGHS as a whole.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..solving.arrays import Integers
from ..solving.limits import Limits
from ..solving.linear import ABSOLUTE_GAP, Solution, Terms
from .bounds.answer import (
    PROOF_TOLERANCE_WATTS,
    Answer,
    StoppedBy,
    bound_with,
    ideal_pods,
    is_proof,
    pods_are_ideal,
)
from .bounds.lagrangian_subproblem import prices_of
from .bounds.lower_bound import LowerBounds
from .bounds.node_classes import find_node_classes
from .bounds.relaxation import Relaxation, relax
from .exact.mixed_integer_model import PlacementModel
from .model.assignment import Assignment
from .model.problem import Problem
from .model.repair import can_be_bound, settled
from .search import greedy, local_search
from .search.construction import construct
from .search.ejection_chain import eject
from .search.large_neighbourhood_search import search_neighbourhoods
from .search.load_search import search_by_loads
from .search.pattern_generation import deal_out_anew
from .search.warm_start import kept, previous_counts

_SEARCH_ROUNDS = 2000
# Largest fleets for HiGHS as a whole.
_MAX_NODES_FOR_A_MODEL = 100
# Approximate number of node classes in the relaxation.
_NODE_CLASSES = 100
# Searches for other starts and in neighbourhoods end at this share of the added power.
_GOOD_GAP = 0.003
# Another number of node classes leads to another start.
_OTHER_NODE_CLASSES = 60
_RESTARTED_NODES_PER_SECOND = 150
# Gap tolerance of HiGHS as a share of the added power; 0 in models of few columns.
_OPEN_GAP = 0.0002
_MAX_COLUMNS_FOR_A_PROOF = 100
# Limits of HiGHS: integer columns, and branching nodes times columns, for each second of the time
# limit. On an idle core that takes less than half of the limit, so the counted work ends before the
# clock, except on a very busy machine.
_INTEGER_COLUMNS_PER_SECOND = 70
_BRANCHING_WORK_PER_SECOND = 20_000
_MIN_BRANCHING_NODES = 10
# Solver tolerances may move a bound by this amount.
_MODEL_TOLERANCE_WATTS = 1e-5


def solve(problem: Problem, limits: Limits) -> Answer:
    """The strategy ``optimal``; the last plan never makes it worse."""
    if not problem.groups:
        # No pod waits, as in most runs, so no solver is loaded.
        nothing = Assignment(problem)
        return Answer(nothing, nothing.total_cost(), True, "local_search", "proof")
    bounds = LowerBounds(problem)
    answer = _solve_anew(bounds, limits)
    counts = previous_counts(problem)
    if counts is None:
        return answer
    best = kept(answer.assignment, counts, lambda last: _improved(last, limits))
    lower_bound = answer.lower_bound
    if (best.counts.sum(axis=1) != answer.assignment.counts.sum(axis=1)).any():
        lower_bound = bound_with(bounds, best, None)
    proven = answer.proven or is_proof(best, lower_bound)
    stopped_by = _stopped_by(proven, limits, otherwise=answer.stopped_by)
    return Answer(best, lower_bound, proven, answer.method, stopped_by)


@dataclass
class _Incumbent:
    """The best assignment so far, and a lower bound for the pods that it places."""

    bounds: LowerBounds
    limits: Limits

    def __post_init__(self) -> None:
        self.relaxation = self._relaxed(_NODE_CLASSES, self.bounds.problem.count)
        self.best = _start(self.bounds.problem, self.relaxation, self.limits)
        self.bound = self._bound(self.relaxation)

    def _relaxed(self, node_classes: int, most: Integers) -> Relaxation | None:
        problem, functions = self.bounds.problem, self.bounds.functions
        return relax(
            problem, find_node_classes(problem, functions, node_classes), most, self.limits
        )

    def _bound(self, relaxation: Relaxation | None) -> float:
        bounds, placed = self.bounds, self.best.counts.sum(axis=1)
        if self.best.left().any():
            relaxation = self._relaxed(_NODE_CLASSES, placed)
        prices = None
        if relaxation is not None:
            prices = bounds.tighten(prices_of(bounds.problem, relaxation), placed)
        return bound_with(bounds, self.best, prices)

    def _offer(self, found: Assignment) -> None:
        """Take a better assignment. Other pods than before need another bound."""
        placed = self.best.counts.sum(axis=1)
        self.best = max(self.best, found, key=Assignment.rank)
        if (self.best.counts.sum(axis=1) != placed).any():
            self.bound = self._bound(self.relaxation)

    def is_good(self) -> bool:
        return self.best.total_cost() - self.bound <= _GOOD_GAP * _added(self.best)

    def is_proven(self) -> bool:
        return is_proof(self.best, self.bound)

    def start_again(self) -> None:
        """Start from other node classes, which also give another bound."""
        problem = self.bounds.problem
        relaxation = self._relaxed(_OTHER_NODE_CLASSES, problem.count)
        if relaxation is not None:
            self._offer(_start(problem, relaxation, self.limits))
            self.bound = max(self.bound, self._bound(relaxation))

    def deal_out_anew(self) -> None:
        """Column generation, whose rounded solution local search improves."""
        if self.relaxation is not None:
            price, limits = self.relaxation.pod, self.limits
            counts = deal_out_anew(self.best, self.bounds.functions, price, limits)
            if counts is not None:
                self._offer(_improved(settled(self.bounds.problem, counts), limits))

    def search_by_loads(self) -> None:
        best, limits = self.best, self.limits
        found, self.bound = search_by_loads(best, self.bound, limits)
        self._offer(_bindable(found, best, limits))

    def search_neighbourhoods(self) -> None:
        best, limits = self.best, self.limits
        enough = self.bound + _GOOD_GAP * _added(best)
        found = search_neighbourhoods(best, self.bounds.functions, enough, limits)
        self._offer(_bindable(found, best, limits))


def _solve_anew(bounds: LowerBounds, limits: Limits) -> Answer:
    nodes = len(bounds.problem.instance.nodes)
    incumbent = _Incumbent(bounds, limits)
    may_restart = nodes <= limits.seconds * _RESTARTED_NODES_PER_SECOND
    if not incumbent.is_good() and may_restart and not limits.expired():
        incumbent.start_again()
    if not incumbent.is_good():
        incumbent.deal_out_anew()
    if not incumbent.is_proven() and nodes <= _MAX_NODES_FOR_A_MODEL:
        incumbent.search_by_loads()
        incumbent.search_neighbourhoods()
    best, bound, proven = incumbent.best, incumbent.bound, incumbent.is_proven()
    if not proven:
        model = _whole_model(bounds, best, limits)
        if model is not None and not _is_good_enough(best, bound, model):
            return _solve_whole(bounds, model, best, bound, limits)
    stopped_by = _stopped_by(proven, limits, otherwise="completed")
    return Answer(best, bound, proven, "local_search", stopped_by)


def _is_good_enough(best: Assignment, bound: float, model: PlacementModel) -> bool:
    """Whether HiGHS could gain only milliwatts, and not instantly."""
    return pods_are_ideal(best) and best.total_cost() - bound <= _open_watts(best, model)


def _open_watts(best: Assignment, model: PlacementModel) -> float:
    """A gap in watts that HiGHS need not close."""
    if model.integer_columns <= _MAX_COLUMNS_FOR_A_PROOF:
        return ABSOLUTE_GAP
    return max(ABSOLUTE_GAP, _OPEN_GAP * _added(best))


def _added(best: Assignment) -> float:
    return best.total_cost() - Assignment(best.problem).watts()


def _start(problem: Problem, relaxation: Relaxation | None, limits: Limits) -> Assignment:
    """The relaxation rounded and improved; without one pods go where they add the least power."""
    whole = Assignment(problem) if relaxation is None else construct(problem, relaxation)
    return _improved(settled(problem, whole.counts), limits)


def _filled(assignment: Assignment, limits: Limits) -> Assignment:
    """The assignment with as many further pods as find room, gangs only as a whole."""
    problem = assignment.problem
    start = greedy.filled(problem, assignment.counts)
    return max(start, settled(problem, eject(start, limits).counts), key=Assignment.rank)


def _bindable(found: Assignment, before: Assignment, limits: Limits) -> Assignment:
    """The result of a search, or its bindable part if that is better than before the search.

    Moves keep all rules in the final state, but not the order of binding.
    """
    if can_be_bound(found):
        return found
    return max(before, _filled(found, limits), key=Assignment.rank)


def _improved(assignment: Assignment, limits: Limits) -> Assignment:
    start = _filled(assignment, limits)
    found = _searched(Assignment(start.problem, start.counts.copy()), limits)
    if len(found.problem.instance.nodes) > _MAX_NODES_FOR_A_MODEL:
        return found
    return _bindable(found, start, limits)


def _searched(assignment: Assignment, limits: Limits) -> Assignment:
    local_search.improve(assignment, limits, _SEARCH_ROUNDS)
    while assignment.left().any():
        # The search may have made room.
        found = greedy.filled(assignment.problem, assignment.counts)
        if found.rank()[0] <= assignment.rank()[0]:
            break
        assignment = found
        local_search.improve(assignment, limits, _SEARCH_ROUNDS)
    return assignment


def _whole_model(bounds: LowerBounds, best: Assignment, limits: Limits) -> PlacementModel | None:
    """A model of the whole fleet; None if HiGHS cannot solve it in the time."""
    problem = bounds.problem
    nodes = range(len(problem.instance.nodes))
    if len(nodes) > _MAX_NODES_FOR_A_MODEL:
        return None
    most = best.counts.sum(axis=1) if pods_are_ideal(best) else problem.count
    model = PlacementModel(problem, bounds.functions, nodes, most)
    most_columns = limits.seconds * _INTEGER_COLUMNS_PER_SECOND
    return model if model.integer_columns <= most_columns else None


def _solve_whole(
    bounds: LowerBounds, model: PlacementModel, best: Assignment, lower_bound: float, limits: Limits
) -> Answer:
    """One model of everything: first the placed pods, if they are not proven, then the power."""
    problem = bounds.problem
    pods_proven = pods_are_ideal(best)
    settled_best = None if pods_proven else _settle_pods(model, best, limits)
    if settled_best is not None:
        best, pods_proven = settled_best, True
        # Other pods may be placed now than those that the bound was for.
        lower_bound = bound_with(bounds, best, None)
    elif not pods_proven:
        placed = best.counts.sum(axis=1)
        model = PlacementModel(problem, bounds.functions, model.nodes, placed)
    if settled_best is None:
        _keep_pods(model, best)
    model.minimize_cost()
    solution = model.solve(limits, _branching_nodes(model, limits), _open_watts(best, model))
    best = _better(problem, best, model, solution, limits)
    model_bound = model.bound(solution) - _MODEL_TOLERANCE_WATTS
    proven = pods_proven and best.total_cost() - model_bound <= PROOF_TOLERANCE_WATTS
    # Placements outside of the model are no better than the one found before.
    model_bound = min(model_bound, best.total_cost())
    stopped_by = _stopped_by(proven, limits, otherwise="work_limit")
    return Answer(best, max(lower_bound, model_bound), proven, "mip", stopped_by)


def _settle_pods(model: PlacementModel, best: Assignment, limits: Limits) -> Assignment | None:
    """Add rows that fix the most pods by priority, and the fewest on unpriced nodes.

    Returns an assignment that meets them; None if the optimum was not found within the limits.
    """
    problem = model.problem
    placed, room = best.counts.sum(axis=1), ideal_pods(problem)
    found = best
    for level in problem.levels:
        least = [(column, -1.0) for column, _one in model.placed_in(level)]
        if found is best and placed[level].sum() == room[level].sum():
            model.model.at_most(least, -int(room[level].sum()))
            continue
        solution = _optimum(model, least, limits)
        if solution is None:
            return None
        found = Assignment(problem, model.counts(solution))
    solution = _optimum(model, model.on_unpriced_nodes(), limits)
    if solution is None:
        return None
    found = Assignment(problem, model.counts(solution))
    better = _better(problem, best, model, solution, limits)
    return better if better.rank()[:2] == found.rank()[:2] else None


def _optimum(model: PlacementModel, objective: Terms, limits: Limits) -> Solution | None:
    """The minimum of an integer sum, fixed by a row from now on; None without a proof."""
    model.minimize(objective)
    solution = model.solve(limits, _branching_nodes(model, limits))
    if not solution.is_optimal:
        return None
    optimum = sum(weight * solution.values[column] for column, weight in objective)
    model.model.at_most(objective, round(optimum))
    return solution


def _better(
    problem: Problem, best: Assignment, model: PlacementModel, solution: Solution, limits: Limits
) -> Assignment:
    """The better of an assignment and of a solution after local search."""
    if not solution.values:
        return best
    found = settled(problem, model.counts(solution))
    return max(best, _improved(found, limits), key=Assignment.rank)


def _keep_pods(model: PlacementModel, best: Assignment) -> None:
    """Add rows that place as many pods of each group as now, no more on unpriced nodes."""
    model.keep_placed(best.counts.sum(axis=1))
    model.model.at_most(model.on_unpriced_nodes(), best.unpriced_pods())


def _branching_nodes(model: PlacementModel, limits: Limits) -> int:
    work = limits.seconds * _BRANCHING_WORK_PER_SECOND
    return max(_MIN_BRANCHING_NODES, int(work / max(model.integer_columns, 1)))


def _stopped_by(proven: bool, limits: Limits, otherwise: StoppedBy) -> StoppedBy:
    if proven:
        return "proof"
    return "wall_clock" if limits.hit else otherwise
