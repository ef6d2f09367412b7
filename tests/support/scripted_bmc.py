# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""BMCs whose answers to resets a test scripts, for ``HttpsServer``."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

from support.https_server import Document, Received, Reply
from support.redfish_trees import ROOT, SERVER, collection, one_server, ref

Json = dict[str, t.Any]
SYSTEM = f"{ROOT}/Systems/1"
RESET = f"{SYSTEM}/Actions/ComputerSystem.Reset"
TYPES = ["On", "ForceOff", "GracefulShutdown"]


@dataclass
class Bmc:
    """A BMC with one system. ``replies`` are answers to resets, the last one again and again.

    An accepted reset takes effect at once, unless it is ``deaf``.
    """

    state: str = "On"
    replies: list[Reply] = field(default_factory=lambda: [Reply(204)])
    path: str = RESET
    deaf: bool = False
    system: Json = field(default_factory=dict)
    documents: dict[str, Document] = field(default_factory=dict)
    posts: list[Received] = field(default_factory=list)
    own_address: str | None = None

    @property
    def actions(self) -> Json:
        return {"#ComputerSystem.Reset": {"target": self.path, **self.values(TYPES)}}

    def values(self, types: list[str]) -> Json:
        return {"ResetType@Redfish.AllowableValues": types}

    def system_body(self) -> Json:
        return {
            "@odata.id": SYSTEM,
            "PowerState": self.state,
            "Actions": self.actions,
            "Links": {"Chassis": [ref(SERVER)]},
            **self.system,
        }

    def answer(self, received: Received) -> Reply | None:
        if received.method == "GET" and received.path == SYSTEM:
            return Reply(body=self.system_body())
        if received.method != "POST":
            return None
        self.posts.append(received)
        reply = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
        if 200 <= reply.status < 300 and not self.deaf:
            self.obey(received.body)
        return reply

    def obey(self, body: Json) -> None:
        self.state = "On" if body["ResetType"] == "On" else "Off"

    @property
    def tree(self) -> dict[str, Document]:
        root = f"{ROOT}/Systems"
        return {**one_server(), root: collection(SYSTEM), **self.documents}


class Fujitsu(Bmc):
    """An iRMC with an action of its own, whose list has only what suits the state."""

    target = f"{SYSTEM}/Actions/Oem/FTSComputerSystem.Reset"

    @property
    def actions(self) -> Json:
        off = ["PowerOff", "GracefulPowerOff", "PowerCycle"]
        listed = off if self.state == "On" else ["PowerOn", "PowerOnCabinet"]
        action = {"target": self.target, "FTSResetType@Redfish.AllowableValues": listed}
        return {"Oem": {"#FTSComputerSystem.Reset": action}}

    def obey(self, body: Json) -> None:
        self.state = {"PowerOn": "On", "PowerOff": "Off", "GracefulPowerOff": "Off"}[
            body["FTSResetType"]
        ]
