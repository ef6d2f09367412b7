# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An API server that stores only Events."""

from __future__ import annotations

import typing as t

from support.scripted_api import Asked, Reply, status_reply

Json = dict[str, t.Any]


class Store:
    """The Events of an API server by path; ``refusal`` is its answer to every write."""

    def __init__(self) -> None:
        self.events: dict[str, Json] = {}
        self.refusal: Reply | None = None

    def __call__(self, asked: Asked) -> Reply:
        if asked.method != "GET" and self.refusal is not None:
            return self.refusal
        path = asked.path.partition("?")[0]
        if asked.method == "POST":
            path = f"{path}/{asked.body['metadata']['name']}"
            if path in self.events:
                return status_reply(409, "already exists")
            self.events[path] = asked.body
        elif path not in self.events:
            return status_reply(404, "not found")
        elif asked.method == "PATCH":
            self.events[path] = {**self.events[path], **asked.body}
        return Reply(self.events[path])
