# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""BMC addresses as Metal3's baremetal-operator reads them."""

from __future__ import annotations

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.nodeconfig.bare_metal import (
    redfish_endpoint,
)

TYPES = (
    *("redfish", "redfish-virtualmedia", "redfish-uefihttp", "idrac-redfish"),
    *("idrac-virtualmedia", "ilo5-redfish", "ilo5-virtualmedia"),
)
SYSTEM = "/redfish/v1/Systems/1"


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize(
    ("suffix", "scheme"), [("", "https"), ("+https", "https"), ("+http", "http")]
)
def test_types_with_redfish(kind: str, suffix: str, scheme: str) -> None:
    for given in (f"{kind}{suffix}", f"{kind}{suffix}".upper()):
        assert redfish_endpoint(f"{given}://h:8443{SYSTEM}") == (f"{scheme}://h:8443", SYSTEM)


@pytest.mark.parametrize(
    "path",
    [
        *("", "/", "//", "/redfish", "/redfish/v1", "/redfish/v1/", "/redfish/v1//"),
        *("/redfish/v1/Systems", "/redfish/v1/Systems/"),
    ],
)
@pytest.mark.parametrize("more", ["", "?privilege=x", "#part"])
def test_paths_that_name_no_system(path: str, more: str) -> None:
    assert redfish_endpoint(f"redfish://10.0.0.9{path}{more}") == ("https://10.0.0.9", "")


@pytest.mark.parametrize(
    ("address", "endpoint", "system"),
    [
        (f"redfish://10.0.0.9{SYSTEM}/", "https://10.0.0.9", SYSTEM),
        (f"redfish://[fd00::1]:8443{SYSTEM}", "https://[fd00::1]:8443", SYSTEM),
        ("redfish://[fd00::1]", "https://[fd00::1]", ""),
        (f"redfish://admin:p@ss@10.0.0.9{SYSTEM}", "https://10.0.0.9", SYSTEM),
        ("redfish:10.0.0.9", "https://10.0.0.9", ""),
        ("redfish:10.0.0.9:8443/redfish/v1/", "https://10.0.0.9:8443", ""),
        (f" redfish://bmc.example{SYSTEM} ", "https://bmc.example", SYSTEM),
        ("redfish://10.0.0.9/foo/bar", "https://10.0.0.9", "/foo/bar"),
        # The first @ of a path belongs to no user.
        ("redfish://10.0.0.9/foo@bar", "https://10.0.0.9", "/foo@bar"),
    ],
)
def test_endpoint_and_system(address: str, endpoint: str, system: str) -> None:
    assert redfish_endpoint(address) == (endpoint, system)


@pytest.mark.parametrize(
    "address",
    [
        *(None, "", "10.0.0.9", "10.0.0.9:623", "bmc.example", "[fd00::1]:623", "ipmi://10.0.0.9"),
        *("ipmi:10.0.0.9", "libvirt://192.168.122.1:6233/?abc=def", "irmc://10.0.0.9"),
        *("idrac://10.0.0.9/", "idrac+https://10.0.0.9/", "ilo4://10.0.0.9", "ilo5://10.0.0.9"),
        *("ilo4-virtualmedia://10.0.0.9", "redfish+ftp://10.0.0.9", "https://10.0.0.9"),
        *("redfish", "redfish:", "redfish://", "redfish:///redfish/v1", "redfish://admin@"),
    ],
)
def test_addresses_without_redfish(address: str | None) -> None:
    assert redfish_endpoint(address) is None
