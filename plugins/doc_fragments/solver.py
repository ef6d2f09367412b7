# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The limits of a solver; see solving.limits.LIMITS."""

from __future__ import annotations


class ModuleDocFragment:
    """Documentation only."""

    DOCUMENTATION = r"""
options:
  # begin generated: solver
  time_limit:
    description:
      - Seconds of processor time that a search may take, above 0. The counted work normally ends
        much earlier.
      - On a busy machine a search may take up to ten times as long by the clock, so that the result
        does not depend on other load.
    type: float
    default: 10.0
  seed:
    description: Seed of the random numbers in the search, V(0) or more.
    type: int
    default: 0
  # end generated
"""
