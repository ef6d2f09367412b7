# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Lists of a collection in pages, whose items are reduced on arrival."""

from __future__ import annotations

import functools
import typing as t
from dataclasses import dataclass

from ..base.boundary import Finding
from ..base.errors import ApiError
from ..base.json_types import MutableObject
from . import reading
from .connection.transport import Query, Transport, parts_of

# Objects of the first page of a list and of the longest one. In between, the size of the objects
# so far decides, because the API server holds a page in memory as a whole.
_FIRST_PAGE, _MAX_PAGE_LENGTH = 50, 500
_PAGE_BYTES = 16 * 1024 * 1024

Item = t.TypeVar("Item")
Refuse = t.Callable[[Finding], None]


@dataclass(frozen=True)
class Page(t.Generic[Item]):
    """Some items of a collection, and the resource version of its list."""

    items: list[Item]
    version: str


def read_pages(
    transport: Transport,
    path: str,
    query: Query | None,
    trim: t.Callable[[MutableObject], Item],
    refuse: Refuse | None = None,
) -> t.Iterator[Page[Item]]:
    """The pages of a collection, by the parameters of ``Kube.list``.

    May raise ApiError midway, including 410.
    """
    asked: dict[str, str | int] = dict(query or {})
    limit, number, size = _FIRST_PAGE, 0, 0
    item_type: MutableObject = {}
    while True:
        asked["limit"] = limit
        once = functools.partial(_page, transport, path, asked, trim, item_type)
        listed, items, findings = transport.repeated("GET", once)
        if listed.untyped and listed.item_type and not item_type:
            # It says the kind of its items after them, and they do not say it.
            item_type = listed.item_type
            continue
        for finding in findings:
            if refuse is None:
                raise ApiError(
                    f"The list {path} of {transport.host} has an unusable item: {finding}"
                )
            refuse(finding)
        yield Page(items, listed.text("resourceVersion"))
        token = listed.text("continue")
        if not token:
            return
        asked["continue"] = token
        item_type = listed.item_type
        number, size = number + max(1, listed.number), size + listed.size
        # Sudden growth would ask for much where small objects are followed by large ones.
        fitting = _PAGE_BYTES * number // max(1, size)
        limit = max(1, min(_MAX_PAGE_LENGTH, 10 * limit, fitting))


def _page(
    transport: Transport,
    path: str,
    query: Query,
    trim: t.Callable[[MutableObject], Item],
    item_type: MutableObject,
) -> tuple[reading.Listed, list[Item], list[Finding]]:
    items: list[Item] = []
    findings: list[Finding] = []
    with transport.opened("GET", path, query) as response:
        listed = reading.read_list(
            parts_of(response), lambda item: items.append(trim(item)), findings.append, item_type
        )
    return listed, items, findings
