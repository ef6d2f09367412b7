# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""BMC addresses in BareMetalHosts, such as ``idrac-virtualmedia+https://10.0.0.9/…``.

Source: package bmc of Metal3's baremetal-operator.
"""

from __future__ import annotations

import re

# Types that Metal3 reaches by Redfish; its others are IPMI (also an address without a type) and
# proprietary protocols.
_TYPE = re.compile(
    r"(?:redfish(?:-virtualmedia|-uefihttp)?|(?:idrac|ilo5)-(?:redfish|virtualmedia))"
    r"(?:\+(?P<scheme>https?))?"
)
_AUTHORITY = re.compile(r"[^/?#]*")
# Paths that name no system, so that it is the only one of the BMC.
_NO_SYSTEM = frozenset({"", "redfish", "redfish/v1", "redfish/v1/Systems"})


def redfish_endpoint(bmc_address: str | None) -> tuple[str, str] | None:
    """The URL of a BMC and the path of its computer system; None for an address without Redfish.

    The path is empty if the address names no system. User name and password are dropped, because
    Metal3 takes them from a Secret. The slashes after the type may be missing, as in ``redfish:h``.
    """
    kind, separator, rest = (bmc_address or "").strip().partition(":")
    match = _TYPE.fullmatch(kind.lower())
    rest = rest.removeprefix("//")
    authority = _AUTHORITY.match(rest)
    if not separator or match is None or authority is None:
        return None
    host = authority[0].rpartition("@")[2]
    if not host:
        return None
    path = re.split(r"[?#]", rest[authority.end() :], maxsplit=1)[0].rstrip("/")
    names_none = path.strip("/") in _NO_SYSTEM
    return f"{match['scheme'] or 'https'}://{host}", "" if names_none else path
