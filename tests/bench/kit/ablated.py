# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Placement with one stage of its solver switched off, in a process that ends after the call.

The library has no switches, so the name that calls a stage is rebound in this process. A missing
name is an error, which keeps this list in step with the library.
"""

from __future__ import annotations

import importlib
import typing as t
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

Json = dict[str, t.Any]

LIBRARY = "ansible_collections.wattwise.kube.plugins.module_utils"
OPTIMAL = "power.optimal"


@dataclass(frozen=True)
class SolverStage:
    """A switched-off stage: `module.name` becomes `value`; `files` belong to the stage alone."""

    module: str
    name: str
    value: object
    files: Sequence[str] = ()

    def switch_off(self) -> None:
        owner: t.Any = importlib.import_module(f"{LIBRARY}.{self.module}")
        *path, name = self.name.split(".")
        for each in path:
            owner = getattr(owner, each)
        getattr(owner, name)
        setattr(owner, name, self.value)

    def lines(self, library: Path) -> int:
        """Number of lines in the stage's own files; 0 if it shares its files."""
        return sum(len((library / name).read_text("utf-8").splitlines()) for name in self.files)


class _NoSteps:
    """Replaces a table of moves or exchanges."""

    def __init__(self, *_arguments: object) -> None:
        pass

    def steps(self) -> list[t.Any]:
        return []

    def forget(self, _nodes: object) -> None:
        pass


def _first(value: t.Any, *_others: object) -> t.Any:
    return value


def _first_two(first: t.Any, second: t.Any, *_others: object) -> tuple[t.Any, t.Any]:
    return first, second


def _second(_owner: object, value: t.Any, *_others: object) -> t.Any:
    return value


def _none(*_arguments: object) -> None:
    return None


def _no(*_arguments: object) -> bool:
    return False


LOCAL_SEARCH = "power.search.local_search"

STAGES: dict[str, SolverStage] = {
    "linear relaxation": SolverStage(
        OPTIMAL,
        "_Incumbent._relaxed",
        _none,
        (
            "power/bounds/relaxation.py",
            "power/bounds/node_classes.py",
            "power/search/construction.py",
        ),
    ),
    "another start, from other node classes": SolverStage(OPTIMAL, "_Incumbent.start_again", _none),
    "moves": SolverStage(LOCAL_SEARCH, "Moves", _NoSteps),
    "exchanges": SolverStage(LOCAL_SEARCH, "Exchanges", _NoSteps),
    "exchanges of one for several": SolverStage(LOCAL_SEARCH, "_NUMBERS", (1,)),
    "ejection chain": SolverStage(
        OPTIMAL,
        "eject",
        _first,
        (
            "power/search/ejection_chain.py",
            "power/search/infeasible_space_tabu_search.py",
        ),
    ),
    "column generation over nodes' contents": SolverStage(
        OPTIMAL,
        "deal_out_anew",
        _none,
        (
            "power/search/pattern_generation.py",
            "power/search/pattern_knapsack.py",
            "solving/growing_model.py",
        ),
    ),
    "large neighbourhood search": SolverStage(
        OPTIMAL,
        "search_neighbourhoods",
        _first,
        ("power/search/large_neighbourhood_search.py",),
    ),
    "fewest awake nodes": SolverStage(
        "power.bounds.relaxation",
        "_Builder.keeps_too_few_awake",
        _no,
        ("power/bounds/awake_nodes.py",),
    ),
    "two-node re-optimisation and its bound": SolverStage(
        OPTIMAL,
        "search_by_loads",
        _first_two,
        (
            "power/bounds/dynamic_programming_bound.py",
            "power/bounds/loads.py",
            "power/bounds/subset_sums.py",
            "power/search/load_search.py",
            "power/search/two_node_reoptimization.py",
        ),
    ),
    "dynamic-programming bound": SolverStage(
        "power.search.load_search",
        "dynamic_programming_bound",
        _none,
        ("power/bounds/dynamic_programming_bound.py",),
    ),
    "prices of resources": SolverStage("power.bounds.lower_bound", "LowerBounds.tighten", _second),
    "mixed-integer model": SolverStage(
        OPTIMAL,
        "_whole_model",
        _none,
        (
            "power/exact/mixed_integer_model.py",
            "power/exact/relation_rows.py",
            "power/exact/loop_formulas.py",
            "power/exact/no_good_cuts.py",
        ),
    ),
}


def place(parameters: Json) -> Json:
    """Run power_placement; `without` names the stage to switch off, or is empty."""
    placing: Callable[[Json], Json] = importlib.import_module(f"{LIBRARY}.power.placement").place
    given = dict(parameters)
    without = given.pop("without")
    if without:
        STAGES[without].switch_off()
    result = placing(given)
    return {key: result[key] for key in ("watts", "unplaced", "gap", "proven", "stopped_by")}
