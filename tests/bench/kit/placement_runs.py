# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Outcomes of every strategy on one generated fleet."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace

from bench.kit.rows import Json
from bench.kit.stage import MIB, Call, Stage
from support.placement_fleets import PATTERNS, TEMPERATURES, Size, placement_task

PLACE = "power.placement:place"
LIBRARIES = ("numpy", "ortools.math_opt.python.mathopt")
OURS = "optimal"
PEERS = ("greedy", "minimize_power", "peaks", "spread")
# Above this size one strategy that goes pod by pod takes longer than all other fleets together.
MAX_NODES_FOR_ALL = 1000
SECONDS_FOR_MORE_NODES = 30


@dataclass(frozen=True)
class Outcome:
    """Outcome of one strategy; `added` are watts, `loaded` is memory before the call."""

    added: float
    unplaced: int
    gap: float
    seconds: float
    cpu_seconds: float
    mebibytes: float
    loaded_mebibytes: float


@dataclass(frozen=True)
class FleetRun:
    """A fleet and its outcomes by strategy; `least_added` is the lower bound of added power."""

    size: Size
    seed: int
    least_added: float
    proven: bool
    outcomes: dict[str, Outcome]

    @property
    def ours(self) -> Outcome:
        return self.outcomes[OURS]

    @property
    def case(self) -> str:
        """The kind of fleet, without size and seed."""
        size = self.size
        return f"{size.types} types, {size.requested:.0%}, {size.temperature}, {size.pattern}"

    def peer(self, name: str) -> Outcome | None:
        """A peer's outcome; None if it left pods that ours placed, or was not run."""
        found = self.outcomes.get(name)
        return found if found and found.unplaced == self.ours.unplaced else None

    def saved(self, name: str) -> float | None:
        """Percentage by which ours adds less power than the peer."""
        peer = self.peer(name)
        return 100 * (1 - self.ours.added / peer.added) if peer else None

    def savable(self, name: str) -> float | None:
        """Upper bound of the percentage that any placement could save against the peer."""
        peer = self.peer(name)
        return 100 * (1 - self.least_added / peer.added) if peer else None

    def as_json(self) -> Json:
        return asdict(self)

    @classmethod
    def from_json(cls, document: Json) -> FleetRun:
        outcomes = {name: Outcome(**each) for name, each in document["outcomes"].items()}
        return cls(**{**document, "size": Size(**document["size"]), "outcomes": outcomes})


def cases(base: Size) -> Iterator[Size]:
    """Fleets that vary one property at a time."""
    yield from (replace(base, requested=requested) for requested in (0.2, 0.5, 0.7, 0.88))
    yield from (replace(base, temperature=each) for each in TEMPERATURES if each != "rows")
    yield from (replace(base, types=types) for types in (5, 20))
    yield from (replace(base, pattern=each) for each in PATTERNS if each != "plain")
    asleep = replace(base, pattern="power_off")
    yield from (replace(asleep, requested=requested) for requested in (0.2, 0.7))


def fleet_run(stage: Stage, seed: int, size: Size) -> FleetRun:
    """Each strategy in a process of its own; measured once for all rows."""
    return stage.shared(f"placement {seed} {size}", lambda stage: _measured(stage, seed, size))


def _measured(stage: Stage, seed: int, size: Size) -> FleetRun:
    stage.say(f"  {size.title}")
    task = placement_task(seed, size)
    strategies: tuple[str, ...] = (OURS, *PEERS)
    if size.nodes > MAX_NODES_FOR_ALL:
        task, strategies = task | {"time_limit": SECONDS_FOR_MORE_NODES}, (OURS,)
    variants = [{"strategy": name} for name in strategies]
    calls = stage.calls(PLACE, task, variants, LIBRARIES)
    watts, proven = calls[0].result["watts"], calls[0].result["proven"]
    return FleetRun(
        size,
        seed,
        round(watts["lower_bound"] - watts["before"], 3),
        proven,
        {name: _outcome(call) for name, call in zip(strategies, calls, strict=True)},
    )


def _outcome(call: Call) -> Outcome:
    watts = call.result["watts"]
    return Outcome(
        added=round(watts["after"] - watts["before"], 3),
        unplaced=len(call.result["unplaced"]),
        gap=call.result["gap"],
        seconds=round(call.seconds, 3),
        cpu_seconds=round(call.cpu_seconds, 3),
        mebibytes=round(call.peak_bytes / MIB, 1),
        loaded_mebibytes=round(call.loaded_bytes / MIB, 1),
    )
