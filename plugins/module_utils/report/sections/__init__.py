# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The sections of the report, in the order of the page. Add yours here."""

from __future__ import annotations

from ..section import Section
from . import (
    cache_ways,
    devices,
    failing_endpoints,
    freshness,
    headline,
    hosts,
    limits,
    metering,
    moves,
    placements,
    power_curves,
    prediction_error,
    server_types,
    sleep,
    sleep_candidates,
    strategies,
    temperatures,
    waiting_pods,
)

SECTIONS: tuple[Section, ...] = tuple(
    part.SECTION
    for part in (
        *(headline, server_types, strategies, waiting_pods, failing_endpoints, limits),
        *(temperatures, power_curves, placements, moves, sleep_candidates, sleep, metering),
        *(cache_ways, devices, hosts, prediction_error, freshness),
    )
)
