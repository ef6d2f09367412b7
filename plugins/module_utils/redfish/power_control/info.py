# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Power states of many machines, the work of redfish_power_info."""

from __future__ import annotations

from ...base.context import Context, Parameters, Result
from ...base.errors import TargetError, TargetFailure
from ...fleet.visits import Client, error_of
from ...nodeconfig.poll import (
    AUTHENTICATION,
    Job,
    PollTarget,
    conclude,
    given_targets,
    poll,
    reading_spec,
)
from ..tree import Tree
from .machines import REDFISH, SYSTEM_OPTIONS, with_system
from .system import System, read_system

_FAKE = TargetFailure("not_found", "a BMC of type Fake has no power state; leave the node out")
SPEC = reading_spec(**SYSTEM_OPTIONS).merge(AUTHENTICATION)


def read_power(parameters: Parameters, context: Context = Context()) -> Result:
    """Read the power state of every machine, with the result of redfish_power_info.

    Raises InvalidInput, and WattwiseError with all results if too few targets succeeded.
    """
    options = SPEC.complete(parameters)
    given = given_targets(options, REDFISH, "inlet_temp", list(SYSTEM_OPTIONS))
    targets = [with_system(target) for target in given]
    jobs = [
        Job(target, REDFISH, _work, error_of(target.name, target.endpoint, _FAKE))
        for target in targets
    ]
    polled = poll(jobs, options, context)
    states: list[Result] = []
    errors: list[TargetError] = []
    for target, found in zip(targets, polled.results):
        if isinstance(found, System):
            states.append(_as_result(target, found))
        else:
            errors.append(found)
    result = {"states": states, "authentication": polled.authentication}
    return conclude(options, len(targets), errors, result)


async def _work(client: Client, target: PollTarget) -> System:
    system = await read_system(Tree(client), target.extra.get("system") or "")
    if system.power_state is None:
        raise TargetFailure(
            "malformed",
            f"the system {system.uri} has no usable PowerState; check the BMC's firmware",
        )
    return system


def _as_result(target: PollTarget, system: System) -> Result:
    action = system.action
    return {
        "name": target.name,
        "power_state": system.power_state,
        "system": system.uri,
        "reset_types": sorted(action.values) if action is not None and action.values else None,
        "serial_number": next(iter(system.serial_numbers), None),
        "system_uuid": system.uuid or None,
        "vendor": system.vendor or None,
        "model": system.model or None,
        "power_restore_policy": system.power_restore_policy or None,
    }
