# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One BMC's account, which locks after wrong passwords, and its few sessions."""

from __future__ import annotations

import hmac
import secrets
from dataclasses import dataclass, field

from lab.bmc.errors import Refusal

FAILURES_UNTIL_LOCKED = 3
FAILURES_WITHIN_SECONDS = 300.0
LOCKED_SECONDS = 1800.0
SESSIONS = 8
SESSION_SECONDS = 1800.0


@dataclass
class Session:
    """A session of the account; `last_used` is Unix time."""

    id: str
    token: str = field(repr=False)
    last_used: float


@dataclass
class Account:
    """The account of a BMC. `now` is always Unix time (s), so tests need not wait."""

    username: str
    password: str = field(repr=False)
    failed_attempts: int = 0
    locked_until: float = 0.0
    sessions: dict[str, Session] = field(default_factory=dict)
    _recent_failures: list[float] = field(default_factory=list)

    def locked(self, now: float) -> bool:
        return now < self.locked_until

    def accepts(self, username: str, password: str, now: float) -> bool:
        """Check a password; three wrong ones within five minutes lock the account for thirty.

        A locked account refuses the right password too, and counts no more failures. An unknown
        user name locks nothing, but counts as a failed attempt.
        """
        right = hmac.compare_digest(password.encode(), self.password.encode())
        known = username == self.username
        if known and right and not self.locked(now):
            self._recent_failures.clear()
            return True
        self.failed_attempts += 1
        if known and not self.locked(now):
            self._count_failure(now)
        return False

    def open_session(self, now: float) -> Session:
        """Open a session, after expired ones are removed. Raises Refusal if the table is full."""
        self._expire(now)
        if len(self.sessions) >= SESSIONS:
            raise Refusal(503, "SessionLimitExceeded")
        session = Session(secrets.token_hex(4), secrets.token_hex(16), now)
        self.sessions[session.id] = session
        return session

    def session_of(self, token: str, now: float) -> Session | None:
        """The session of the token, which counts as used."""
        self._expire(now)
        for session in self.sessions.values():
            if hmac.compare_digest(session.token, token):
                session.last_used = now
                return session
        return None

    def unlock(self) -> None:
        self.locked_until = 0.0
        self._recent_failures.clear()

    def _count_failure(self, now: float) -> None:
        recent = [time for time in self._recent_failures if now - time < FAILURES_WITHIN_SECONDS]
        self._recent_failures = [*recent, now]
        if len(self._recent_failures) >= FAILURES_UNTIL_LOCKED:
            self.locked_until = now + LOCKED_SECONDS
            self._recent_failures.clear()

    def _expire(self, now: float) -> None:
        old = [
            session.id
            for session in self.sessions.values()
            if now - session.last_used >= SESSION_SECONDS
        ]
        for session_id in old:
            del self.sessions[session_id]
