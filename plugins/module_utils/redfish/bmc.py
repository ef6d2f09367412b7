# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""One visit of each BMC: inlet temperature, power and models on one connection.

A BMC has few sessions, and a TLS handshake takes most of a second. A password that it refused for
the temperature is not tried again for the models.
"""

from __future__ import annotations

import typing as t
from types import MappingProxyType

from ..base.context import Context, Parameters, Result
from ..base.json_types import Object
from ..fleet.credentials import SecretSource
from ..nodeconfig.poll import Polled, poll, poll_targets
from ..nodeconfig.targets import Targets
from .models import ModelReading
from .thermal import ThermalReading


class BmcResults(t.NamedTuple):
    """The results of redfish_thermal_info and redfish_ml_model_info."""

    thermal: Result
    models: Result


def read(
    targets: Targets,
    options: Parameters,
    context: Context = Context(),
    previous_readings: Object = MappingProxyType({}),
    previous_models: t.Sequence[t.Any] = (),
    secrets: SecretSource | None = None,
    *,
    model_max_age: float,
) -> BmcResults:
    """Read temperature, power and models of every BMC that the targets name.

    The options are those of redfish_thermal_info. Raises WattwiseError if too few targets
    succeeded.
    """
    now = context.now()
    inlets = poll_targets(targets, "inlet_temp")
    providers = poll_targets(targets, "power_consumption_endpoint_provider")
    thermal = ThermalReading.plan(inlets, options, previous_readings, now)
    models = ModelReading.plan(providers, options, previous_models, model_max_age, now)
    count = len(thermal.jobs)
    polled = poll([*thermal.jobs, *models.jobs], options, context, secrets)
    of_thermal = Polled(polled.results[:count], polled.authentication)
    of_models = Polled(polled.results[count:], polled.authentication)
    return BmcResults(
        thermal.conclude(of_thermal, options, context), models.conclude(of_models, options)
    )
