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

if t.TYPE_CHECKING:
    from ..solving.arrays import Floats
    from .machine import Switching
    from .rules import SleepRules


def break_even_seconds(saved_watts: float, switching: Switching, wear_joules: float = 0.0) -> float:
    """Shortest sleep that pays, switching included; infinite if nothing is saved."""
    if saved_watts <= 0:
        return math.inf
    lost = switching.cycle_joules + wear_joules
    return switching.shutdown_seconds + switching.boot_seconds + max(0.0, lost) / saved_watts


def price_of_sleep(switching: t.Sequence[Switching], rules: SleepRules) -> Floats:
    """Joules of one cycle by machine, wear included."""
    return numpy.array([each.cycle_joules for each in switching]) + rules.wear_joules


def price_of_wake(switching: t.Sequence[Switching], rules: SleepRules) -> Floats:
    """Joules of one boot by machine, with half of the wear of the cycle that it ends."""
    boots = [each.boot_seconds * (each.boot_watts - each.standby_watts) for each in switching]
    return numpy.array(boots) + rules.wear_joules / 2
