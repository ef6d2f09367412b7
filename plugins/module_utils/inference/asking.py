# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Inference requests for rows, in as few batches as the servers accept."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from ..base.context import ProgressCallback, ignore_progress
from ..base.errors import TargetError, TargetFailure
from ..fleet.visits import BearerToken, Client, Credential, FleetOptions, Pace, Target, Trust, visit
from . import wire

# Possible answers of a server to too many rows.
_REFUSALS = ("server_error", "malformed")
# Single rows that a model may fail before its remaining rows are skipped.
_MAX_FAILED_ROWS = 20


@dataclass(frozen=True)
class Model:
    """Access to a model: the URL to POST to, the credential, and the trust."""

    url: str
    credential: Credential | BearerToken | None = None
    trust: Trust = field(default_factory=Trust)
    allow_plain_http: bool = False

    @property
    def origin(self) -> str:
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc}"

    def target(self, extra: t.Mapping[str, t.Any]) -> Target:
        """The model as a target of one request."""
        return Target(self.url, self.url, self.credential, self.trust, extra, self.allow_plain_http)


@dataclass
class Inquiry:
    """Distinct rows for one model, and the outcome of each: a value as sent, or an error.

    ``limit`` is the number of rows of a request; it falls if the server refuses.
    """

    model: Model
    limit: int
    rows: dict[str, None] = field(default_factory=dict)
    outcomes: dict[str, t.Any] = field(default_factory=dict)
    requests: int = 0
    failed_rows: int = 0
    given_up: t.Optional[TargetFailure] = None


def ask(
    inquiries: t.Sequence[Inquiry],
    options: FleetOptions,
    progress: ProgressCallback = ignore_progress,
    pace: Pace = Pace(),  # noqa: B008 - frozen
) -> None:
    """Fill the outcomes of all inquiries; ``options.timeout`` is for one request with its retries.

    If a model refuses many rows but answers a single one, batches of a tenth follow, down to single
    rows. A server that is unreachable for one model is not tried for its others.
    """
    unreachable: dict[str, TargetFailure] = {}

    async def work(client: Client, target: Target) -> list[t.Any]:
        return await _infer(client, target.extra["inquiry"], target.extra["rows"], unreachable)

    while True:
        targets = [target for inquiry in inquiries for target in _targets(inquiry)]
        if not targets:
            return
        for target, result in zip(targets, visit(targets, work, options, progress, pace)):
            rows = target.extra["rows"]
            values = [result] * len(rows) if isinstance(result, TargetError) else result
            target.extra["inquiry"].outcomes.update(zip(rows, values))


def _targets(inquiry: Inquiry) -> t.Iterator[Target]:
    """A target for each request of the rows without an outcome."""
    model, waiting = inquiry.model, [row for row in inquiry.rows if row not in inquiry.outcomes]
    for start in range(0, len(waiting), inquiry.limit):
        rows = waiting[start : start + inquiry.limit]
        extra = {"inquiry": inquiry, "rows": rows}
        yield model.target(extra)


async def _infer(
    client: Client, inquiry: Inquiry, rows: list[str], unreachable: dict[str, TargetFailure]
) -> list[t.Any]:
    """Values of the first of these rows: of all, of one, or of none if the batch is too large."""
    known = inquiry.given_up or unreachable.get(inquiry.model.origin)
    if known is not None:
        raise TargetFailure(known.reason, known.detail)
    if len(rows) > inquiry.limit:
        return []
    try:
        return await _values(client, inquiry, rows)
    except TargetFailure as failure:
        if failure.reason == "unreachable":
            unreachable[inquiry.model.origin] = failure
        inquiry.failed_rows += 1
        if failure.reason not in _REFUSALS or inquiry.failed_rows > _MAX_FAILED_ROWS:
            inquiry.given_up = failure
        raise


async def _values(client: Client, inquiry: Inquiry, rows: list[str]) -> list[t.Any]:
    try:
        return await _request(client, inquiry, rows)
    except TargetFailure as failure:
        refused = failure.reason in _REFUSALS or failure.fields.get("passing")
        if len(rows) == 1 or not refused:
            raise
    # A single row shows whether the batch is too large or the model is defective.
    values = await _request(client, inquiry, rows[:1])
    inquiry.limit = min(inquiry.limit, max(1, len(rows) // 10))
    return values


async def _request(client: Client, inquiry: Inquiry, rows: list[str]) -> list[t.Any]:
    inquiry.requests += 1
    body = wire.request_body(rows)
    # A prediction changes nothing, but a refused batch is better made smaller than sent again.
    answer = await client.post_json(inquiry.model.url, body, repeatable=len(rows) == 1)
    return wire.read_outputs(answer.body, len(rows))
