# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kubelet of each machine, which runs only while its operating system does.

KWOK simulates no kubelet for a Node with OFF_LABEL: its heartbeats and its pods stop. The cluster
would notice that only after the grace period of the lab's long Leases, so this file writes the
condition that the node lifecycle controller would write; its taints are that controller's own.
"""

from __future__ import annotations

import asyncio
import datetime
import http
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from lab.api import MERGE_PATCH
from lab.bmc.board import Board
from lab.bmc.pods import RETRY_SECONDS, Connection, open_session
from lab.controlplane.components import OFF_LABEL

LOG = logging.getLogger(__name__)
NODES = "/api/v1/nodes"
STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"
INTERVAL_SECONDS = 0.1
# The default grace period of the node lifecycle controller.
NOTICE_SECONDS = 50.0
TIMEOUT = aiohttp.ClientTimeout(total=30.0)
_UNKNOWN_TYPES = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")


@dataclass
class Kubelets:
    """The kubelets of the boards' machines; `now` is the time (s) in the lab.

    A kubelet that stopped at `stopped[node]` is noticed `notice_seconds` later.
    """

    boards: Mapping[str, Board]
    now: Callable[[], float]
    notice_seconds: float = NOTICE_SECONDS
    stopped: dict[str, float] = field(default_factory=dict)
    noticed: set[str] = field(default_factory=set)

    async def follow(self, api: Connection) -> None:
        """Start and stop kubelets until cancelled; after every error, try again."""
        async with open_session(api) as session:
            is_listed = False
            while True:
                try:
                    if not is_listed:
                        await self._list(session)
                        is_listed = True
                    await self.settle(session)
                    await asyncio.sleep(INTERVAL_SECONDS)
                except (aiohttp.ClientError, TimeoutError, ValueError, KeyError) as error:
                    LOG.warning("kubelets are tried again: %s: %s", type(error).__name__, error)
                    await asyncio.sleep(RETRY_SECONDS)

    async def settle(self, session: aiohttp.ClientSession) -> None:
        """Bring the Nodes into agreement with the machines' power."""
        now = self.now()
        down = {name for name, board in self.boards.items() if not board.power.is_up(now)}
        for node in sorted(down - self.stopped.keys()):
            await _patch(session, node, {"metadata": {"labels": {OFF_LABEL: "true"}}})
            self.stopped[node] = now
        for node in sorted(self.stopped.keys() - down):
            await _patch(session, node, {"metadata": {"labels": {OFF_LABEL: None}}})
            del self.stopped[node]
            self.noticed.discard(node)
        for node, since in sorted(self.stopped.items()):
            if node not in self.noticed and now - since >= self.notice_seconds:
                await _notice(session, node)
                self.noticed.add(node)

    async def _list(self, session: aiohttp.ClientSession) -> None:
        """Remember the Nodes whose kubelets an earlier process has stopped."""
        query = {"labelSelector": f"{OFF_LABEL}=true"}
        async with session.get(NODES, params=query, timeout=TIMEOUT, raise_for_status=True) as got:
            items = (await got.json())["items"]
        self.stopped.update({item["metadata"]["name"]: self.now() for item in items})


async def _notice(session: aiohttp.ClientSession, node: str) -> None:
    moment = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    told = {
        "status": "Unknown",
        "reason": "NodeStatusUnknown",
        "message": "Kubelet stopped posting node status.",
        "lastTransitionTime": moment,
    }
    conditions = [{"type": kind, **told} for kind in _UNKNOWN_TYPES]
    body = {"status": {"conditions": conditions}}
    await _patch(session, f"{node}/status", body, STRATEGIC_MERGE_PATCH)


async def _patch(
    session: aiohttp.ClientSession, path: str, body: Mapping[str, Any], kind: str = MERGE_PATCH
) -> None:
    """Change a Node; one that does not exist has nothing to change."""
    headers = {"Content-Type": kind}
    address = f"{NODES}/{path}"
    async with session.patch(address, json=body, headers=headers, timeout=TIMEOUT) as answer:
        if answer.status != http.HTTPStatus.NOT_FOUND:
            answer.raise_for_status()
