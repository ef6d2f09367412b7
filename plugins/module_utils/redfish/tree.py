# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Reader of a BMC's tree: each resource once, with defects that do not end the walk."""

from __future__ import annotations

import typing as t

from ..base.errors import TargetFailure
from ..base.fields.lenient import member
from ..base.json_types import Object
from ..fleet.visits import Client
from .links import identity, link

ROOT = "/redfish/v1"
_EXPANDS = ("ProtocolFeaturesSupported", "ExpandQuery", "NoLinks")
MAX_PAGES = 50
MAX_MEMBERS = 500
_EXPAND_SECONDS = 5.0

# Reasons about a resource; all others concern the machine.
_OF_ONE_RESOURCE = frozenset({"not_found", "malformed", "server_error", "throttled"})


class Tree:
    """One BMC. ``failures`` are failures of resources that should have answered."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._known: dict[str, Object | None] = {}
        self._failed: dict[str, TargetFailure] = {}
        self.can_expand = False

    @property
    def failures(self) -> list[TargetFailure]:
        return list(self._failed.values())

    @property
    def has_answered(self) -> bool:
        """Whether any resource could be read."""
        return any(body is not None for body in self._known.values())

    async def read(self, uri: str) -> Object | None:
        """The resource, or None if it is absent or defective.

        Raises TargetFailure if the machine does not answer or refuses the account.
        """
        place = identity(uri)
        if not place:
            return None
        if place not in self._known:
            self._known[place] = await self._get(uri)
        return self._known[place]

    async def root(self) -> Object:
        """The service root. Raises TargetFailure if it is defective."""
        root = await self.require(ROOT) or {}
        self.can_expand = member(root, *_EXPANDS) is True
        return root

    async def require(self, uri: str) -> Object | None:
        """Like ``read``, but raises the failure of an existing but defective resource."""
        body = await self.read(uri)
        if identity(uri) in self._failed:
            raise self._failed[identity(uri)]
        return body

    async def members(self, uri: str, *, required: bool = False) -> list[str] | None:
        """The URIs of a collection's members over all its pages; None without a collection."""
        entries = await self.entries(uri, "Members", required=required)
        if entries is None:
            return None
        uris = {identity(found): found for found in map(link, entries) if found}
        return list(uris.values())[:MAX_MEMBERS]

    async def entries(
        self, uri: str, name: str, *, required: bool = False, expand: bool = False
    ) -> list[t.Any] | None:
        """The items of a list over all its pages; None without a list or a URI.

        With ``expand`` the request is for contents instead of links, if the BMC supports it;
        remaining links stay links. Cycles and endless lists end.
        """
        body = await self._expanded(uri) if expand else None
        if body is None:
            body = await (self.require(uri) if required else self.read(uri))
        if body is None:
            return None
        found: list[t.Any] = []
        seen: set[str] = set()
        while body is not None:
            items = body.get(name)
            found += items if isinstance(items, list) else []
            following = link(body.get(f"{name}@odata.nextLink"))
            if not following or following in seen or len(seen) >= MAX_PAGES - 1:
                break
            seen.add(following)
            body = await self.read(following)
        return found

    async def _expanded(self, uri: str) -> Object | None:
        """The first page of a collection with its members' contents; None if that fails."""
        if not uri or not self.can_expand or "?" in uri:
            return None
        query = "?$expand=.($levels=1)"
        try:
            place = uri.partition("#")[0]
            answer = await self._client.get_json(place + query, limit=_EXPAND_SECONDS)
        except TargetFailure as failure:
            is_usable = failure.reason in _OF_ONE_RESOURCE or failure.reason == "timeout"
            if is_usable and not failure.fields.get("exhausted"):
                return None
            raise
        body = answer.body if isinstance(answer.body, dict) else {}
        return body if isinstance(body.get("Members"), list) else None

    async def _get(self, uri: str) -> Object | None:
        try:
            body = (await self._client.get_json(uri)).body
        except TargetFailure as failure:
            if failure.reason not in _OF_ONE_RESOURCE or failure.fields.get("exhausted"):
                raise
            if failure.reason != "not_found":
                self._failed[identity(uri)] = failure
            return None
        if not isinstance(body, dict):
            self._failed[identity(uri)] = TargetFailure(
                "malformed", f"the resource {uri} is not a JSON object; check the BMC's firmware"
            )
            return None
        # Some firmware answers HTTP 200 with an error in the body.
        return None if "error" in body and "@odata.id" not in body else body
