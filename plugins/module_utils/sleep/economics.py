# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Prices in joules: sleep that pays for its cycle, and its evictions.

Sleep over a gap T saves (P_idle - P_standby) T less the energy of one cycle; the gap at which both
are equal is the break-even time. An unknown gap costs at most twice the optimum if a machine idles
for the break-even time before it sleeps (Albers, CACM 2010).
"""

from __future__ import annotations

import math
import typing as t

from ..base.libraries import numpy
from .demand import DAY

if t.TYPE_CHECKING:
    from ..solving.arrays import Floats
    from .fleet import Fleet
    from .machine import Switching


def break_even_seconds(saved_watts: float, switching: Switching, beyond_joules: float) -> float:
    """Shortest sleep that pays for its cycle and what is paid beyond it, switching included.

    Infinite if nothing is saved.
    """
    if saved_watts <= 0:
        return math.inf
    lost = switching.cycle_joules + beyond_joules
    return switching.shutdown_seconds + switching.boot_seconds + max(0.0, lost) / saved_watts


def price_of_cycle(fleet: Fleet) -> Floats:
    """Joules of a cycle beyond its energy, by machine.

    They rise with the share of the day's cycles that were used, from the stated wear to the largest
    saving of one of them: the optimal rule of the online knapsack problem (Zhou, Chakrabarty,
    Lukose, 2008).
    """
    rules = fleet.rules
    cycles = max(1, rules.max_cycles_a_day)
    least = max(1.0, rules.wear_joules)
    most = (fleet.idle_watts - fleet.standby_watts).clip(0.0) * DAY / cycles
    used = (fleet.cycles / cycles).clip(0.0, 1.0)
    price: Floats = least * (most / least).clip(1.0) ** used
    return price


def price_of_sleep(fleet: Fleet) -> Floats:
    """Joules of one cycle by machine: its energy, and the price of the cycle itself."""
    energy = [machine.switching.cycle_joules for machine in fleet.machines]
    return numpy.array(energy) + price_of_cycle(fleet)


def price_of_wake(fleet: Fleet) -> Floats:
    """Joules of one boot by machine, and the price of the cycle that it makes necessary.

    A machine whose cycles are used up would have to stay awake after the boot.
    """
    switching = [machine.switching for machine in fleet.machines]
    boots = [each.boot_seconds * (each.boot_watts - each.standby_watts) for each in switching]
    return numpy.array(boots) + price_of_cycle(fleet)
