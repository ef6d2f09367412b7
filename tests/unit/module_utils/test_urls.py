# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Endpoints and links; the fleet's tests cover their use on the wire."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import TargetFailure
from ansible_collections.wattwise.kube.plugins.module_utils.fleet.urls import (
    Origin,
    masked,
    parse_endpoint,
    redacted,
)


@pytest.mark.parametrize(
    ("endpoint", "origin", "base_path"),
    [
        ("https://10.0.0.1", ("https", "10.0.0.1", 443), ""),
        ("http://h/", ("http", "h", 80), ""),
        ("HTTPS://BMC.Example:8443/a/b/?x#y", ("https", "bmc.example", 8443), "/a/b"),
        ("https://[fd00::1]:8443", ("https", "fd00::1", 8443), ""),
        (" https://h ", ("https", "h", 443), ""),
    ],
)
def test_endpoints(endpoint: str, origin: tuple[str, str, int], base_path: str) -> None:
    address = parse_endpoint(endpoint)
    assert address.origin == Origin(*origin)
    assert address.base_path == base_path


@pytest.mark.parametrize(
    ("endpoint", "link", "url"),
    [
        ("https://h", "/x", "https://h/x"),
        ("https://h:443", "https://H/x", "https://h/x"),
        ("https://[fd00::1]:8443", "x", "https://[fd00::1]:8443/x"),
        ("https://h/redfish/v1", "/redfish/v1/Chassis", "https://h/redfish/v1/Chassis"),
        ("https://h/redfish/v1/", "/redfish/v1", "https://h/redfish/v1"),
        ("https://h/a", "/ab", "https://h/a/ab"),
        ("https://h", "/x?a=b&c#d", "https://h/x?a=b&c"),
        ("https://h", "//h/x", None),
    ],
)
def test_links(endpoint: str, link: str, url: str | None) -> None:
    address = parse_endpoint(endpoint)
    if url is None:
        with pytest.raises(TargetFailure, match="another origin"):
            address.url(link)
    else:
        assert address.url(link) == url


@pytest.mark.parametrize(
    "endpoint",
    [
        "https://evil.example[::1]:8443",
        "https://[::1].evil.example:8443",
        "https://[::1]x",
        "https://[fe80::1%25eth0]",
        "https://[v1.x]",
        "https://[12345::]",
        "https://h:+443",
        "https://h:٤٤٣",
        "https://bücher.example",
        "https://10。0。0。1",
        "https://user:s3cr3t@h",
        "https://s3cr3t\\\\@h",
    ],
)
def test_what_names_no_host_or_two_is_refused(endpoint: str) -> None:
    with pytest.raises(TargetFailure) as caught:
        parse_endpoint(endpoint)
    assert caught.value.reason == "malformed"
    assert "s3cr3t" not in caught.value.detail


def test_a_long_text_is_not_repeated_in_full() -> None:
    for endpoint in ("https://[" + "x" * 5000, "x" * 5000, f"https://ü{'x' * 5000}"):
        with pytest.raises(TargetFailure) as caught:
            parse_endpoint(endpoint)
        assert len(caught.value.detail) < 300
    for link in ("https://[" + "x" * 5000, f"https://other/{'x' * 5000}"):
        with pytest.raises(TargetFailure) as caught:
            parse_endpoint("https://h").url(link)
        assert len(caught.value.detail) < 500


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://root:pw@h:1/x", "https://***@h:1/x"),
        ("https://root:p/w@h", "https://***@h"),
        ("https://root:p]w@[h", "https://***@[h"),
        ("//root:pw@h", "//***@h"),
        ("https://h/a@b", "https://h/a@b"),
        ("https://h", "https://h"),
        ("", ""),
    ],
)
def test_a_password_is_masked_and_the_url_still_refused(url: str, shown: str) -> None:
    assert masked(url) == shown
    if shown != url:
        with pytest.raises(TargetFailure):
            parse_endpoint(masked(url))


@pytest.mark.parametrize("link", ["https://[::1", "//h:port/x", "https://h h/x"])
def test_a_link_that_is_none_is_the_server_s_fault(link: str) -> None:
    with pytest.raises(TargetFailure, match="the server gave the link"):
        parse_endpoint("https://h").url(link)


@given(st.text())
def test_any_text_is_an_endpoint_or_refused(endpoint: str) -> None:
    with contextlib.suppress(TargetFailure):
        address = parse_endpoint(endpoint)
        assert address.origin.scheme in ("http", "https")
        assert address.origin.host


@given(st.text())
def test_any_link_stays_on_its_host_and_in_one_line(link: str) -> None:
    with contextlib.suppress(TargetFailure):
        url = parse_endpoint("https://h/base").url(link)
        assert url.startswith("https://h/")
        assert url.isascii() and url.isprintable() and " " not in url


@pytest.mark.parametrize(
    "url",
    ["https://u:pw@h/x", "u:pw@h", "//u:pw@h", "https://u:p/w@h", "https://u:p?w#@h", "x\nu:pw@h"],
)
def test_no_password_is_left_in_what_is_shown(url: str) -> None:
    shown = redacted(url)
    assert "pw" not in shown and "p/w" not in shown and "p?w" not in shown
    assert "h" in shown


def test_what_holds_no_password_is_shown_as_it_is() -> None:
    assert redacted("https://10.0.0.1:8443/x") == "https://10.0.0.1:8443/x"
