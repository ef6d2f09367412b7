# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Wanted and existing workloads, and their JSON in RMD v0.2 and v0.3.

Lists of CPUs have RMD's form: ``["0-3", "8"]``, and ``"1-8,^3-4"``, where ``^`` excludes.
"""

from __future__ import annotations

import re
import typing as t
from dataclasses import dataclass, replace

from ...base.boundary import InvalidField, shown
from ...base.errors import InvalidInput, TargetFailure
from ...base.fields.lenient import member, number, text, whole
from ...base.fields.strict import mapping, whole_number
from ...base.json_types import Object

_TOKEN = re.compile(r"(\^?)(\d{1,9})(?:-(\d{1,9}))?", re.ASCII)
MAX_CPU = 65_535
_MAX_CPUS_NAMED = 4 * MAX_CPU
# Each CPU separately, with a trailing comma.
_MAX_LIST_LENGTH = 512 * 1024


def parse_core_ids(core_ids: t.Sequence[t.Any], where: str = "core_ids") -> frozenset[int]:
    """The CPUs of all lists together; exclusions count in their order.

    Stricter than the daemon, which crashes on a list without a number. Raises InvalidField.
    """
    if not isinstance(core_ids, (list, tuple)):
        raise InvalidField(where, f"{shown(core_ids)} is not a list; write it like [0-3, 8]")
    texts = [str(item) for item in core_ids if isinstance(item, (str, int))]
    if len(texts) < len(core_ids) or sum(map(len, texts)) > _MAX_LIST_LENGTH:
        raise InvalidField(where, f"{shown(core_ids)} is too long, or holds other than CPUs")
    cpus: set[int] = set()
    named = 0
    for token in (token.strip() for item in texts for token in item.split(",")):
        first, last = _range(token, where)
        named += last - first + 1
        if named > _MAX_CPUS_NAMED:
            raise InvalidField(where, f"{shown(core_ids)} repeats CPUs too often")
        if token.startswith("^"):
            cpus.difference_update(range(first, last + 1))
        else:
            cpus.update(range(first, last + 1))
    return frozenset(cpus)


def _range(token: str, where: str) -> tuple[int, int]:
    match = _TOKEN.fullmatch(token)
    if match is None:
        problem = f"{shown(token)} is not a list of CPUs; write it like 3, 0-3 or 0-7,^4"
        raise InvalidField(where, problem)
    first, last = int(match.group(2)), int(match.group(3) or match.group(2))
    if last < first:
        raise InvalidField(where, f"the range {shown(token)} ends before it begins")
    if last > MAX_CPU:
        raise InvalidField(where, f"there is no CPU {last}; the largest is {MAX_CPU}")
    return first, last


Wire = t.Literal["0.2", "0.3"]
JsonObject = dict[str, t.Any]

DEFAULT_NAMESPACE = "default"
SUCCESSFUL = "Successful"
REST = "REST"
# v0.3's stored value without a requested bandwidth.
_MAX_ITEMS = 5000
_ALL_PERCENT = 100
_ALL_MBPS = 4294967290
_MAX_NUMBER = 2**32 - 1  # RMD's numbers have 32 bits
_MAX_TEXT_LENGTH = 1000


@dataclass(frozen=True)
class Settings:
    """Settings of a workload: cache ways (most, least), bandwidth, P-state, or a policy."""

    policy: str | None = None
    cache: tuple[int, int] | None = None
    mba_percentage: int | None = None
    mba_mbps: int | None = None
    ratio: float | None = None
    monitoring: str | None = None

    @property
    def mba(self) -> tuple[int | None, int | None]:
        """The requested bandwidth; 100 % equals none."""
        percentage = None if self.mba_percentage == _ALL_PERCENT else self.mba_percentage
        return percentage, None if self.mba_mbps == _ALL_MBPS else self.mba_mbps

    @property
    def pstate(self) -> tuple[float, str] | None:
        """Ratio and monitoring; a ratio without monitoring switches it on."""
        return None if self.ratio is None else (self.ratio, (self.monitoring or "on").lower())

    @property
    def is_guaranteed(self) -> bool:
        """Whether it requests no other than guaranteed ways."""
        return self.cache is None or self.cache[0] == self.cache[1] > 0

    def differs_from(self, other: Settings) -> bool:
        """Whether a workload with these settings differs. A policy overrides all others."""
        if self.policy or other.policy:
            return self.policy != other.policy
        return (self.cache, self.mba, self.pstate) != (other.cache, other.mba, other.pstate)

    def as_dict(self) -> JsonObject:
        """The settings for people, as in diff mode, without missing ones."""
        cache = None if self.cache is None else {"max": self.cache[0], "min": self.cache[1]}
        mba = {"percentage": self.mba_percentage, "mbps": self.mba_mbps}
        pstate = {"ratio": self.ratio, "monitoring": self.monitoring}
        found = {
            "policy": self.policy,
            "cache": cache,
            "mba": _given(mba),
            "pstate": _given(pstate),
        }
        return {name: value for name, value in found.items() if value}


@dataclass(frozen=True)
class Desired:
    """A wanted workload.

    ``core_ids`` are kept as written, because groups are named by them. With ``all_cores`` its CPUs
    are those of the machine without ``reserved``.
    """

    name: str
    namespace: str
    core_ids: tuple[str, ...]
    cpus: frozenset[int]
    settings: Settings
    all_cores: bool = False
    reserved: frozenset[int] = frozenset()

    @property
    def uuid(self) -> str:
        return uuid_of(self.namespace, self.name)


@dataclass(frozen=True)
class FormerWorkload:
    """A workload of ours, as last shown by the daemon."""

    uuid: str
    core_ids: tuple[str, ...]
    cache: tuple[int, int]

    @property
    def smallest(self) -> Settings:
        """The smallest workload in the same pool, and thus in a group of the same name."""
        most, least = self.cache
        if most == least:
            return Settings(cache=(1, 1) if most else (0, 0))
        return Settings(cache=(2, 1))


@dataclass(frozen=True)
class Stored:
    """A workload in a daemon's database. ``cpus`` is None if its list cannot be read."""

    id: str
    uuid: str
    core_ids: tuple[str, ...]
    cpus: frozenset[int] | None
    task_ids: tuple[str, ...]
    settings: Settings
    status: str
    cos_name: str
    origin: str
    wire: Wire

    @property
    def shown(self) -> str:
        """Its name for people."""
        return f"{self.uuid!r} (id {self.id})" if self.uuid else f"with id {self.id} and no uuid"


def uuid_of(namespace: str, name: str) -> str:
    """UUID of a workload on daemons: upstream's plain name, only in ``default``."""
    return name if namespace in ("", DEFAULT_NAMESPACE) else f"{namespace}/{name}"


def desired_of(given: Object, where: str = "workload") -> Desired:
    """From a module's option, with members as in its documentation. Raises InvalidInput."""
    policy = given.get("policy") or None
    # A policy overrides everything: other settings are neither sent nor checked.
    values = {} if policy else given
    cache, mba, pstate = (
        mapping(values.get(key) or None, f"{where}.{key}") for key in ("cache", "mba", "pstate")
    )
    desired = Desired(
        name=given["name"],
        namespace=given.get("namespace") or DEFAULT_NAMESPACE,
        core_ids=tuple(str(item).strip() for item in given.get("core_ids") or ()),
        cpus=parse_core_ids(given.get("core_ids") or (), f"{where}.core_ids"),
        settings=Settings(
            policy=_text(policy, f"{where}.policy"),
            cache=_pair(cache, where),
            mba_percentage=_given_number(mba, "percentage", f"{where}.mba"),
            mba_mbps=_given_number(mba, "mbps", f"{where}.mba"),
            ratio=_ratio(pstate.get("ratio"), where),
            monitoring=_text(pstate.get("monitoring") or None, f"{where}.pstate.monitoring"),
        ),
        all_cores=bool(given.get("all_cores")),
        reserved=parse_core_ids(given.get("reserved_core_ids") or (), f"{where}.reserved_core_ids"),
    )
    _require_sense(desired, where)
    return desired


def _text(value: t.Any, where: str) -> str | None:
    if value is not None and (not isinstance(value, str) or len(value) > _MAX_TEXT_LENGTH):
        raise InvalidField(where, f"{shown(value)} is not a text, or too long")
    return value


def _given_number(given: Object, key: str, where: str) -> int | None:
    value = given.get(key)
    if value is None:
        return None
    return whole_number(value, f"{where}.{key}", -_MAX_NUMBER, _MAX_NUMBER)


def _pair(cache: Object, where: str) -> tuple[int, int] | None:
    most = _given_number(cache, "max", f"{where}.cache")
    least = _given_number(cache, "min", f"{where}.cache")
    if most is None and least is None:
        return None
    if most is None or least is None:
        raise InvalidField(f"{where}.cache", "give both max and min, or neither")
    return most, least


def _ratio(value: t.Any, where: str) -> float | None:
    if value is None or value == "":
        return None
    ratio = number(value)
    if ratio is None or ratio <= 0:
        raise InvalidField(f"{where}.pstate.ratio", f"{shown(value)} is not a number above 0")
    return ratio


def _require_sense(desired: Desired, where: str) -> None:
    """Refuse, before any request, settings that RMD refuses."""
    settings = desired.settings
    if not desired.cpus and not desired.all_cores:
        raise InvalidField(f"{where}.core_ids", "no CPU is given; name some, or set all_cores")
    if settings.cache is not None:
        most, least = settings.cache
        if most < 0 or least < 0 or ((most, least) != (0, 0) and not most >= least > 0):
            raise InvalidField(
                f"{where}.cache",
                f"max {most} with min {least} is not a request to RMD; write equal "
                "numbers (guaranteed), a smaller min above 0 (best effort), or 0 and 0 (shared)",
            )
    if settings.mba_percentage is not None and settings.mba_mbps is not None:
        raise InvalidField(f"{where}.mba", "give percentage or mbps, not both")
    if settings.mba != (None, None) and not settings.is_guaranteed:
        raise InvalidField(
            f"{where}.mba",
            "bandwidth goes with guaranteed ways only; make cache.max and cache.min "
            "equal, or remove mba",
        )
    for name, value, most in (
        ("percentage", settings.mba_percentage, _ALL_PERCENT),
        ("mbps", settings.mba_mbps, _ALL_MBPS),
    ):
        if value is not None and not 1 <= value <= most:
            raise InvalidField(f"{where}.mba.{name}", f"{value} is not between 1 and {most}")
    if settings.monitoring is not None and settings.monitoring.lower() not in ("on", "off"):
        raise InvalidField(
            f"{where}.pstate.monitoring", f"{settings.monitoring!r} is not on or off"
        )
    if settings.monitoring is not None and settings.ratio is None:
        raise InvalidField(f"{where}.pstate", "monitoring needs a ratio")
    if settings == Settings():
        raise InvalidField(f"{where}", "nothing is requested; give cache, mba, pstate or policy")


def stored_of(document: t.Any) -> Stored:
    """From a daemon's answer, of either version. Raises TargetFailure for an invalid workload."""
    if not isinstance(document, dict) or not text(document.get("id")):
        raise TargetFailure("malformed", "the daemon's list of workloads holds something else")
    is_new = "rdt" in document
    cache = member(document, "rdt", "cache") if is_new else document.get("cache")
    pstate = member(document, "plugins", "pstate") if is_new else document.get("pstate")
    most, least = whole(member(cache, "max")), whole(member(cache, "min"))
    core_ids = _texts(document.get("core_ids"))
    return Stored(
        id=text(document["id"]),
        uuid=text(document.get("uuid")),
        core_ids=core_ids,
        cpus=_cpus(core_ids),
        task_ids=_texts(document.get("task_ids")),
        settings=Settings(
            policy=text(document.get("policy")) or None,
            cache=None if most is None and least is None else (most or 0, least or 0),
            mba_percentage=whole(member(document, "rdt", "mba", "percentage")),
            mba_mbps=_mbps(member(document, "rdt", "mba", "mbps")),
            ratio=number(member(pstate, "ratio")),
            monitoring=text(member(pstate, "monitoring")) or None,
        ),
        status=text(document.get("status")),
        cos_name=text(document.get("cos_name")),
        origin=text(document.get("origin")),
        wire="0.3" if is_new else "0.2",
    )


def body_of(uuid: str, core_ids: t.Sequence[str], settings: Settings, wire: Wire) -> JsonObject:
    """A request's body.

    v0.3 gets each CPU separately, because it later frees only CPU 0 of a range. A bandwidth of 100
    % is left out for ways that are not guaranteed, where it is not allowed.
    """
    if wire == "0.3":
        core_ids = [str(cpu) for cpu in sorted(parse_core_ids(core_ids))]
    body: JsonObject = {"uuid": uuid, "core_ids": list(core_ids)}
    if settings.policy:
        return {**body, "policy": settings.policy}
    cache = None if settings.cache is None else dict(zip(("max", "min"), settings.cache))
    pstate = settings.pstate
    p_state = None if pstate is None else {"ratio": pstate[0], "monitoring": pstate[1]}
    if wire == "0.2":
        return {**body, **_given({"cache": cache, "pstate": p_state})}
    mba = {}
    if settings.is_guaranteed:
        mba = _given({"percentage": settings.mba_percentage, "mbps": settings.mba_mbps})
    rdt = _given({"cache": cache, "mba": mba or None})
    plugins = {"pstate": p_state} if p_state else None
    return {**body, **_given({"rdt": rdt or None, "plugins": plugins})}


def with_all_bandwidth(settings: Settings, stored: Settings) -> Settings:
    """For a PATCH, which keeps unnamed values: request all bandwidth again."""
    if settings.mba != (None, None) or stored.mba == (None, None):
        return settings
    if stored.mba_percentage is not None:
        return replace(settings, mba_percentage=_ALL_PERCENT, mba_mbps=None)
    return replace(settings, mba_percentage=None, mba_mbps=_ALL_MBPS)


def _cpus(core_ids: tuple[str, ...]) -> frozenset[int] | None:
    try:
        return parse_core_ids(core_ids)
    except InvalidInput:
        return None


def _texts(value: t.Any) -> tuple[str, ...]:
    given = value if isinstance(value, list) else ()
    if len(given) > _MAX_ITEMS:
        raise TargetFailure("malformed", "the daemon's workload has more CPUs or tasks than any")
    return tuple(text(item if isinstance(item, str) else shown(item)) for item in given)


def _mbps(value: t.Any) -> int | None:
    found = number(value)
    return int(found) if found is not None and 0 <= found <= _ALL_MBPS else None


def _given(members: JsonObject) -> JsonObject:
    return {name: value for name, value in members.items() if value is not None}
