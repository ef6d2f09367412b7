# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The ConfigMap of caps and evictions: an entry for each Node with a cap, or a recent eviction.

A run anywhere finds there what earlier runs did, also after its folder is lost. An entry is written
before a BMC gets its cap. Each write tests the version that was read, so that two runs never both
believe that an entry is theirs. A rack whose power an owner reduces for its inlet has an entry, too.
"""

from __future__ import annotations

import datetime
import hashlib
import typing as t
from dataclasses import dataclass

from ..base import strict_json
from ..base.boundary import shown
from ..base.errors import ApiError, InvalidInput, WattwiseError
from ..base.fields.lenient import member, number, text
from ..base.json_types import Object
from ..base.units import format_time, parse_time
from ..kube.client import MERGE_CONTENT_TYPE, Kube
from ..power.limits.reductions import Reduction
from ..redfish.power import MAX_WATTS

NAME = "wattwise-limits"
# An eviction counts until then; readings that did not come by then do not come any more.
_FORGOTTEN_AFTER = datetime.timedelta(hours=1)
_CONFLICTS = 5
_SAME_WATTS = 0.5


class TakenOver(WattwiseError):
    """Another run changed entries that this one was about to change."""


class Cap(t.NamedTuple):
    """A cap of ours, the limit of the BMC before it, and those of ours that it may still have; in W.

    A BMC may have an earlier cap if nobody knows whether it accepted the last one. ``owner`` is the
    run that set it.
    """

    watts: float
    before_watts: float | None = None
    earlier_watts: tuple[float, ...] = ()
    owner: str = ""

    @property
    def sent_watts(self) -> tuple[float, ...]:
        return (*self.earlier_watts, self.watts)

    def is_of(self, watts: float) -> bool:
        """Whether a limit that a BMC has is ours; BMCs round to whole watts."""
        return any(abs(watts - one) < _SAME_WATTS for one in self.sent_watts)


class RackReduction(t.NamedTuple):
    """A rack whose power an owner reduces, among its own machines, for their inlets."""

    rack: str
    owner: str
    reduction: Reduction

    @property
    def key(self) -> str:
        return rack_key(self.rack, self.owner)


def rack_key(rack: str, owner: str) -> str:
    """The name of the entry of a rack, which is none of a Node: these have no underscore."""
    return f"rack_{rack}_{hashlib.sha256(owner.encode()).hexdigest()[:8]}"


@dataclass(frozen=True)
class Entry:
    """The cap of a Node, and the time of the last eviction there, with the kind of its limit; or
    the reduction of a rack."""

    cap: Cap | None = None
    evicted_at: datetime.datetime | None = None
    evicted_for: str = ""
    reduced: RackReduction | None = None

    def __bool__(self) -> bool:
        return any(one is not None for one in (self.cap, self.evicted_at, self.reduced))

    @property
    def owner(self) -> str:
        """The owner of the cap or the reduction; empty without one."""
        found = self.cap or self.reduced
        return "" if found is None else found.owner

    def at(self, now: datetime.datetime) -> Entry:
        """The entry without an eviction that was long ago."""
        # A time that is as far in the future is that of a clock which was wrong.
        is_old = self.evicted_at is not None and abs(now - self.evicted_at) >= _FORGOTTEN_AFTER
        return Entry(self.cap) if is_old else self

    def as_text(self) -> str:
        fields: dict[str, t.Any] = {}
        if self.cap is not None:
            # Without empty fields, because all entries share the 1 MiB of a ConfigMap.
            fields.update((name, value) for name, value in self.cap._asdict().items() if value)
        if self.evicted_at is not None:
            fields["evicted_at"] = format_time(self.evicted_at)
            fields["evicted_for"] = self.evicted_for
        if self.reduced is not None:
            rack, owner, reduction = self.reduced
            fields = {"rack": rack, "owner": owner, **vars(reduction)}
            fields["changed_at"] = format_time(reduction.changed_at)
        return strict_json.format_compact(fields)


Entries = dict[str, Entry]


class LimitsRecord:
    """The entries of all runs; each run changes those of its own Nodes and racks."""

    def __init__(self, kube: Kube, namespace: str) -> None:
        self._kube = kube
        self._title = f"ConfigMap {namespace}/{NAME}"
        self._collection = f"/api/v1/namespaces/{namespace}/configmaps"
        self._path = f"{self._collection}/{NAME}"
        self._version: str | None = None
        self._stored: Entries = {}

    def read(self) -> Entries:
        """All entries. Raises ApiError, and InvalidInput, as nobody else knows the caps."""
        found = self._kube.find(self._path)
        self._version = None if found is None else found["metadata"]["resourceVersion"]
        given = member(found, "data")
        try:
            self._stored = {
                str(name): _read_entry(value)
                for name, value in (given if isinstance(given, dict) else {}).items()
            }
        except (ValueError, InvalidInput) as error:
            raise InvalidInput(
                f"{self._title} is not readable: {error}. The caps of earlier runs are unknown "
                "without it: remove them with redfish_power_limit and state absent, and then the "
                "ConfigMap"
            ) from error
        return dict(self._stored)

    def write(self, entries: t.Mapping[str, Entry]) -> None:
        """Replace these entries; empty ones go.

        Raises ApiError, and TakenOver if another run changed one of them since the last read.
        """
        for _attempt in range(_CONFLICTS):
            known = self._stored
            changed = {
                name: entry for name, entry in entries.items() if entry != _entry(known, name)
            }
            if not changed:
                return
            try:
                self._put(changed)
                return
            except ApiError as error:
                if error.status not in (404, 409):
                    raise
            fresh = self.read()
            # One that is as it should be is this write, whose first answer was lost.
            taken = [
                name
                for name, entry in changed.items()
                if _entry(fresh, name) not in (_entry(known, name), entry)
            ]
            if taken:
                raise TakenOver(
                    f"Another run changes the limits of {min(taken)} at the same time, by the "
                    f"{self._title}; the next run continues"
                )
        raise TakenOver(
            f"The {self._title} was changed by others {_CONFLICTS} times; the next run continues"
        )

    def _put(self, changed: t.Mapping[str, Entry]) -> None:
        """Write exactly upon what was read. Raises ApiError, 404 and 409 after another's write."""
        metadata: dict[str, t.Any] = {"name": NAME}
        data = {name: entry.as_text() if entry else None for name, entry in changed.items()}
        body: dict[str, t.Any] = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
        if self._version is None:
            body["data"] = {name: value for name, value in data.items() if value is not None}
            found = self._kube.request("POST", self._collection, body)
        else:
            metadata["resourceVersion"] = self._version
            body["data"] = data
            found = self._kube.request("PATCH", self._path, body, MERGE_CONTENT_TYPE)
        self._version = found["metadata"]["resourceVersion"]
        self._stored = {name: entry for name, entry in {**self._stored, **changed}.items() if entry}


def _entry(entries: t.Mapping[str, Entry], name: str) -> Entry:
    return entries.get(name, Entry())


def _read_entry(given: t.Any) -> Entry:
    """Raises ValueError and InvalidInput."""
    body = strict_json.parse(str(given).encode())
    if text(member(body, "rack")):
        return Entry(reduced=_read_reduced(body))
    watts, evicted_at = _watts(member(body, "watts")), text(member(body, "evicted_at"))
    cap = None
    if watts is not None:
        cap = Cap(
            watts,
            _watts(member(body, "before_watts")),
            _numbers(body, "earlier_watts"),
            text(member(body, "owner")) or "",
        )
    entry = Entry(cap)
    if evicted_at:
        entry = Entry(cap, parse_time(evicted_at), text(member(body, "evicted_for")))
    if not entry:
        raise ValueError("an entry has neither watts nor evicted_at")
    return entry


def _read_reduced(body: Object) -> RackReduction:
    """Raises ValueError and InvalidInput."""
    names = ("watts", "first_watts", "first_celsius")
    watts, first_watts, celsius = (number(member(body, name)) for name in names)
    if watts is None or first_watts is None or celsius is None:
        raise ValueError("the entry of a rack lacks watts, first_watts or first_celsius")
    changed_at = parse_time(text(member(body, "changed_at")) or "")
    reduction = Reduction(watts, changed_at, first_watts, celsius)
    return RackReduction(text(body["rack"]), text(member(body, "owner")) or "", reduction)


def _watts(given: t.Any) -> float | None:
    """A power, which a BMC may get as its limit. Raises ValueError."""
    found = number(given)
    if given is not None and (found is None or not 0 < found <= MAX_WATTS):
        raise ValueError(f"{shown(given)} is no power in W")
    return found


def _numbers(body: Object, name: str) -> tuple[float, ...]:
    given = member(body, name)
    values = map(_watts, given if isinstance(given, list) else ())
    return tuple(value for value in values if value is not None)
