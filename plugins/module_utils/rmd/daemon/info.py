# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""State and capacity of many daemons, the work of rmd_info."""

from __future__ import annotations

import typing as t

from ...base.argspec import ArgumentSpec
from ...base.context import Context, Parameters, Result
from ...base.errors import TargetError, TargetFailure
from ...base.fields.lenient import member, number, text, whole
from ...fleet.visits import Client, Target, error_of, visit
from ...nodeconfig.poll import conclude, fleet_options, warn_of_plain_http
from .client import Rmd
from .targets import daemon_spec, daemon_targets
from .workload import Stored

PARTS = ("workloads", "cache", "policies", "mba", "hospitality")

SPEC = ArgumentSpec(
    {
        "gather": {
            "type": "list",
            "elements": "str",
            "choices": list(PARTS),
            "default": ["workloads", "cache"],
        },
        "request": {
            "type": "dict",
            "options": {
                "max": {"type": "int", "required": True},
                "min": {"type": "int", "required": True},
            },
        },
    }
).merge(daemon_spec())


def read_daemons(parameters: Parameters, context: Context = Context()) -> Result:
    """Read the wanted parts of every daemon; ``daemons`` and ``errors``.

    A failed part is an error of its target, and null in its entry. Raises InvalidInput, and
    WattwiseError with all results if too few targets succeeded.
    """
    options = SPEC.complete(parameters)
    fleet = fleet_options(options)
    gather = [part for part in PARTS if part in options["gather"]]
    targets = daemon_targets(options, options["targets"])

    async def work(client: Client, target: Target) -> _Reading:
        return await _Reading(target, Rmd(client), options).read(gather)

    warn_of_plain_http(targets, context)
    daemons: list[Result] = []
    errors: list[TargetError] = []
    for target, answer in zip(targets, visit(targets, work, fleet, context.progress)):
        if isinstance(answer, TargetError):
            errors.append(answer)
        else:
            daemons.append({"name": target.name, **answer.found})
            errors += answer.errors
    return conclude(options, len(targets), errors, {"daemons": daemons})


class _Reading:
    """One daemon's parts; a lost daemon has no entry, one that refuses a part has."""

    def __init__(self, target: Target, rmd: Rmd, options: Parameters) -> None:
        self._target = target
        self._rmd = rmd
        self._options = options
        self._stored: list[Stored] | None = None
        self.found: Result = {}
        self.errors: list[TargetError] = []

    async def read(self, gather: t.Sequence[str]) -> _Reading:
        """Raises TargetFailure if no part could be read."""
        failures: list[TargetFailure] = []
        for part in ("wire", *gather):
            try:
                self.found[part] = await getattr(self, f"_{part}")()
            except TargetFailure as failure:
                failures.append(failure)
                self.found[part] = None
                if failure.reason in ("unreachable", "timeout", "tls"):
                    raise
        if len(failures) > len(gather):
            raise failures[0]
        name, endpoint = self._target.name, self._target.endpoint
        self.errors = [error_of(name, endpoint, failure) for failure in failures]
        return self

    async def _wire(self) -> str:
        if self._options["wire"] != "auto":
            return str(self._options["wire"])
        self._stored = await self._rmd.workloads()
        return await self._rmd.wire(self._stored)

    async def _workloads(self) -> list[Result]:
        if self._stored is None:
            self._stored = await self._rmd.workloads()
        return [workload_entry(item) for item in self._stored]

    async def _cache(self) -> list[Result]:
        return [cache.as_dict() for cache in await self._rmd.caches()]

    async def _policies(self) -> Result:
        """The policy with numbers in place of v0.2's texts."""
        found: Result = {}
        for name, policy in (await self._rmd.policies()).items():
            most, least = (whole(member(policy, "cache", key)) for key in ("max", "min"))
            ratio = number(member(policy, "pstate", "ratio"))
            found[text(name)] = {"cache": {"max": most, "min": least}, "pstate": {"ratio": ratio}}
        return found

    async def _mba(self) -> Result:
        answer = await self._rmd.mba()
        return {
            "supported": bool(answer.get("mba")),
            "enabled": bool(answer.get("mba_enable")),
            "step": whole(answer.get("mba_step")),
            "min": whole(answer.get("mba_min")),
        }

    async def _hospitality(self) -> list[Result]:
        """Scores of the request, else of each policy by its numbers, because v0.3 fails by name."""
        request = self._options["request"]
        if request:
            return await self._scores(None, request["max"], request["min"])
        pools = {pool for cache in await self._rmd.caches() for pool in cache.free}
        found: list[Result] = []
        for name, policy in (await self._policies()).items():
            most, least = policy["cache"]["max"], policy["cache"]["min"]
            # v0.2 crashes on a request for a shared pool that it does not have.
            if most is not None and least is not None and (most or "shared" in pools):
                found += await self._scores(name, most, least)
        return found

    async def _scores(self, policy: str | None, most: int, least: int) -> list[Result]:
        scores = await self._rmd.hospitality(most, least)
        asked = {"policy": policy, "max": most, "min": least}
        return [{**asked, "cache_id": cache, "score": score} for cache, score in scores.items()]


def workload_entry(stored: Stored) -> Result:
    """A workload in the form of results."""
    return {
        "id": stored.id,
        "uuid": stored.uuid,
        "core_ids": list(stored.core_ids),
        "cpus": sorted(stored.cpus or ()),
        "task_ids": list(stored.task_ids),
        "cos_name": stored.cos_name,
        "status": stored.status,
        "origin": stored.origin,
        **stored.settings.as_dict(),
    }
