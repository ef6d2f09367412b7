# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""One visit of each BMC: inlet temperature, power and models on one connection.

A BMC has few sessions, and a TLS handshake takes most of a second. A password that it refused for
the temperature is not tried again for the models.
"""

from __future__ import annotations

import typing as t

from ..base.context import Context, Parameters
from ..fleet.credentials import SecretSource
from ..nodeconfig.models import NodeModels
from ..nodeconfig.poll import Polled, poll, poll_targets
from ..nodeconfig.readings import Answers, Readings
from ..nodeconfig.targets import Targets
from .models import ModelPlan
from .thermal import ThermalPlan


class BmcAnswers(t.NamedTuple):
    """The answers of all BMCs: temperature and power, and the models."""

    thermal: Answers
    models: Answers


def read(
    targets: Targets,
    options: Parameters,
    context: Context,
    previous_readings: Readings,
    previous_models: t.Sequence[NodeModels],
    secrets: SecretSource | None = None,
    *,
    model_max_age: float,
) -> BmcAnswers:
    """Read temperature, power and models of every BMC that the targets name.

    The options are those of redfish_thermal_info. Raises InvalidInput.
    """
    now = context.now()
    inlets = poll_targets(targets, "inlet_temp")
    providers = poll_targets(targets, "power_consumption_endpoint_provider")
    thermal = ThermalPlan.of(inlets, options, previous_readings, now)
    models = ModelPlan.of(providers, options, previous_models, model_max_age, now)
    count = len(thermal.jobs)
    polled = poll([*thermal.jobs, *models.jobs], options, context, secrets)
    of_thermal = Polled(polled.results[:count], polled.authentication)
    of_models = Polled(polled.results[count:], polled.authentication)
    return BmcAnswers(thermal.concluded(of_thermal, context).answers(), models.concluded(of_models))
