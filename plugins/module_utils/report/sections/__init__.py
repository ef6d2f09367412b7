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
    metering,
    moves,
    placements,
    power_curves,
    prediction_error,
    server_types,
    sleep,
    sleeping,
    strategies,
    temperatures,
    waiting_pods,
)

SECTIONS: tuple[Section, ...] = (
    headline.SECTION,
    server_types.SECTION,
    strategies.SECTION,
    waiting_pods.SECTION,
    failing_endpoints.SECTION,
    temperatures.SECTION,
    power_curves.SECTION,
    placements.SECTION,
    moves.SECTION,
    sleep.SECTION,
    sleeping.SECTION,
    metering.SECTION,
    cache_ways.SECTION,
    devices.SECTION,
    hosts.SECTION,
    prediction_error.SECTION,
    freshness.SECTION,
)
