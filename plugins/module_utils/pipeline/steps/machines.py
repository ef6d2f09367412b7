# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Step ``read``: the answers of BMCs and pressure servers."""

from __future__ import annotations

import concurrent.futures
import functools

from ...base.context import Context
from ...base.errors import WattwiseError
from ...base.fields.lenient import member
from ...nodeconfig.models import models_of
from ...nodeconfig.poll import poll_targets
from ...nodeconfig.readings import Answers
from ...nodeconfig.targets import Targets
from ...observe import pressure
from ...observe.observation import PRESSURE_RESULT, THERMAL_RESULT, LastObservation, Polls
from ...redfish import bmc, thermal
from ..options import of_module
from ..run import Run
from ..step_log import shares
from .cluster import Cluster


def read_machines(run: Run, cluster: Cluster, last: LastObservation) -> Polls:
    """The answers of all machines; a failed reader is in the result, not raised."""
    with run.log.step("read") as (step, context):
        targets = cluster.targets.holding_at_least(run.valid_seconds)
        of_bmcs, of_servers = shares(context, 2)
        run.kube  # noqa: B018 - both threads share the connection that is made here
        with concurrent.futures.ThreadPoolExecutor(2) as executor:
            bmcs = executor.submit(_read_bmcs, run, targets, last, of_bmcs)
            servers = executor.submit(_read_servers, run, targets, last, of_servers)
        thermal_and_models, pressures, failure = None, None, None
        try:
            thermal_and_models = bmcs.result()
        except WattwiseError as error:
            failure = error
        try:
            pressures = servers.result()
        except WattwiseError as error:
            failure = failure or error
        failed = Answers(failure=None if failure is None else str(failure))
        step.failure = failed.failure
        of_thermal, of_models = thermal_and_models or (failed, failed)
        of_pressure = pressures or failed
        for answers in (of_thermal, of_pressure, of_models):
            step.errors += [error.as_dict() for error in answers.errors]
    return Polls([of_thermal], [of_pressure], [of_models], failure)


def _read_bmcs(
    run: Run, targets: Targets, last: LastObservation, context: Context
) -> bmc.BmcAnswers:
    options = of_module(thermal.SPEC, run.options, "read")
    models = models_of(member(run.folder.last("models"), "models"))
    return bmc.read(
        targets,
        options,
        context,
        last.readings,
        models,
        run.kube,
        model_max_age=run.options["read"]["model_max_age"],
    )


def _read_servers(run: Run, targets: Targets, last: LastObservation, context: Context) -> Answers:
    found = poll_targets(targets, "delta_p")
    options = of_module(pressure.SPEC, run.options, "read")
    return pressure.read(found, options, context, last.readings, run.kube).answers()


def given_polls(run: Run) -> Polls:
    """The results of reading modules on other hosts, from the options of the run."""
    now = run.context.now()

    def answers(name: str, quantities: dict[str, str]) -> list[Answers]:
        read = functools.partial(Answers.from_result, quantities=quantities, now=now)
        return [read(result) for result in run.options[name] or ()]

    return Polls(
        answers("thermal", THERMAL_RESULT),
        answers("pressure", PRESSURE_RESULT),
        answers("models", {}),
    )
