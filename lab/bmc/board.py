# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One machine's BMC: its authentication and its answers."""

from __future__ import annotations

import base64
import binascii
import json
import urllib.parse
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from lab.bmc.accounts import Account
from lab.bmc.caps import CapStyle, tag_of
from lab.bmc.errors import Refusal, missing, unauthorized, unavailable
from lab.bmc.live import Live, PowerCap
from lab.bmc.odata import ROOT, Json, link
from lab.bmc.power import MachinePower, Troubles
from lab.bmc.service import SESSIONS, session
from lab.bmc.tree import Tree
from lab.bmc.vendors import TREES
from lab.conditions import (
    BOOT_FAILS,
    BOOT_LATE,
    FORCE_OFF_REFUSED,
    NULL_READING,
    POWER_STATE_STUCK,
    RESET_BUSY,
    RESET_MISSING,
    SHUTDOWN_IGNORED,
    UNAUTHORIZED,
    UNAVAILABLE,
    Conditions,
)
from lab.machines import Machine
from lab.physics import Truth, nominal_watts

OPEN_PATHS = frozenset({"/redfish", ROOT})
TOKEN_HEADER = "X-Auth-Token"


@dataclass(frozen=True)
class Request:
    """The parts of an HTTP request that a BMC reads; header names are case-insensitive."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes = b""


@dataclass(frozen=True)
class Reply:
    """Status, JSON body (None: empty) and headers."""

    status: int
    body: Json | None
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass
class Traffic:
    """Requests since the last reset of the counters."""

    requests: int = 0
    statuses: Counter[int] = field(default_factory=Counter)
    in_flight: int = 0
    peak_in_flight: int = 0

    def begin(self) -> None:
        self.requests += 1
        self.in_flight += 1
        self.peak_in_flight = max(self.peak_in_flight, self.in_flight)

    def end(self, status: int) -> None:
        self.in_flight -= 1
        self.statuses[status] += 1

    def reset(self) -> None:
        self.requests, self.peak_in_flight = 0, self.in_flight
        self.statuses.clear()


class Board:
    """The BMC of one machine, without sockets."""

    def __init__(
        self, machine: Machine, predictor_url: str, power_time_factor: float = 1.0
    ) -> None:
        self.machine = machine
        self.tree: Tree = TREES[machine.vendor]
        self.account = Account(machine.bmc_username, machine.bmc_password)
        self.power_account = Account(machine.power_username, machine.power_password)
        self.power = MachinePower.of(machine.server_type, power_time_factor)
        self.cap = PowerCap()
        self.traffic = Traffic()
        self._predictor_url = predictor_url

    def live(self, truth: Truth, conditions: Conditions) -> Live:
        """What the BMC sees of the machine, whose power decides about its draw."""
        now, troubles = conditions.now(), self._troubles(conditions)
        is_blank = conditions.fault(NULL_READING, self.machine.name) is not None
        return Live(
            self.machine,
            self._powered(truth, now),
            self._predictor_url,
            is_blank,
            self.power.shown(self.tree.reset, troubles, now),
            not troubles.has_no_reset,
            self.cap,
        )

    def _powered(self, truth: Truth, now: float) -> Truth:
        """The physical state under the machine's power and its limit."""
        facts = truth.inlet_celsius, truth.delta_p_pascal
        felt = self.power.felt(truth, nominal_watts(self.machine.server_type, 0.0, *facts), now)
        limit = self.cap.effective
        return felt if limit is None else replace(felt, power_watts=min(felt.power_watts, limit))

    def _troubles(self, conditions: Conditions) -> Troubles:
        name = self.machine.name
        busy, late = conditions.fault(RESET_BUSY, name), conditions.fault(BOOT_LATE, name)
        return Troubles(
            ignores_shutdown=conditions.fault(SHUTDOWN_IGNORED, name) is not None,
            refuses_force_off=conditions.fault(FORCE_OFF_REFUSED, name) is not None,
            lies=conditions.fault(POWER_STATE_STUCK, name) is not None,
            has_no_reset=conditions.fault(RESET_MISSING, name) is not None,
            busy_seconds=busy.seconds if busy else 0.0,
            fails_boot=conditions.fault(BOOT_FAILS, name) is not None,
            late_seconds=late.seconds if late else 0.0,
        )

    def press_button(self, conditions: Conditions) -> None:
        """A person switches the machine on at its front."""
        self.power.press_button(self._troubles(conditions), conditions.now())

    def answer(self, request: Request, truth: Truth, conditions: Conditions) -> Reply:
        """The reply to a request, errors included."""
        try:
            return self._answer(request, truth, conditions)
        except Refusal as refusal:
            body = refusal.body(self.tree.registry)
            return Reply(refusal.status, body, refusal.headers)

    def _answer(self, request: Request, truth: Truth, conditions: Conditions) -> Reply:
        name, now = self.machine.name, conditions.now()
        busy = conditions.fault(UNAVAILABLE, name)
        if busy is not None:
            raise unavailable(busy.seconds)
        path = request.path.rstrip("/")
        if self.tree.has_slashes and request.method == "GET" and request.path == path != "/redfish":
            return self._redirect(request)
        refuses_all = conditions.fault(UNAUTHORIZED, name) is not None
        if request.method == "POST" and path == SESSIONS:
            return self._log_in(request, refuses_all, now)
        if path not in OPEN_PATHS and (refuses_all or not self._is_known(request, now)):
            raise unauthorized()
        if request.method == "DELETE" and path.startswith(f"{SESSIONS}/"):
            return self._log_out(path)
        if (request.method, path) == ("POST", self.tree.reset_path):
            return self._reset(request, conditions)
        if request.method == "PATCH" and self.tree.cap and path == self.tree.cap.path:
            return self._limit(request, self.tree.cap, self.live(truth, conditions), now)
        if request.method not in ("GET", "HEAD"):
            raise Refusal(405, "OperationNotAllowed", (), {"Allow": "GET, HEAD"})
        if path == SESSIONS or path.startswith(f"{SESSIONS}/"):
            return Reply(200, self.tree.finish(self._sessions(path)))
        body = self.tree.get(path, request.query, self.live(truth, conditions))
        is_limit = self.tree.cap is not None and path == self.tree.cap.path
        return Reply(200, body, {"ETag": tag_of(body)} if is_limit else {})

    def _reset(self, request: Request, conditions: Conditions) -> Reply:
        now, troubles = conditions.now(), self._troubles(conditions)
        self._require_privileges(request, now)
        if troubles.has_no_reset:
            raise missing(request.path)
        kind = str(_parse_object(request.body).get("ResetType"))
        self.power.reset(self.tree.reset, kind, troubles, now)
        return Reply(self.tree.reset.status, {} if self.tree.reset.status == 200 else None)

    def _limit(self, request: Request, style: CapStyle, live: Live, now: float) -> Reply:
        self._require_privileges(request, now)
        tag = request.headers.get("If-Match")
        shown = tag_of(self.tree.get(style.path, {}, live))
        if tag is None and style.needs_tag:
            raise Refusal(428, "PreconditionRequired")
        if tag is not None and (tag != shown or style.refuses_tags):
            raise Refusal(412, "PreconditionFailed")
        style.patch(self.cap, _parse_object(request.body))
        return Reply(200, {})

    def _require_privileges(self, request: Request, now: float) -> None:
        """Changes need the second account; the first has the role ReadOnly."""
        if not self._is_account(self.power_account, request, now):
            raise Refusal(403, "InsufficientPrivilege")

    def _redirect(self, request: Request) -> Reply:
        """To the path with a slash at the only address that the BMC knows, whoever asks."""
        query = f"?{urllib.parse.urlencode(request.query)}" if request.query else ""
        address = f"https://{self.machine.bmc_address}"
        return Reply(308, None, {"Location": f"{address}{request.path}/{query}"})

    def _is_known(self, request: Request, now: float) -> bool:
        token = request.headers.get(TOKEN_HEADER)
        if token is not None:
            return self.account.session_of(token, now) is not None
        return self._is_account(self._account_of(request), request, now)

    def _account_of(self, request: Request) -> Account:
        username, _password = _basic(request)
        return self.power_account if username == self.power_account.username else self.account

    def _is_account(self, account: Account, request: Request, now: float) -> bool:
        username, password = _basic(request)
        if not username or (account is self.power_account and username != account.username):
            return False
        return account.accepts(username, password, now)

    def _log_in(self, request: Request, refuses_all: bool, now: float) -> Reply:
        credential = _parse_object(request.body)
        username, password = str(credential.get("UserName")), str(credential.get("Password"))
        if refuses_all or not self.account.accepts(username, password, now):
            raise unauthorized()
        opened = self.account.open_session(now)
        path = f"{SESSIONS}/{opened.id}"
        headers = {TOKEN_HEADER: opened.token, "Location": path}
        return Reply(201, self.tree.finish(session(path, username)), headers)

    def _log_out(self, path: str) -> Reply:
        if self.account.sessions.pop(path.rpartition("/")[2], None) is None:
            raise missing(path)
        return Reply(204, None)

    def _sessions(self, path: str) -> Json:
        if path != SESSIONS:
            if path.rpartition("/")[2] not in self.account.sessions:
                raise missing(path)
            return session(path, self.account.username)
        members = [link(f"{SESSIONS}/{name}") for name in self.account.sessions]
        return {
            "@odata.id": SESSIONS,
            "@odata.type": "#SessionCollection.SessionCollection",
            "Name": "Session Collection",
            "Members": members,
            "Members@odata.count": len(members),
        }


def _basic(request: Request) -> tuple[str, str]:
    """User name and password of basic authentication; empty without any."""
    scheme, _separator, encoded = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() != "basic":
        return "", ""
    try:
        decoded = base64.b64decode(encoded, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return "", ""
    username, _colon, password = decoded.partition(":")
    return username, password


def _parse_object(body: bytes) -> dict[str, Any]:
    try:
        document = json.loads(body)
    except ValueError:
        document = None
    if not isinstance(document, dict):
        raise Refusal(400, "MalformedJSON")
    return document
