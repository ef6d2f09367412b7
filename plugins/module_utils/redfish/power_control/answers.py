# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Answers of BMCs to changes, and entity tags.

Sources of message ids: Dell iDRAC (PSU501, SYS518), HPE iLO (InvalidOperationForSystemState), DMTF's
Base registry; Ironic and sushy repeat requests after the same ids.
"""

from __future__ import annotations

import typing as t

from ...base.errors import TargetFailure
from ...base.fields.lenient import member, objects, text
from ...fleet.failures import REDIRECTS, failure_of_status, retry_after_seconds
from ...fleet.visits import Client, Received
from .planning import Answer

# Limits of one look at a machine, and of one change.
READ_SECONDS = 30.0
WRITE_SECONDS = 30.0
# Messages of a refusal that may end: the machine has the state already, or the BMC is busy.
_NOT_NOW = (
    *("PSU501", "SYS518", "InvalidOperationForSystemState", "ActionParameterValueConflict"),
    *("NoOperation", "ServiceTemporarilyUnavailable", "ResourceInUse", "SystemResetting"),
)
_BUSY = frozenset({409, 423, 425, 429, 500, 503})
# A gateway gave up, and the BMC may have done it.
_UNKNOWN = frozenset({502, 504})
_TAG_REFUSED = frozenset({412, 428})
_MAX_TAG_LENGTH = 256
_MAX_MESSAGES = 4


async def send_change(
    client: Client, method: t.Literal["PATCH", "POST"], uri: str, body: t.Any, tagged: str
) -> Received:
    """Send a change; with another If-Match as long as the BMC refuses the entity tag.

    The order is that of sushy: the tag of the resource ``tagged`` as given, a weak one as a strong
    one, none. A POST begins with none, and the resource is read only when the BMC wants a tag. Raises
    TargetFailure.
    """
    tag_first = method == "PATCH"
    tags = [*await _tags(client, tagged), ""] if tag_first else [""]
    while True:
        tag = tags.pop(0)
        headers = {"If-Match": tag} if tag else {}
        received = await client.write(method, uri, body, headers, limit=WRITE_SECONDS)
        if received.status not in _TAG_REFUSED:
            return received
        if not tag_first:
            tag_first = True
            try:
                tags = await _tags(client, tagged)
            except TargetFailure:
                return received
        if not tags:
            return received


async def _tags(client: Client, uri: str) -> list[str]:
    """The resource's entity tag, which only the header has on some BMCs, and its strong form."""
    answer = await client.get_json(uri, limit=READ_SECONDS)
    tag = answer.headers.get("etag") or text(member(answer.body, "@odata.etag"), _MAX_TAG_LENGTH)
    if not tag or len(tag) > _MAX_TAG_LENGTH or not (tag.isascii() and tag.isprintable()):
        return []
    return list(dict.fromkeys([tag, tag.removeprefix("W/")]))


def answer_of(client: Client, received: Received, what: str, now: float) -> Answer:
    """The meaning of an answer to a reset.

    ``now`` are seconds since 1970. Raises TargetFailure if the account may not do this.
    """
    status = received.status
    messages = messages_of(client, received)
    told = f"HTTP {status}" + (f" {'; '.join(messages)}" if messages else "")
    if 200 <= status < 300:
        return Answer("accepted", f"HTTP {status}")
    require_permission(received, what)
    seconds = retry_after_seconds(received.headers.get("retry-after"), now)
    if status in _BUSY or any(name in message for message in messages for name in _NOT_NOW):
        return Answer("not_now", told, seconds)
    if status in _UNKNOWN:
        return Answer("lost", told)
    if status in REDIRECTS:
        return Answer("refused", f"{told}, a redirect that would not repeat the request")
    return Answer("refused", told)


def require_permission(received: Received, what: str) -> None:
    """Raise TargetFailure for an answer 401 or 403."""
    if received.status == 401:
        raise failure_of_status(401, received.headers, what, 0.0)
    if received.status == 403:
        raise TargetFailure(
            "forbidden",
            f"HTTP 403 to {what}: the account may not do this; give an account that may as "
            "power_credential (a reset needs ConfigureComponents, the role Operator; a power limit "
            "ConfigureManager, the role Administrator)",
        )


def messages_of(client: Client, received: Received) -> list[str]:
    """Message ids and messages of an error answer, the most telling first; none if unreadable."""
    if not received.content.strip():
        return []
    try:
        body = client.decoded(received, "the change")
    except TargetFailure as failure:
        if failure.fields.get("exhausted"):
            raise
        return []
    error = member(body, "error")
    given = [
        value
        for holder in (error, body)
        for name, value in (holder.items() if isinstance(holder, dict) else ())
        if name == "Messages" or name.endswith("@Message.ExtendedInfo")
    ]
    entries = [one for value in given for one in objects(_listed(value))]
    if not entries:
        entries = [{"MessageId": member(error, "code"), "Message": member(error, "message")}]
    found = []
    for entry in entries[:_MAX_MESSAGES]:
        identifier = text(entry.get("MessageId") or entry.get("MessageID"), 128)
        message = text(entry.get("Message"), 300)
        found.append(": ".join(filter(None, (identifier, message))))
    return [message for message in found if message]


def _listed(value: t.Any) -> list[t.Any]:
    return value if isinstance(value, list) else [value]
