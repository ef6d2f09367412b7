# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The resources of one vendor's BMC, and its answers to GET."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from lab.bmc.caps import CapStyle
from lab.bmc.errors import Refusal, missing, unavailable
from lab.bmc.live import Live, rounded
from lab.bmc.odata import Builder, Json, link
from lab.bmc.power import ResetStyle

RETRY_SECONDS = 5.0


@dataclass(frozen=True)
class Answers:
    """Places of the machine's true values in the tree, and their numbers of decimals."""

    inlet_uri: str
    inlet_name: str
    power_uri: str
    celsius_digits: int = 0
    watts_digits: int = 0

    def shown(self, live: Live) -> dict[str, float | None]:
        """The values as this BMC shows them."""
        return {
            "inlet_celsius": rounded(live.celsius(), self.celsius_digits),
            "power_watts": rounded(live.watts(), self.watts_digits),
        }


@dataclass(frozen=True)
class Tree:
    """One vendor's resources by path, without a slash at the end.

    `missing` are linked paths that answer 404, `busy` paths that answer 503. `expand` is the
    reaction to `$expand`: members are embedded, it is ignored, or every query is refused.
    Collections longer than `page_size` (0: no limit) are paged. With `has_slashes`, a path without
    a slash at the end is redirected. A POST to `reset_path` resets in the manner of `reset`, and a
    PATCH of the resource of `cap` sets a power limit. `finish` makes the final changes to each answer.
    """

    registry: str
    answers: Answers
    resources: Mapping[str, Builder]
    missing: frozenset[str] = frozenset()
    busy: frozenset[str] = frozenset()
    expand: Literal["members", "ignored", "refused"] = "ignored"
    page_size: int = 0
    has_slashes: bool = False
    reset_path: str = ""
    reset: ResetStyle = field(default_factory=ResetStyle)
    cap: CapStyle | None = None
    finish: Callable[[Json], Json] = lambda body: body

    def get(self, path: str, query: Mapping[str, str], live: Live) -> Json:
        """The document at the path; raises Refusal."""
        return self.finish(self._body(path, query, live))

    def _body(self, path: str, query: Mapping[str, str], live: Live) -> Json:
        path = path.rstrip("/")
        if path in self.busy:
            raise unavailable(RETRY_SECONDS, retry_after=False)
        build = self.resources.get(path)
        if build is None:
            raise missing(path)
        if self.expand == "refused" and any(key.startswith("$") for key in query):
            raise Refusal(501, "QueryNotSupported")
        body = build(live)
        if "Members" not in body:
            return body
        expand = query.get("$expand") if self.expand == "members" else None
        body = self._page(path, query, body, expand)
        if expand:
            members = [self._expanded(member["@odata.id"], live) for member in body["Members"]]
            body["Members"] = members
        return body

    def _page(self, path: str, query: Mapping[str, str], body: Json, expand: str | None) -> Json:
        if not self.page_size:
            return body
        skip = int(query.get("$skip", "0")) if query.get("$skip", "0").isdecimal() else 0
        end = skip + self.page_size
        paged = {**body, "Members": body["Members"][skip:end]}
        if end < len(body["Members"]):
            kept = f"$expand={expand}&" if expand else ""
            paged["Members@odata.nextLink"] = f"{path}?{kept}$skip={end}"
        return paged

    def _expanded(self, path: str, live: Live) -> Json:
        try:
            return self._body(path, {}, live)
        except Refusal:
            return link(path)


def with_context(body: Json) -> Json:
    """Add the `@odata.context` that older services carry."""
    first, _separator, last = body.get("@odata.type", "").lstrip("#").partition(".")
    context = f"/redfish/v1/$metadata#{first}.{last.rpartition('.')[2]}"
    return {"@odata.context": context, **body} if first else body


def with_slashes(value: Json) -> Json:
    """Let each link end in a slash, as iLO does, unless it has a fragment."""
    return {key: _slashed(key, item) for key, item in value.items()}


def _slashed(key: str, item: object) -> object:
    if isinstance(item, dict):
        return with_slashes(item)
    if isinstance(item, list):
        return [with_slashes(entry) if isinstance(entry, dict) else entry for entry in item]
    if key == "@odata.id" and isinstance(item, str) and "#" not in item:
        return item.rstrip("/") + "/"
    return item
