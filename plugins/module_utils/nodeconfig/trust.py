# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Certificates of many servers for review, the work of tls_fingerprint_info.

Each server gets only a TLS handshake. No request and no credential is sent, because its identity is
unknown.
"""

from __future__ import annotations

import dataclasses
import datetime
import typing as t

from ..base.argspec import FLEET, PROGRESS, ArgumentSpec
from ..base.boundary import shown_text
from ..base.context import Context, Parameters, Result
from ..base.errors import TargetError, TargetFailure
from ..base.libraries import x509
from ..base.units import format_time
from ..fleet.tls import certificate_fingerprint, key_fingerprint
from ..fleet.visits import Client, Target, visit
from .poll import FAKE, PollTarget, conclude, fleet_options, given_targets

_SHARED = (
    "snapshot",
    "node_selector",
    "timeout",
    "concurrency",
    "on_error",
    "min_success",
)
_TARGET = {
    "name": {"type": "str", "required": True},
    "endpoint": {"type": "str", "required": True},
}
_SOURCES = (("targets", "snapshot"),)
SPEC = ArgumentSpec(
    {
        "targets": {"type": "list", "elements": "dict", "options": _TARGET},
        **{name: FLEET.options[name] for name in _SHARED},
    },
    mutually_exclusive=_SOURCES,
    required_one_of=_SOURCES,
).merge(PROGRESS)


def fetch_fingerprints(parameters: Parameters, context: Context = Context()) -> Result:
    """``certificates`` and ``errors`` of the targets or of the snapshot's BMCs.

    Raises InvalidInput, and WattwiseError with all results if too few targets answered.
    """
    options = SPEC.complete(parameters)
    found = _bmcs(options)
    results = visit(
        [Target(item.name, item.endpoint) for item in found],
        _work,
        fleet_options(options),
        context.progress,
    )
    answers = list(zip(found, results))
    certificates = [
        {"name": item.name, "endpoint": shown_text(item.endpoint), **answer}
        for item, answer in answers
        if not isinstance(answer, TargetError)
    ]
    errors = [
        dataclasses.replace(answer, detail=shown_text(answer.detail))
        for _item, answer in answers
        if isinstance(answer, TargetError)
    ]
    return conclude(options, len(found), errors, {"certificates": certificates})


def _bmcs(options: Parameters) -> list[PollTarget]:
    """Each BMC once per node, although temperature and models may share it."""
    found = given_targets(options, "Redfish", "inlet_temp")
    if options["targets"] is None:
        found += given_targets(options, "Redfish", "power_consumption_endpoint_provider")
    distinct = {(target.name, target.endpoint): target for target in reversed(found)}
    return [
        target
        for target in reversed(list(distinct.values()))
        if target.kind != FAKE and target.problem is None
    ]


async def _work(client: Client, _target: Target) -> Result:
    certificate = await client.certificate()
    try:
        return {
            "sha256": certificate_fingerprint(certificate),
            "key_sha256": key_fingerprint(certificate),
            **_description(certificate),
        }
    except (ArithmeticError, LookupError, RuntimeError, ValueError) as error:
        raise TargetFailure(
            "malformed", "its certificate cannot be read; give the server a new one"
        ) from error


def _description(certificate: bytes) -> dict[str, t.Any]:
    """Data for the review. Names come from the server, so control characters are replaced."""
    parsed = x509.load_der_x509_certificate(certificate)
    # cryptography 42 and later return aware times; earlier versions naive ones in UTC.
    ends = getattr(parsed, "not_valid_after_utc", None) or parsed.not_valid_after.replace(
        tzinfo=datetime.timezone.utc
    )
    return {
        "subject": shown_text(parsed.subject.rfc4514_string()),
        "issuer": shown_text(parsed.issuer.rfc4514_string()),
        "not_after": format_time(ends),
        "self_signed": parsed.subject == parsed.issuer,
    }
