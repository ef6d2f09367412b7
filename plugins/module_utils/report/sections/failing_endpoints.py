# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Failing endpoints with reason and remedy."""

from __future__ import annotations

from ..fleet import Fleet, natural
from ..markup import Child, element
from ..numbers import counted
from ..section import Column, Data, Detail, Section, lead, of

REMEDIES = {
    "unreachable": "Check the address, the network path from this host or its gateway, and the "
    "power of the BMC.",
    "timeout": "The BMC accepts connections but answers too late: restart it, or raise "
    "observe_timeout.",
    "tls": "Compare the certificate with what the trust playbook shows, and renew the pin or the "
    "authority in the inventory.",
    "credential": "Create the Secret that the NodeConfig names, or add its missing key.",
    "unauthorized": "Correct user name and password in the Secret. The next attempt is 5 to "
    "60 minutes later, so that the BMC does not lock the account, or when the Secret changes.",
    "forbidden": "Give the account the permission to read sensors and power on this BMC. The next "
    "attempt follows when its Secret changes.",
    "not_found": "Check that the endpoint is that of the BMC or the model; update a firmware that "
    "lacks the resource.",
    "throttled": "The server gets too many requests; find its other clients, or lower "
    "observe_concurrency.",
    "server_error": "Restart the BMC or the server; its own log says why it failed.",
    "malformed": "Update the firmware. If it is current, report the answer as a defect.",
    "no_sensor": "The machine lacks the sensor or is off; annotate its NodeConfig with a fallback.",
    "refused": "The server refused the request; its message in the detail names the reason.",
    "conflict": "Another client changed or owns the object; find this client, and run again.",
    "implausible": "Check the sensor; the implausible value is not used.",
}
_NO_REMEDY = "Read the detail; run the playbook with -vv for more information."


def collect(fleet: Fleet) -> Data | None:
    sources = fleet.sources
    if sources.readings is None and sources.curves is None:
        return None
    errors = [
        {
            "name": error["name"],
            "endpoint": error.get("endpoint") or "",
            "reason": error["reason"],
            "detail": error["detail"],
            "remedy": REMEDIES.get(error["reason"], _NO_REMEDY),
        }
        for document in (sources.readings, sources.curves)
        for error in (document or {}).get("errors") or []
    ]
    errors.sort(key=lambda error: (error["reason"], natural(error["name"]), error["detail"]))
    return {"failing": len({error["name"] for error in errors}), "errors": errors}


_COLUMNS = (
    Column("Node", of("name")),
    Column("Endpoint", of("endpoint", lambda text: element("code", text) if text else "")),
    Column("What happened", lambda one: [element("b", one["reason"]), ": ", one["detail"]]),
    Column("What to do", of("remedy")),
)


def _render(data: Data, detail: Detail) -> Child:
    errors = data["errors"]
    if not errors:
        return lead("Every endpoint answered.")
    words = f"{counted(len(errors), 'failure')} at {counted(data['failing'], 'node')}."
    return [lead(words), detail.table("Failing endpoints", _COLUMNS, errors, "failures")]


SECTION = Section("failing_endpoints", "Failing endpoints", collect, _render)
