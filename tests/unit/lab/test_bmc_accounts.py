# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest

from lab.bmc.accounts import (
    FAILURES_WITHIN_SECONDS,
    LOCKED_SECONDS,
    SESSION_SECONDS,
    SESSIONS,
    Account,
)
from lab.bmc.errors import Refusal


@pytest.fixture
def account() -> Account:
    return Account("monitor", "right")


def fail(account: Account, *times: float) -> None:
    for now in times:
        assert not account.accepts("monitor", "wrong", now)


def test_three_wrong_passwords_lock_for_thirty_minutes(account: Account) -> None:
    fail(account, 0, 1)
    assert not account.locked(1)
    fail(account, 2)
    assert account.locked(2)
    assert not account.accepts("monitor", "right", 3)
    assert account.locked(2 + LOCKED_SECONDS - 1)
    assert account.accepts("monitor", "right", 2 + LOCKED_SECONDS)


def test_failures_far_apart_do_not_lock(account: Account) -> None:
    fail(account, *(number * FAILURES_WITHIN_SECONDS / 2 for number in range(10)))
    assert not account.locked(10 * FAILURES_WITHIN_SECONDS)
    assert account.failed_attempts == 10


def test_the_right_password_forgives_earlier_failures(account: Account) -> None:
    fail(account, 0, 1)
    assert account.accepts("monitor", "right", 2)
    fail(account, 3, 4)
    assert not account.locked(4)


def test_attempts_while_locked_do_not_lock_for_longer(account: Account) -> None:
    fail(account, 0, 1, 2, LOCKED_SECONDS, LOCKED_SECONDS + 1)
    assert account.accepts("monitor", "right", LOCKED_SECONDS + 2)


def test_an_unknown_user_is_refused_and_locks_nothing(account: Account) -> None:
    for now in range(5):
        assert not account.accepts("nobody", "right", now)
    assert not account.locked(5)
    assert account.failed_attempts == 5


def test_passwords_are_not_shown(account: Account) -> None:
    account.open_session(0)
    token = next(iter(account.sessions.values())).token
    assert "right" not in repr(account)
    assert token not in repr(account)


def test_the_session_table_is_small_and_unused_sessions_leave_it(account: Account) -> None:
    opened = [account.open_session(0) for _index in range(SESSIONS)]
    with pytest.raises(Refusal) as refused:
        account.open_session(1)
    assert refused.value.status == 503
    assert account.session_of(opened[0].token, SESSION_SECONDS - 1) is opened[0]
    account.open_session(SESSION_SECONDS)
    assert opened[0].id in account.sessions
    assert opened[1].id not in account.sessions
    assert account.session_of(opened[1].token, SESSION_SECONDS) is None
