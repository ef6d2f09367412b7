# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""BMC addresses in BareMetalHosts, such as ``idrac-virtualmedia+https://10.0.0.9/…``."""

from __future__ import annotations

import re

# Redfish schemes of Metal3; the others are IPMI and proprietary protocols.
_SCHEME = re.compile(
    r"(?:[a-z0-9-]*redfish[a-z0-9-]*|[a-z0-9-]+-virtualmedia)(?:\+(https?))?", re.ASCII
)


def redfish_endpoint(bmc_address: str | None) -> tuple[str, str] | None:
    """The URL of a BMC and the path of its computer system; None for an address without Redfish."""
    scheme, separator, rest = (bmc_address or "").partition("://")
    match = _SCHEME.fullmatch(scheme)
    authority, slash, path = rest.partition("/")
    if not separator or match is None or not authority:
        return None
    return f"{match[1] or 'https'}://{authority}", f"{slash}{path}".partition("?")[0].rstrip("/")
