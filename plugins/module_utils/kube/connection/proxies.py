# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The proxy of the environment for an API server, as Go and so kubectl choose it.

Source: https://pkg.go.dev/golang.org/x/net/http/httpproxy
"""

from __future__ import annotations

import contextlib
import ipaddress
import re
import typing as t
import urllib.parse

Address = t.Union[ipaddress.IPv4Address, ipaddress.IPv6Address]

_PORTS = {"http": "80", "https": "443"}
_WITH_PORT = re.compile(r"(?:\[([^\]]+)\]|([^:\[\]]+)):([0-9]*)")
_NETWORK = re.compile(r"[0-9a-f.:]+/[0-9]+")


def proxy_of_environment(url: str, environment: t.Mapping[str, str]) -> str | None:
    """The URL of the proxy; None if the request goes straight to its server.

    Requests to localhost and loopback addresses never go through a proxy, because there they would
    reach another machine.
    """
    parts = urllib.parse.urlsplit(url)
    proxy = _either(environment, f"{parts.scheme}_proxy")
    if not proxy or _goes_straight(parts, _either(environment, "no_proxy")):
        return None
    given = urllib.parse.urlsplit(proxy)
    return proxy if given.scheme and given.netloc else f"http://{proxy}"


def _either(environment: t.Mapping[str, str], name: str) -> str:
    return environment.get(name.upper()) or environment.get(name) or ""


def _goes_straight(server: urllib.parse.SplitResult, rules: str) -> bool:
    name = server.hostname or ""
    port = server.netloc.rpartition("]")[2].partition(":")[2] or _PORTS[server.scheme]
    address = _address(name)
    if name == "localhost" or (address is not None and address.is_loopback):
        return True
    return any(_matches(rule.strip().lower(), name, port, address) for rule in rules.split(","))


def _address(text: str) -> Address | None:
    with contextlib.suppress(ValueError):
        address = ipaddress.ip_address(text.partition("%")[0])
        return getattr(address, "ipv4_mapped", None) or address
    return None


def _matches(rule: str, name: str, port: str, address: Address | None) -> bool:
    """Whether a rule (``*``, network, address or domain, the last two with or without a port)
    matches the server."""
    if rule == "*":
        return True
    if _NETWORK.fullmatch(rule):
        with contextlib.suppress(ValueError):
            return address is not None and address in ipaddress.ip_network(rule, strict=False)
    parts = _WITH_PORT.fullmatch(rule)
    host, wanted = (parts[1] or parts[2], parts[3]) if parts else (rule, "")
    if not host or (wanted and wanted != port):
        return False
    ruled = _address(host)
    if ruled is not None or address is not None:
        return ruled == address
    domain = host.removeprefix("*")
    if domain.startswith("."):
        return name.endswith(domain)
    return name == domain or name.endswith(f".{domain}")
