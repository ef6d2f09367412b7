# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A simulated AWX: its objects, jobs, accounts and tokens."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from lab.awx.jobs import Jobs
from lab.awx.kinds import KINDS
from lab.awx.store import Store
from lab.awx.workflows import Workflows

Json = dict[str, Any]


@dataclass(frozen=True)
class Token:
    """A user's token; one of the ``read`` scope writes nothing."""

    number: int
    account: str
    scope: str


@dataclass
class Awx:
    """A simulated AWX. ``requests`` are the writing ones, as texts."""

    port: int
    store: Store
    jobs: Jobs
    workflows: Workflows
    version: str = "24.6.1"
    tokens: dict[str, Token] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def token_of(self, account: str, scope: str = "write") -> str:
        """A new token, as a user would create one."""
        token = f"token-of-{account}-{next(self.store.numbers)}"
        self.tokens[token] = Token(next(self.store.numbers), account, scope)
        return token

    def may_change(self, account: str, organization: int | None) -> bool:
        """Whether the account may change objects of the organization, or global ones for None."""
        number, user = self.find("users", account)
        role = self.store.role_ids.get((organization or 0, "admin"), 0)
        return user["is_superuser"] or number in self.store.roles.get(role, {}).get("users", [])

    def names(self, endpoint: str) -> list[str]:
        """The names of all objects of a kind."""
        name = KINDS[endpoint].name
        return [item[name] for item in self.store.objects[endpoint].values()]

    def find(self, endpoint: str, name: str) -> tuple[int, Json]:
        """Id and fields of an object."""
        field_name = KINDS[endpoint].name
        return next(
            (number, item)
            for number, item in self.store.objects[endpoint].items()
            if item[field_name] == name
        )
