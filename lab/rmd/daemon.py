# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A daemon: its database, its handling of workloads, and restarts."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from lab.rmd.bitmaps import GROUP_BITS, PanicError, backward_mask
from lab.rmd.bitmaps import cpus_of as parsed_cpus
from lab.rmd.documents import REST, SUCCESSFUL, Workload
from lab.rmd.host import Configuration, Host
from lab.rmd.resctrl import CommitError, Resctrl
from lab.rmd.validation import InvalidError, UnknownPolicyError, validated, with_policy
from lab.rmd.ways import INFRA, SHARED, AccountingError, Full, Request, Ways, pool_of


class Refusal(Exception):
    """An HTTP status with a body; `documented` is the status in RMD's documentation."""

    def __init__(self, status: int, text: str, documented: int | None = None) -> None:
        super().__init__(text)
        self.status = status
        self.text = text
        self.documented = documented or status


class Hardware(NamedTuple):
    """State that survives the restart of a daemon."""

    host: Host
    resctrl: Resctrl


class Classes:
    """Classes of service of a daemon: v0.2 names them after its workloads, v0.3 has free ones."""

    def __init__(self, daemon: Daemon) -> None:
        self._daemon = daemon
        used = {workload.cos_name for workload in daemon.workloads.values()}
        names = [f"COS{number}" for number in range(2, daemon.host.kernel_closids)]
        self._free = [name for name in names if name not in used]

    def of(self, workload: Workload, pool: str) -> str:
        """The class for a workload of the pool. Raises Refusal."""
        if self._daemon.configuration.wire == "0.3":
            return self._next(pool)
        if pool == SHARED:
            return SHARED
        return f"{'_'.join(workload.task_ids or workload.core_ids)}-{pool}"

    def release(self, workload: Workload) -> None:
        """Free the class of v0.3 unless workloads share it; CPUs that stay in it get all ways."""
        if self._daemon.configuration.wire != "0.3" or self._is_shared(workload):
            return
        host, resctrl = self._daemon.hardware
        if workload.cos_name in resctrl.groups:
            resctrl.groups[workload.cos_name].masks = dict.fromkeys(host.caches, host.full)
        self._free.append(workload.cos_name)

    def _is_shared(self, workload: Workload) -> bool:
        """Whether other workloads are in the workload's class, which v0.3 allows if they share."""
        return any(
            other is not workload and other.cos_name == workload.cos_name
            for other in self._daemon.workloads.values()
        )

    def _next(self, pool: str) -> str:
        """v0.3 names no group: it takes the next class; workloads that share have one in common."""
        if pool == SHARED:
            for other in self._daemon.workloads.values():
                if other.cache_max == 0 and other.cos_name:
                    return other.cos_name
        if not self._free:
            purpose = "left to create shared group" if pool == SHARED else "available"
            raise Refusal(500, f"No free CLOS {purpose}")
        return self._free.pop(0)


class Daemon:
    """One RMD on one machine. Raises BootError if it would not start."""

    def __init__(self, host: Host, configuration: Configuration) -> None:
        self.hardware = Hardware(host, Resctrl(host))
        self.workloads: dict[str, Workload] = {}
        self._sequence = 0
        self._start(configuration)

    @property
    def host(self) -> Host:
        return self.hardware.host

    def restart(
        self, configuration: Configuration | None = None, loses_database: bool = False
    ) -> None:
        """Start again; resctrl keeps its groups, and entries without a group are dropped."""
        if loses_database:
            self.workloads, self._sequence = {}, 0
        groups = self.hardware.resctrl.groups
        self.workloads = {
            key: workload for key, workload in self.workloads.items() if workload.cos_name in groups
        }
        self._start(configuration or self.configuration)

    def _start(self, configuration: Configuration) -> None:
        configuration.check(self.host)
        self.configuration = configuration
        resctrl = self.hardware.resctrl
        self.ways = Ways(self.host, configuration, resctrl)
        self._classes = Classes(self)
        if configuration.infra_ways:
            resctrl.write(INFRA, self.ways.infra, configuration.infra_cpus, ())
        self.ways.settle_os_group()

    def create(self, asked: Workload) -> Workload:
        """POST. Raises Refusal, PanicError."""
        try:
            workload = validated(asked, self.workloads, self.host, self.configuration)
        except InvalidError as error:
            raise Refusal(400, f"Failed to validate workload. Reason: {error}") from error
        workload = self._enforce(workload)
        if not workload.id:
            self._sequence += 1
            workload = workload.with_(id=str(self._sequence))
        self.workloads[workload.id] = workload.with_(origin=REST)
        return self.workloads[workload.id]

    def change(self, key: str, patch: Workload) -> Workload:
        """PATCH, with all its oddities. Raises Refusal, PanicError."""
        stored = self._workload(key, "modify")
        merged, enforce = _merged(stored, patch)
        if merged.policy:
            try:
                merged = with_policy(merged, self.host, self.configuration)
            except UnknownPolicyError as error:
                # The daemon notices only when it has released the workload's ways.
                self._release(stored)
                title, _dot, detail = str(error).partition(". ")
                raise Refusal(500, f"{title}.. Details: {detail}\n") from error
        if not enforce:
            self._require_same_place(stored, patch)
            return stored
        merged = merged.with_(
            core_ids=patch.core_ids or merged.core_ids, task_ids=patch.task_ids or merged.task_ids
        )
        self._release(stored)
        self.workloads[key] = self._enforce(merged)
        return self.workloads[key]

    def delete(self, key: str) -> None:
        """DELETE. Raises Refusal."""
        stored = self._workload(key, "delete")
        self._release(stored)
        del self.workloads[key]

    def get(self, key: str) -> Workload:
        if key not in self.workloads:
            raise Refusal(404, "404: Could not found workload")
        return self.workloads[key]

    def _workload(self, key: str, action: str) -> Workload:
        stored = self.get(key)
        if stored.origin != REST:
            raise Refusal(200, f"200: You only have permission to {action} REST origin workloads")
        return stored

    def _require_same_place(self, stored: Workload, patch: Workload) -> None:
        """A change of only CPUs is checked like a new workload of the same id, and always fails."""
        if (patch.core_ids, patch.task_ids) == (stored.core_ids, stored.task_ids):
            return
        asked = patch.with_(id=stored.id)
        try:
            validated(asked, self.workloads, self.host, self.configuration)
        except InvalidError as error:
            raise Refusal(500, f"Failed to validate workload. Details: {error}\n") from error

    def _enforce(self, workload: Workload) -> Workload:
        cpus = self.cpus_of(workload)
        caches = self._caches(workload, cpus)
        if workload.cache_max is None or workload.cache_min is None:
            return workload.with_(status=SUCCESSFUL)
        most, least = workload.cache_max, workload.cache_min
        try:
            pool = pool_of(most, least, self.configuration.wire == "0.3")
        except AccountingError as error:
            raise Refusal(500, str(error), 400) from error
        if pool == SHARED and (workload.mba_percentage or workload.mba_mbps):
            raise Refusal(500, "MBA forbidden for shared group")
        try:
            masks, shrunk = self.ways.choose(Request(pool, most, least, caches))
        except Full as error:
            raise Refusal(500, str(error), 400) from error
        except AccountingError as error:
            raise Refusal(500, f"Unable to read cache schemata; {error}", 400) from error
        name = self._classes.of(workload, pool)
        groups = self.hardware.resctrl.groups
        is_newer = self.configuration.wire == "0.3"
        if is_newer and workload.task_ids:
            cpus = frozenset()
        if name in groups and (is_newer or name == SHARED):
            cpus |= groups[name].cpus
        self._commit(lambda: self._write(name, masks, cpus, workload), "workload")
        for other, group in shrunk.items():
            groups[other].masks = group.masks
        try:
            self.ways.settle_os_group()
        except AccountingError as error:
            if name in groups:
                self.hardware.resctrl.remove(name)
            raise Refusal(
                500,
                f"Error while try to commit resource group for default group.. Details: {error}\n",
            ) from error
        return workload.with_(cos_name=name, status=SUCCESSFUL)

    def _write(
        self, name: str, masks: dict[int, int], cpus: frozenset[int], workload: Workload
    ) -> None:
        backward = backward_mask(workload.core_ids, self.host.cpu_count)
        if backward and self.configuration.wire == "0.2":
            raise CommitError(
                f"failed to write {backward}\n to cpus: write /sys/fs/resctrl/{name}/cpus: invalid"
                " argument"
            )
        self.hardware.resctrl.write(name, masks, cpus, workload.task_ids)

    def _commit(self, write: Callable[[], None], what: str) -> None:
        try:
            write()
        except CommitError as error:
            if self.configuration.wire == "0.2":  # v0.3 ignores libpqos' errors
                raise Refusal(
                    500, f"Error to commit resource group for {what}.. Details: {error}\n"
                ) from error

    def _release(self, workload: Workload) -> None:
        resctrl = self.hardware.resctrl
        group = resctrl.groups.get(workload.cos_name)
        if group is None or not workload.cos_name:
            return
        cpus = self.cpus_of(workload)
        if self.configuration.wire == "0.3":
            # A range is read as a number, which fails and gives CPU 0.
            cpus = frozenset(int(text) if text.isdigit() else 0 for text in workload.core_ids)
        resctrl.release(workload.cos_name, cpus, workload.task_ids)
        self._classes.release(workload)
        self.ways.settle_os_group()

    def cpus_of(self, workload: Workload) -> frozenset[int]:
        cpus = parsed_cpus(workload.core_ids, self.configuration.wire == "0.3")
        words = -(-self.host.cpu_count // GROUP_BITS) * GROUP_BITS
        if cpus and max(cpus) >= words:
            raise PanicError(f"CPU {max(cpus)} of {words}")
        return cpus

    def _caches(self, workload: Workload, cpus: frozenset[int]) -> frozenset[int]:
        """The workload's caches: those of its CPUs, else of its tasks, else all."""
        for task in workload.task_ids:
            cpus |= self.host.processes.get(task, frozenset())
        found = {cache for cache, own in self.host.caches.items() if not cpus.isdisjoint(own)}
        return frozenset(found or self.host.caches)


def _merged(stored: Workload, patch: Workload) -> tuple[Workload, bool]:
    """The stored workload with the patch's values, and whether they differ."""
    if patch.policy:
        return stored.with_(policy=patch.policy), patch.policy != stored.policy
    fields = ("cache_max", "cache_min", "ratio", "monitoring", "mba_percentage", "mba_mbps")
    given = {name: getattr(patch, name) for name in fields if getattr(patch, name) is not None}
    if not given:
        return stored, False
    differs = any(getattr(stored, name) != value for name, value in given.items())
    return stored.with_(policy="", **given), differs
