# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Parts of requests to the simulated AWX, and pages of lists in its answers."""

from __future__ import annotations

import json
from typing import Any

from aiohttp import web

Json = dict[str, Any]

_PAGE = 25


def number_of(request: web.Request) -> int:
    """The id of the object in the URL."""
    return int(request.match_info["id"])


async def body_of(request: web.Request) -> Json:
    """The object in the body; an empty one for anything else."""
    text = await request.text()
    found = json.loads(text) if text else {}
    return found if isinstance(found, dict) else {}


def page_of(request: web.Request, found: list[Json]) -> web.Response:
    """The page of a list that the query asks for."""
    page, size = (int(request.query.get(n, d)) for n, d in (("page", 1), ("page_size", _PAGE)))
    after = request.rel_url.update_query(page=str(page + 1)) if page * size < len(found) else None
    results = found[(page - 1) * size : page * size]
    answer = {"count": len(found), "next": str(after) if after else None, "previous": None}
    return web.json_response({**answer, "results": results})
