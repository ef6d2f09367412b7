# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The options of fleet_reconciliation, with a group of module options for each step."""

from __future__ import annotations

import typing as t

from ..base.argspec import KUBERNETES, LEASE, PROGRESS, ArgumentSpec
from ..base.context import Parameters
from ..base.errors import InvalidInput
from ..bind import binding
from ..devices import reconciliation
from ..eviction import eviction
from ..inference import prediction, stated
from ..inference.curve_sources import TYPE_LABEL
from ..inference.samples import MAX_AGE_SECONDS
from ..observe import observation
from ..observe.metering import metering
from ..power import placement
from ..power.limits.options import INLETS, REMEDIES, WATTS, PowerLimits
from ..prices import sources as prices
from ..redfish import models, thermal
from ..sleep.cluster import options as sleep
from . import stored_plan

# In the order of execution.
STEPS = (
    *("restore_sleep", "snapshot", "read", "merge", "statuses", "meter"),
    *("predict", "place", "store", "restore", "bind", "devices", "evict"),
    *("sleep", "store_sleep", "limits"),
)
BY_DEFAULT = ("snapshot", "read", "merge", "statuses", "predict", "place", "bind")

_ASKING = (
    *("credentials", "timeout", "concurrency", "allow_plain_http"),
    *("validate_certs", "ca_path", "tls_fingerprint"),
)
_LIMITS = ("time_limit", "seed")


def _of(spec: ArgumentSpec, *names: str) -> dict[str, t.Any]:
    return {name: spec.options[name] for name in names}


GROUPS: t.Mapping[str, t.Mapping[str, t.Any]] = {
    "read": {
        **_of(thermal.SPEC, *_ASKING, "default_credential_namespaces", "gather", "refresh"),
        "model_max_age": models.SPEC.options["max_age"],
    },
    "merge": {
        **observation.OPTIONS,
        "samples_max_age": {"type": "float", "default": MAX_AGE_SECONDS},
    },
    "meter": metering.SPEC.options,
    "predict": {
        **_of(prediction.SPEC, *_ASKING, "batch_rows", "cpu_usage_format", "min_success"),
        **_of(prediction.SPEC, "model_origins"),
        "keep_seconds": {"type": "float", "default": 600.0},
        "learn": {"type": "bool", "default": True},
        "published": {"type": "bool", "default": True},
        "power_curves": {
            "type": "list",
            "elements": "dict",
            "default": [],
            "options": {
                "node_selector": {"type": "str"},
                "idle": {"type": "float"},
                "max": {"type": "float"},
                "points": {"type": "list", "elements": "list"},
            },
        },
        "type_label": {"type": "str", "default": TYPE_LABEL},
    },
    "place": placement.OPTIONS.options,
    "limits": {**WATTS, **INLETS, **REMEDIES},
    "store": stored_plan.STORE_OPTIONS,
    "restore": stored_plan.RESTORE_OPTIONS,
    "bind": _of(binding.SPEC, "mark_unplaced", "volume_timeout"),
    "devices": _of(
        reconciliation.SPEC,
        *("api_group", "device_power", "gate", "plan", "scheduler_name", "strategy"),
        *("volume_timeout", *_LIMITS),
    ),
    "evict": _of(eviction.SPEC, "timeout"),
    "sleep": sleep.OPTIONS.options,
    "prices": prices.OPTIONS.options,
}

_RESULTS = {"type": "list", "elements": "dict"}
SPEC = KUBERNETES.merge(
    PROGRESS,
    LEASE,
    ArgumentSpec(
        {
            "steps": {
                "type": "list",
                "elements": "str",
                "choices": list(STEPS),
                "default": list(BY_DEFAULT),
            },
            "run_dir": {"type": "path"},
            "run_process": {"type": "str"},
            "record_namespace": {"type": "str"},
            "publish_namespace": {"type": "str"},
            "node_configs": {"type": "path"},
            "thermal": _RESULTS,
            "pressure": _RESULTS,
            "models": _RESULTS,
            **{
                name: {"type": "dict", "options": options, "default": {}}
                for name, options in GROUPS.items()
            },
        }
    ),
)

# Inputs of a step, by the step that makes them; documents replace steps that do not run.
NEEDS: t.Mapping[str, tuple[str, ...]] = {
    "read": ("snapshot",),
    "merge": ("snapshot",),
    "meter": ("snapshot", "merge"),
    "predict": ("snapshot", "merge"),
    "place": ("snapshot", "predict"),
    "bind": ("place",),
    "evict": ("place",),
    "sleep": ("snapshot", "predict"),
    "limits": ("snapshot", "predict"),
}
_PLANNING = ("snapshot", "read", "merge", "meter", "predict", "place", "store")


def complete(parameters: Parameters) -> dict[str, t.Any]:
    """The parameters with all defaults, after the checks that are possible before the run.

    Raises InvalidInput.
    """
    options = SPEC.complete(parameters)
    steps = options["steps"]
    if not steps:
        raise InvalidInput("steps: the list is empty; leave it out for the default steps")
    if "statuses" in steps and "merge" not in steps:
        raise InvalidInput("steps: statuses needs the result of merge; add merge")
    given = any(options[name] is not None for name in ("thermal", "pressure", "models"))
    if given and "read" in steps:
        raise InvalidInput("thermal, pressure and models replace step read; leave one out")
    if "merge" in steps and "read" not in steps and not given:
        raise InvalidInput("steps: merge needs readings; add read, or give thermal")
    _check_stored_plan(options)
    for step in steps:
        missing = [needed for needed in NEEDS.get(step, ()) if needed not in steps]
        if missing and not options["run_dir"] and "restore" not in steps:
            raise InvalidInput(
                f"steps: {step} needs the result of {missing[0]}; add that step, or give run_dir "
                "with the document of an earlier task"
            )
    stated.statements(options["predict"]["power_curves"])
    if "meter" in steps:
        metering.check_options(options["meter"])
    PowerLimits.of(options["limits"])
    if "place" in steps:
        placement.check_options(of_module(placement.SPEC, options, "place"))
    if options["limits"]["max_evictions"] < 1:
        raise InvalidInput(
            f"limits.max_evictions: {options['limits']['max_evictions']} is no bound; give a number "
            "from 1, or set limits.evict to off"
        )
    if "sleep" in steps:
        sleep.SleepOptions.of(options["sleep"])
    prices.check_options(options["prices"])
    return options


def _check_stored_plan(options: Parameters) -> None:
    steps = options["steps"]
    for step in ("store", "store_sleep"):
        if step in steps and not options["run_dir"]:
            raise InvalidInput(f"steps: {step} needs the documents of the run; give run_dir")
    planning = [step for step in _PLANNING if step in steps]
    _check_sleep_plan(options)
    if "restore" in steps and planning:
        raise InvalidInput(
            f"steps: restore replaces {planning[0]}, because the stored plan comes with all "
            f"documents of its run; leave {planning[0]} out"
        )
    stored_plan.check_options(
        options["store"] if {"store", "store_sleep"}.intersection(steps) else None,
        options["restore"] if {"restore", "restore_sleep"}.intersection(steps) else None,
    )


def _check_sleep_plan(options: Parameters) -> None:
    """The steps that store or restore a plan of machines go with one mode of step ``sleep``."""
    steps = options["steps"]
    for step, other in (
        ("store_sleep", "restore_sleep"),
        ("restore_sleep", "restore"),
        ("store_sleep", "store"),
    ):
        if step not in steps:
            continue
        if other in steps:
            raise InvalidInput(f"steps: {step} and {other} are of two plans; leave one out")
        if "sleep" not in steps or options["sleep"]["mode"] != "with_approval":
            raise InvalidInput(f"steps: {step} needs step sleep with sleep.mode with_approval")


def of_module(
    spec: ArgumentSpec, options: Parameters, *groups: str, **more: t.Any
) -> dict[str, t.Any]:
    """Options of the single module of a step, from those of its groups."""
    shared = {name: options[name] for name in (*KUBERNETES.options, *LEASE.options)}
    given = {**shared, **{key: value for name in groups for key, value in options[name].items()}}
    return spec.complete(
        {**{name: value for name, value in given.items() if name in spec.options}, **more}
    )
