# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Accounts of requests to the simulated AWX, and the permissions that they need."""

from __future__ import annotations

import base64

from aiohttp import web

from lab.awx.instance import Awx, Token
from lab.awx.messages import number_of
from lab.awx.store import Refusal

FORBIDDEN = {"detail": "You do not have permission to perform this action."}


def account_of(awx: Awx, request: web.Request) -> Token | None:
    """The account of a request, also for a password."""
    kind, _, value = request.headers.get("Authorization", "").partition(" ")
    if kind == "Bearer":
        return awx.tokens.get(value)
    if kind == "Basic":
        name, _, password = base64.b64decode(value).decode().partition(":")
        for user in awx.store.objects["users"].values():
            if (user["username"], user["password"]) == (name, password):
                return Token(0, name, "write")
    return None


class Access:
    """The permissions of accounts. Each ``require`` raises Refusal without the permission."""

    def __init__(self, awx: Awx) -> None:
        self._awx = awx
        self._store = awx.store

    def requester(self, request: web.Request) -> str:
        """The name of the account."""
        known = account_of(self._awx, request)
        assert known is not None  # Else the request was refused.
        return known.account

    def require(self, request: web.Request, organization: int | None) -> None:
        """Refuse the request if its account may not change objects of the organization."""
        if not self._awx.may_change(self.requester(request), organization):
            raise Refusal(403, FORBIDDEN)

    def require_object(self, request: web.Request) -> None:
        """Refuse the request if its account may not change its object."""
        kind, number = request.match_info["kind"], number_of(request)
        item = self._store.get(kind, number)
        own = number if kind == "organizations" else self._store.organization_of(kind, item)
        self.require(request, own)

    def require_execution(self, request: web.Request) -> None:
        """Refuse the request if its account may not launch its template."""
        self._store.get(request.match_info["kind"], number_of(request))
        role = self._store.roles[self._store.role_ids[number_of(request), "execute"]]
        user, _item = self._awx.find("users", self.requester(request))
        if user not in role["users"]:
            self.require_object(request)

    def require_role(self, request: web.Request, role: int) -> None:
        """Refuse the request if its account may not give the role."""
        self.require(request, self._organization_of_role(role))

    def require_decision(self, request: web.Request, workflow: int) -> None:
        """Administrators and holders of the role approval of the workflow decide."""
        role = self._store.role_ids[workflow, "approval"]
        user, _item = self._awx.find("users", self.requester(request))
        if user not in self._store.roles[role]["users"]:
            self.require_role(request, role)

    def _organization_of_role(self, role: int) -> int | None:
        [owner] = [key[0] for key, number in self._store.role_ids.items() if number == role]
        kind = self._store.endpoint_of(owner)
        return (
            owner
            if kind == "organizations"
            else self._store.organization_of(kind, self._store.objects[kind][owner])
        )
