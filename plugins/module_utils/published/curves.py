# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The nearest published measurements of a server, as one curve of shares of its load.

The nearest is the same processor; then its series, then a neighbouring generation. The series that
the vendor's server model implies count only if the processor is unknown. Power is scaled by the
number of cores.
"""

from __future__ import annotations

import functools
import math
import re
import typing as t
from dataclasses import dataclass, replace

from .processors import Series, is_model, maker_of, processor_name, series_of, without_tier
from .servers import series_of_server
from .table import ROWS

Match = t.Literal["processor", "series", "generation", "model"]
# From the nearest to the farthest.
MATCHES: tuple[Match, ...] = ("processor", "series", "generation", "model")

# Limits of similar generations and server sizes.
_MAX_GENERATIONS = 2
_MAX_DOUBLINGS = 2.0
# Exponent of watts by cores of a processor. The leave-one-out error over the table is 18.5 % on
# average; 20.5 % with watts in proportion to cores.
_EXPONENT = 0.5
_NUMBER = re.compile(r"\d|_max")
_THREADS = 2
# Weights of a generation, of another line of it, and of doubling cores per chip and chips.
_GENERATION, _VARIANT, _CORES, _CHIPS = 2.0, 0.5, 1.0, 0.5
# Single measurements differ by the server around the processor, so several are averaged.
_MAX_ROWS = 3
_AS_NEAR = 0.75


@dataclass(frozen=True)
class System:
    """Identity of a server; empty and None where unknown. ``cores`` of all its ``sockets``."""

    manufacturer: str = ""
    model: str = ""
    processor: str = ""
    sockets: t.Optional[int] = None
    cores: t.Optional[int] = None

    def __str__(self) -> str:
        server = " ".join(filter(None, (self.manufacturer, self.model)))
        return " with ".join(filter(None, (server, self.processor))) or "a server without a name"


@dataclass(frozen=True)
class Row:
    """One line of the table; ``watts`` at 0, 10, … 100 % load."""

    processor: str
    sockets: int
    cores: int
    watts: tuple[float, ...]

    @property
    def name(self) -> str:
        return f"{self.sockets} x {self.processor}, {self.cores} cores"


@dataclass(frozen=True)
class Published:
    """The power draw of a server at 0, 10, … 100 % load, and its measurements.

    ``scale`` is the ratio of its cores to the measured ones, ``generations`` their distance in
    generations.
    """

    watts: tuple[float, ...]
    match: Match
    rows: tuple[Row, ...]
    scale: float
    generations: int


@functools.lru_cache(maxsize=1)
def table() -> tuple[Row, ...]:
    """All published measurements."""
    lines = (line.split() for line in ROWS.strip().splitlines())
    return tuple(
        Row(name, int(sockets), int(cores), tuple(map(float, watts)))
        for name, sockets, cores, *watts in lines
    )


def rows_of(processor: str, rows: t.Sequence[Row] | None = None) -> list[Row]:
    """The measurements of a processor by firmware's name of its model."""
    name = processor_name(processor)
    if not _NUMBER.search(name):  # "Intel Xeon" would match all of them
        return []
    known = table() if rows is None else rows
    bare = without_tier(name)
    return (
        [row for row in known if processor_name(row.processor) == name]
        or [row for row in known if without_tier(row.processor) == bare]
        # Firmware omits the end: "Altra Max" of M128-30.
        or [row for row in known if row.processor.startswith(f"{name}_")]
    )


def cores_of(system: System, cpu_capacity: float, *, is_arm: bool = False) -> float:
    """Cores of the server; if unknown, from its CPUs, two per core on x86."""
    return float(system.cores or 0) or cpu_capacity / (1 if is_arm else _THREADS)


def match(
    system: System, cpu_capacity: float, rows: t.Sequence[Row] | None = None
) -> Published | str:
    """The nearest published measurements, or the reason of none.

    ``rows`` are all measurements, the shipped ones if None.
    """
    known = table() if rows is None else rows
    processor = system.processor or system.model
    series = series_of(processor_name(processor))
    told = () if series else series_of_server(system.manufacturer, system.model)
    is_arm = any(one.line == "Arm" for one in ((series,) if series else told))
    cores = cores_of(system, cpu_capacity, is_arm=is_arm)
    same = _of_like_size(rows_of(processor, known), cores)
    if same:
        nearest = min(_doublings(row.cores, cores) for row in same)
        # The same processor with another count is scaled too.
        chosen = [row for row in same if _doublings(row.cores, cores) == nearest]
        return _published("processor", chosen, system.sockets, cores, 0)
    if series is not None:
        return _nearest(system, (series,), cores, known) or _too_far(system, cores)
    if not told:
        return f"no published measurement is of {system}"
    if _contradicts(processor_name(system.processor), told):
        return (
            f"no published measurement is of {system}: its processor is of no measured series, and "
            "those of its model are others"
        )
    found = _nearest(system, told, cores, known)
    return replace(found, match="model") if found else _too_far(system, cores)


def _contradicts(processor: str, told: tuple[Series, ...]) -> bool:
    """Whether the processor is known, and not one that the server's model implies."""
    maker = maker_of(processor)
    return is_model(processor) or bool(maker and all(one.maker != maker for one in told))


def _of_like_size(rows: t.Iterable[Row], cores: float) -> list[Row]:
    return [row for row in rows if _doublings(row.cores, cores) <= _MAX_DOUBLINGS]


def _doublings(one: float, other: float) -> float:
    """Number of doublings from the smaller to the larger."""
    return abs(math.log2(one / other))


class _Candidate(t.NamedTuple):
    """A measurement of a series, and its distance from the server."""

    distance: float
    generations: int
    row: Row


def _nearest(
    system: System, wanted: tuple[Series, ...], cores: float, rows: t.Sequence[Row]
) -> Published | None:
    """The mean of the nearest measurements of any of the series; None if none is near."""
    near = sorted(
        _candidates(system, wanted, cores, rows),
        key=lambda one: (one.distance, one.generations, one.row.name),
    )
    if not near:
        return None
    first = near[0]
    chosen = dict.fromkeys(
        one.row
        for one in near
        if one.distance <= first.distance + _AS_NEAR and one.generations == first.generations
    )
    by: Match = "generation" if first.generations else "series"
    return _published(by, list(chosen)[:_MAX_ROWS], system.sockets, cores, first.generations)


def _candidates(
    system: System, wanted: tuple[Series, ...], cores: float, rows: t.Sequence[Row]
) -> t.Iterator[_Candidate]:
    for row in _of_like_size(rows, cores):
        series = series_of(row.processor)
        if series is None:
            continue
        for one in wanted:
            apart = abs(series.generation - one.generation)
            if series[:2] == one[:2] and apart <= _MAX_GENERATIONS:
                yield _Candidate(_distance(row, series, one, system.sockets, cores), apart, row)


def _distance(row: Row, series: Series, wanted: Series, sockets: int | None, cores: float) -> float:
    chips = row.sockets if sockets is None else sockets
    return (
        _GENERATION * abs(series.generation - wanted.generation)
        + _VARIANT * bool(wanted.variant and series.variant != wanted.variant)
        + _CORES * _doublings(row.cores / row.sockets, cores / chips)
        + _CHIPS * _doublings(row.sockets, chips)
    )


def _published(
    by: Match, rows: list[Row], sockets: int | None, cores: float, generations: int
) -> Published:
    columns = zip(*(_scaled(row, sockets, cores) for row in rows))
    watts = tuple(sum(column) / len(rows) for column in columns)
    scale = sum(cores / row.cores for row in rows) / len(rows)
    return Published(watts, by, tuple(rows), scale, generations)


def _scaled(row: Row, sockets: int | None, cores: float) -> list[float]:
    """Power draw of a server with these processors and cores, by the row.

    Processors of a series with more cores have slower ones. Idle power comes in part from the
    server around the processors.
    """
    on_a_chip = row.cores / row.sockets
    chips = (sockets or max(1, round(cores / on_a_chip))) / row.sockets
    of_load = chips * (cores / row.cores / chips) ** _EXPONENT
    of_idle = (cores / row.cores) ** _EXPONENT
    idle = row.watts[0]
    return [idle * of_idle + (watts - idle) * of_load for watts in row.watts]


def _too_far(system: System, cores: float) -> str:
    return f"no published measurement is near enough to {system} of {cores:g} cores"
