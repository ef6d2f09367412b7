# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Delays after refused logins, because BMCs lock accounts after a few failures.

The only memory is ``status.authentication`` of the NodeConfigs.
"""

from __future__ import annotations

import datetime
import typing as t
from dataclasses import dataclass

from ..base.errors import InvalidInput, TargetFailure
from ..base.fields.lenient import member, whole
from ..base.json_types import MutableObject, Object
from ..base.units import format_time, parse_time

FIRST_WAIT = datetime.timedelta(minutes=5)
MAX_WAIT = datetime.timedelta(minutes=60)
_MAX_FAILURES = 1_000_000
_MAX_VERSION_LENGTH = 256


@dataclass(frozen=True)
class Attempts:
    """Consecutive refusals of an account, time of the last one, and version of its Secret."""

    failures: int = 0
    last_attempt: datetime.datetime | None = None
    secret_resource_version: str = ""

    @classmethod
    def from_status(cls, status: t.Any) -> Attempts:
        """From ``status.authentication`` of a NodeConfig; no refusals if it is unreadable."""
        return cls._read(status, "lastAttempt", "secretResourceVersion")

    @classmethod
    def from_result(cls, entry: Object) -> Attempts:
        """From the form of ``as_result``."""
        return cls._read(entry, "last_attempt", "secret_resource_version")

    @classmethod
    def _read(cls, given: t.Any, last_attempt: str, version: str) -> Attempts:
        count, found = whole(member(given, "failures")), member(given, version)
        if count is None or count < 1:
            return cls()
        is_usable = isinstance(found, str) and len(found) <= _MAX_VERSION_LENGTH
        try:
            moment = parse_time(member(given, last_attempt))
        except InvalidInput:
            return cls()
        return cls(min(count, _MAX_FAILURES), moment, found if is_usable else "")

    def as_result(self, name: str) -> MutableObject:
        """The form for the result of a module and for the status of the NodeConfig."""
        return {
            "name": name,
            "failures": self.failures,
            "last_attempt": format_time(self.last_attempt) if self.last_attempt else None,
            "secret_resource_version": self.secret_resource_version,
        }


def not_before(attempts: Attempts, version: str) -> datetime.datetime | None:
    """Earliest time of the next attempt; None if it is allowed at any time.

    The delays are 5, 10, 20, 40 and 60 minutes. A Secret with another resource ``version`` than the
    refused one may be tried at once.
    """
    if attempts.failures < 1 or attempts.last_attempt is None:
        return None
    if attempts.secret_resource_version != version:
        return None
    wait = min(FIRST_WAIT * (1 << min(attempts.failures - 1, 10)), MAX_WAIT)
    return attempts.last_attempt + wait


def after_attempt(
    attempts: Attempts, refused: bool, version: str, now: datetime.datetime
) -> Attempts | None:
    """The state after an attempt; None if it is unchanged."""
    if not refused:
        return Attempts(0, now, version) if attempts.failures else None
    failures = attempts.failures if attempts.secret_resource_version == version else 0
    return Attempts(failures + 1, _next_second(now), version)


def _next_second(moment: datetime.datetime) -> datetime.datetime:
    """Round up to whole seconds, because rounding down would shorten the delay."""
    whole = moment.replace(microsecond=0)
    return whole if whole == moment else whole + datetime.timedelta(seconds=1)


class Memory:
    """Attempts of the accounts of machines during one run, by machine name."""

    def __init__(self, attempts: t.Mapping[str, Attempts]) -> None:
        self._attempts = dict(attempts)
        self._changed: set[str] = set()

    def require_patience(
        self, name: str, version: str, source: str, now: datetime.datetime
    ) -> None:
        """Raise TargetFailure if it is too early to try the account again.

        ``source`` names the origin of the credential, ``version`` its resource version.
        """
        attempts = self._attempts.get(name, Attempts())
        if attempts.last_attempt is not None and attempts.last_attempt - now > MAX_WAIT:
            return  # A time in the future is invalid; the next failure corrects it.
        moment = not_before(attempts, version)
        if moment is not None and now <= moment:
            raise TargetFailure(
                "unauthorized",
                f"no further request before {format_time(moment)}, because a BMC locks accounts "
                f"after a few failures; correct {source} or wait",
            )

    def note(self, name: str, refused: bool, version: str, now: datetime.datetime) -> None:
        """Record an attempt of the account."""
        after = after_attempt(self._attempts.get(name, Attempts()), refused, version, now)
        if after is not None:
            self._attempts[name] = after
            self._changed.add(name)

    def as_result(self, names: t.Iterable[str]) -> list[MutableObject]:
        """Entries of refused accounts and of accounts that are accepted again."""
        return [
            self._attempts[name].as_result(name)
            for name in names
            if name in self._changed or self._attempts.get(name, Attempts()).failures
        ]
