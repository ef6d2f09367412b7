# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Evictions of one run for a limit: the pods that may leave, their power, and the Eviction API.

Power draw follows an eviction late. So a domain evicts again only after its machines have readings
that are younger than the last evictions there.
"""

from __future__ import annotations

import datetime
import functools
import typing as t
from dataclasses import dataclass, replace
from decimal import Decimal

from ...base.boundary import guarded, subject_of
from ...base.context import Result
from ...base.errors import ApiError
from ...base.json_types import Object
from ...eviction import eviction
from ...eviction.departures import evict_pods
from ...eviction.evictions import Departure, Fate
from ...kube.events import Event
from ...kube.lease import LeaseHeld, LeaseLost
from ...nodeconfig.readings import Readings
from ...power import placement
from ...power.limits.caps import CapPlan
from ...power.limits.domains import Limit
from ...power.limits.evictions import EvictablePod, EvictionNode, EvictionPlan, plan_evictions
from ...power.rebalance import surely_movable
from ...power.sources import Source, instance_of, source_of_snapshot
from ...power.waiting_pods import PodUse
from ...scheduling.curve import Curves
from ...scheduling.model import MICROCORES_PER_CORE
from ...scheduling.pod_reader import (
    assumed_use,
    effective_requests,
    identity,
    is_finished,
    priority_of,
)
from ..limits_record import Entries, Entry, LimitsRecord, TakenOver
from ..options import of_module
from ..run import Run
from .capping import CapChanges, Capping
from .cluster import Cluster

# Time until the power draw shows an eviction: of stopping pods, and of the averages of BMCs.
_SETTLING = datetime.timedelta(seconds=60)
_COSTS = {"BestEffort": 0, "Burstable": 1, "Guaranteed": 2}
_MAX_NAMED = 3
_EVENT = Event("Warning", "EvictedForPowerLimit", "Evicting", "wattwise-limits")


@dataclass(frozen=True)
class EvictionOutcome:
    """The evictions as the document has them, and a sentence about them."""

    evictions: t.Sequence[Result] = ()
    sentence: str = ""

    @property
    def evicted_from(self) -> list[str]:
        """The nodes of the pods that were evicted, one for each pod."""
        return [one["node"] for one in self.evictions if one["outcome"] == "evicted"]

    @property
    def errors(self) -> list[Result]:
        return [
            {
                "name": f"{one['namespace']}/{one['pod']}",
                "reason": one["outcome"],
                "detail": one["reason"],
            }
            for one in self.evictions
            if one["reason"]
        ]


@dataclass(frozen=True)
class _Running:
    """The running pods of the run's part of the cluster, and the nodes' use."""

    source: Source
    options: t.Mapping[str, t.Any]

    @classmethod
    def of(cls, run: Run, cluster: Cluster, curves: Curves) -> _Running:
        options = of_module(placement.SPEC, run.options, "place")
        source = source_of_snapshot(cluster.snapshot, curves, (), options, cluster.scope)
        return cls(source, options)

    @property
    def scheduler_name(self) -> str:
        return str(self.options["scheduler_name"])

    def used_cores(self) -> dict[str, float]:
        """The CPUs in use on each node."""
        instance = instance_of(replace(self.source, pods=(), volume_objects=None), self.options)
        return {one.name: one.use_microcores / MICROCORES_PER_CORE for one in instance.nodes}

    def leaving(self) -> t.Iterator[tuple[str, float]]:
        """The node and the CPUs of each pod that is being deleted."""
        for pod in self.source.running:
            if pod["metadata"].get("deletionTimestamp") and not is_finished(pod):
                cores = guarded(subject_of(pod, "Pod"), functools.partial(self._cores, pod))
                if isinstance(cores, float):
                    yield pod["spec"]["nodeName"], cores

    def evictable(self) -> t.Iterator[EvictablePod]:
        """The pods that may be evicted, as rebalancing decides it."""
        for pod in self.source.running:
            if not surely_movable(pod, self.scheduler_name):
                continue
            if self.source.scope is not None and not self.source.scope.has_pod(pod):
                continue
            if self.source.budgets.refusal([pod]) is None:
                found = guarded(subject_of(pod, "Pod"), functools.partial(self._evictable, pod))
                if isinstance(found, EvictablePod):
                    yield found

    def _evictable(self, pod: Object) -> EvictablePod:
        """Raises InvalidField."""
        namespace, name = identity(pod)
        qos_class = (pod.get("status") or {}).get("qosClass") or ""
        return EvictablePod(
            namespace,
            name,
            pod["metadata"].get("uid") or "",
            pod["spec"]["nodeName"],
            self._cores(pod),
            priority_of(pod["spec"]),
            _COSTS.get(qos_class, _COSTS["Burstable"]),
            self.source.budgets.budget_of(pod),
        )

    def _cores(self, pod: Object) -> float:
        """The CPUs that a pod is assumed to use. Raises InvalidField."""
        use = PodUse(Decimal(str(self.options["pod_usage_assumption"])), self.source.shares)
        requested = effective_requests(pod["spec"]).get("cpu", 0)
        return assumed_use(requested, use.of(pod)) / MICROCORES_PER_CORE


class Evicting:
    """The evictions of one run; ``entries`` have the times of earlier ones."""

    def __init__(
        self,
        run: Run,
        cluster: Cluster,
        capping: Capping,
        entries: Entries,
        inputs: tuple[Readings, Curves],
    ) -> None:
        self._run, self._capping, self._entries = run, capping, entries
        self._readings, self._curves = inputs
        self._now = run.context.now().replace(microsecond=0)
        self._running = _Running.of(run, cluster, self._curves)
        mode, cap = run.options["limits"]["evict"], run.options["limits"]["cap"]
        self._sets_caps = not run.context.check_mode and cap != "dry_run"
        # Caps come first, also where they are only told.
        self._is_dry = mode == "dry_run" or not self._sets_caps

    def evict(
        self, limits: t.Sequence[Limit], changes: CapChanges, plan: CapPlan, record: LimitsRecord
    ) -> EvictionOutcome:
        """Evict the pods that the limits need to leave. Raises ApiError for the record."""
        nodes = self._nodes(limits, changes, plan)
        settled = [one for one in limits if not self._unsettled(one.nodes)]
        planned = plan_evictions(
            settled,
            nodes,
            list(self._running.evictable()),
            self._running.source.budgets.allowed(),
            self._run.options["limits"]["max_evictions"],
        )
        departures = [
            Departure(
                one.pod.namespace,
                one.pod.name,
                one.pod.node,
                one.pod.uid,
                f"{_reason(settled[one.limit])}, and no cap covers the rest; this pod had the lowest "
                f"priority ({one.pod.priority}) of those that may leave",
            )
            for one in planned.evictions
        ]
        kinds = {one.pod.node: settled[one.limit].kind for one in planned.evictions}
        carries_out = departures and not self._is_dry
        fates = self._carry_out(departures, kinds, record) if carries_out else None
        return self._outcome(settled, planned, fates, len(settled) < len(limits))

    def _nodes(
        self, limits: t.Sequence[Limit], changes: CapChanges, plan: CapPlan
    ) -> dict[str, EvictionNode]:
        """The limited nodes with a reading, as they are after the caps of this run."""
        used = self._running.used_cores()
        found = {
            name: EvictionNode(
                changes.watts_without_cap(name, used.get(name, 0.0), self._curves),
                used.get(name, 0.0),
                self._curves.by_node.get(name),
                changes.holding(name) if self._sets_caps else plan.caps.get(name),
            )
            for limit in limits
            for name in limit.nodes
            if name in self._capping.watts
        }
        for name, cores in self._running.leaving():
            if name in found:
                found[name] = found[name].without(cores)
        return found

    def _unsettled(self, names: t.Iterable[str]) -> bool:
        """Whether a machine has no reading that shows the last eviction there."""
        for name in names:
            entry, reading = self._entries.get(name), self._readings.get(name)
            if entry is None or entry.evicted_at is None:
                continue
            value = None if reading is None else reading.values.get("power_watts")
            if value is None or value.time < entry.evicted_at + _SETTLING:
                return True
        return False

    def _carry_out(
        self, departures: t.Sequence[Departure], kinds: t.Mapping[str, str], record: LimitsRecord
    ) -> list[tuple[Fate, str]]:
        """The fate of each pod; the record has the time before the first one leaves.

        ``kinds`` are those of the limits, by node.
        """
        former = {one.source: self._entries.get(one.source, Entry()) for one in departures}
        options = of_module(
            eviction.SPEC,
            self._run.options,
            "evict",
            scheduler_name=self._running.scheduler_name,
        )
        try:
            self._note(
                record,
                {
                    name: replace(one, evicted_at=self._now, evicted_for=kinds[name])
                    for name, one in former.items()
                },
            )
            given = evict_pods(
                self._run.kube, departures, options, self._capping.context, _EVENT
            ).fates
        except (TakenOver, LeaseHeld) as error:
            given = [("left", str(error)) for _one in departures]
        except LeaseLost as error:
            fates = error.fields.get("departures") or ["left"] * len(departures)
            given = [(fate, "" if fate == "evicted" else str(error)) for fate in fates]
        except ApiError as error:
            given = [("refused", str(error)) for _one in departures]
        left = {one.source for one, (fate, _reason) in zip(departures, given) if fate == "evicted"}
        try:
            self._note(record, {name: one for name, one in former.items() if name not in left})
        except TakenOver as error:
            self._capping.context.warn(str(error))
        return list(given)

    def _note(self, record: LimitsRecord, entries: Entries) -> None:
        """Record evictions. Raises ApiError and TakenOver."""
        self._entries.update(entries)
        record.write(entries)

    def _outcome(
        self,
        limits: t.Sequence[Limit],
        planned: EvictionPlan,
        fates: t.Sequence[tuple[Fate, str]] | None,
        is_waiting: bool,
    ) -> EvictionOutcome:
        given = [("planned", "")] * len(planned.evictions) if fates is None else fates
        evictions = [
            {
                "namespace": one.pod.namespace,
                "pod": one.pod.name,
                "node": one.pod.node,
                "priority": one.pod.priority,
                "kind": limits[one.limit].kind,
                "name": limits[one.limit].name,
                "outcome": outcome,
                "reason": reason or None,
            }
            for one, (outcome, reason) in zip(planned.evictions, given)
        ]
        return EvictionOutcome(evictions, self._sentence(evictions, planned, is_waiting))

    def _sentence(
        self, evictions: t.Sequence[Result], planned: EvictionPlan, is_waiting: bool
    ) -> str:
        outcome = "planned" if self._is_dry else "evicted"
        names = [
            f"{one['namespace']}/{one['pod']}" for one in evictions if one["outcome"] == outcome
        ]
        listed = ", ".join(names[:_MAX_NAMED]) + (", …" if len(names) > _MAX_NAMED else "")
        left = sum(planned.left.values())
        pods = "1 pod" if len(names) == 1 else f"{len(names)} pods"
        if names and self._is_dry:
            options = self._run.options["limits"]
            dry = [one for one in ("evict", "cap") if options[one] == "dry_run"]
            because = f"because limits.{dry[0]} is dry_run" if dry else "in check mode"
            said = f"No pod is evicted for limits {because}; it would be {pods}: {listed}"
        elif names:
            said = f"{pods} {'is' if len(names) == 1 else 'are'} evicted for limits: {listed}"
        elif is_waiting:
            return "No pod is evicted until readings show the last evictions for a limit"
        elif left:
            said = "No pod may be evicted for limits"
        else:
            return ""
        return f"{said}; {left:,.0f} W above limits are left" if left else said


def _reason(limit: Limit) -> str:
    if limit.kind == "inlet":
        return (
            f"The {limit.title} is above its limit, so that the rack may draw {limit.watts:,.0f} W"
        )
    return f"The {limit.title} draws more than its limit of {limit.watts:,.0f} W"
