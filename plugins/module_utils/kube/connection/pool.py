# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Connections to an API server, from the options of a task to a pool of TLS connections.

``urllib3`` keeps the connections. The ``kubernetes`` library could read the configuration, but its
import takes half a second of processor time; docs/project/decisions.md compares them.
"""

from __future__ import annotations

import contextlib
import dataclasses
import ipaddress
import os
import re
import ssl
import tempfile
import typing as t
import urllib.parse
from pathlib import Path

from ...base.errors import InvalidInput
from ...base.libraries import urllib3, urllib3_socks
from .access import Access, Credential, Pem, bearer, checked_host, token_file
from .kubeconfig import no_way, read_kubeconfig
from .pem import accept_as_go, certificates, pem_bytes

Address = t.Union[ipaddress.IPv4Address, ipaddress.IPv6Address]

_PORTS = {"http": "80", "https": "443"}
_WITH_PORT = re.compile(r"(?:\[([^\]]+)\]|([^:\[\]]+)):([0-9]*)")
_NETWORK = re.compile(r"[0-9a-f.:]+/[0-9]+")


def proxy_of_environment(url: str, environment: t.Mapping[str, str]) -> str | None:
    """The URL of the proxy, as Go and so kubectl choose it; None for a request without one.

    Source: https://pkg.go.dev/golang.org/x/net/http/httpproxy.
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


# One connection per thread; a smaller pool would open and drop connections.
_CONNECTIONS = 32
_SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


def access_of(
    options: t.Mapping[str, t.Any],
    environment: t.Mapping[str, str] | None = None,
    service_account: Path = _SERVICE_ACCOUNT,
) -> Access:
    """Access by the options of ``argspec.KUBERNETES``. Raises InvalidInput.

    ``environment`` replaces that of the process.
    """
    environment = os.environ if environment is None else environment
    kubeconfig, context = options.get("kubeconfig"), options.get("context")
    if options.get("host"):
        access = Access(checked_host(options["host"]))
    elif kubeconfig or context:
        if isinstance(kubeconfig, str) and os.pathsep not in kubeconfig:
            _checked_file("kubeconfig", kubeconfig)
        access = read_kubeconfig(kubeconfig, context, environment)
    elif environment.get("KUBERNETES_SERVICE_HOST") and service_account.exists():
        access = _in_cluster(environment, service_account)
    else:
        access = read_kubeconfig(None, None, environment)
    return _overridden(access, options)


def _in_cluster(environment: t.Mapping[str, str], service_account: Path) -> Access:
    """Access of the pod in which this process runs."""
    host, port = (environment.get(f"KUBERNETES_SERVICE_{part}", "") for part in ("HOST", "PORT"))
    authority = service_account / "ca.crt"
    if not port or not authority.is_file():
        raise no_way(None, f"the pod has no KUBERNETES_SERVICE_PORT or no file {authority}")
    return Access(
        f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}",
        ca=authority,
        credential=token_file(service_account / "token"),
    )


def _overridden(access: Access, options: t.Mapping[str, t.Any]) -> Access:
    """The access with the options that override a kubeconfig."""
    changes: dict[str, t.Any] = {}
    for option, attribute in (
        ("ca_cert", "ca"),
        ("client_cert", "certificate"),
        ("client_key", "key"),
    ):
        if options.get(option):
            changes[attribute] = _checked_file(option, options[option])
    if options.get("verify_ssl") is not None:
        changes["verify"] = options["verify_ssl"]
    if options.get("proxy"):
        changes["proxy"] = options["proxy"]
    if options.get("api_key"):
        credential = Credential(bearer(options["api_key"]))
        changes["credential"] = lambda: credential
    if options.get("impersonate_user") or options.get("impersonate_groups"):
        user = options.get("impersonate_user")
        groups = options.get("impersonate_groups") or []
        changes["impersonation"] = (
            *((("Impersonate-User", user),) if user else ()),
            *(("Impersonate-Group", group) for group in groups),
        )
    return dataclasses.replace(access, **changes)


def _checked_file(option: str, path: str) -> Path:
    """Check a file early, because the error of the first request would not name it."""
    file = Path(path).expanduser()
    try:
        file.open("rb").close()
    except OSError as error:
        raise InvalidInput(
            f"{option}: cannot read the file {path} ({error.strerror}); correct the path"
        ) from error
    return file


def pool_of(access: Access) -> t.Any:
    """A connection pool like ``urllib3.PoolManager``. Raises InvalidInput."""
    settings: dict[str, t.Any] = {"maxsize": _CONNECTIONS}
    if access.host.startswith("https:"):
        settings["ssl_context"] = _tls_context(access)
        if access.server_name:
            settings["server_hostname"] = access.server_name
    try:
        proxy = access.proxy or proxy_of_environment(access.host, os.environ)
        return _through(proxy, settings) if proxy else urllib3.PoolManager(**settings)
    except ValueError as error:
        # The URL may have a password.
        raise InvalidInput(
            "proxy: the proxy of the Kubernetes API is not a URL; write http://host"
        ) from error


def _through(proxy: str, settings: dict[str, t.Any]) -> t.Any:
    """A pool whose connections go through a proxy. Raises ValueError for anything but a URL."""
    parts = urllib.parse.urlsplit(proxy)
    if parts.scheme.startswith("socks"):
        return urllib3_socks.SOCKSProxyManager(proxy, **settings)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("no scheme or no host")
    if parts.username:
        pair = f"{parts.username}:{parts.password or ''}"
        account = urllib.parse.unquote(pair)
        settings["proxy_headers"] = urllib3.make_headers(proxy_basic_auth=account)
    return urllib3.ProxyManager(proxy, **settings)


class _SharedContext(ssl.SSLContext):
    """A TLS context for connections that several threads open at the same time.

    urllib3 gives it the ALPN protocols for every connection. OpenSSL then frees the list that a
    handshake in another thread may be copying, and the server refuses what that handshake sends.
    """

    _protocols: tuple[str, ...] = ()

    def set_alpn_protocols(self, alpn_protocols: t.Iterable[str]) -> None:
        protocols = tuple(alpn_protocols)
        if protocols != self._protocols:
            self._protocols = protocols
            super().set_alpn_protocols(protocols)


def _tls_context(access: Access) -> ssl.SSLContext:
    context = _SharedContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if access.verify:
        _load_authorities(context, access.ca)
    else:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    credential = access.credential()
    certificate = access.certificate or credential.certificate
    key = access.key if access.certificate else credential.key
    if certificate is None:
        return context
    # The file of the certificate may have its key.
    key = certificate if key is None else key
    try:
        with _as_file(certificate) as chain, _as_file(key) as private:
            # An empty password keeps OpenSSL from prompting on the terminal.
            context.load_cert_chain(chain, private, password="")
    except (OSError, ValueError) as error:
        raise InvalidInput(
            f"The client certificate and key for the Kubernetes API at {access.host} cannot be "
            "used together; check client_cert and client_key, or the kubeconfig's user"
        ) from error
    return context


def _load_authorities(context: ssl.SSLContext, ca: Pem | None) -> None:
    accept_as_go(context)
    try:
        if ca is None:
            context.load_default_certs()
        else:
            context.load_verify_locations(cadata=b"".join(certificates(ca)))
    except (OSError, ValueError) as error:
        where = f"the file {ca}" if isinstance(ca, Path) else "certificate-authority-data"
        raise InvalidInput(
            f"There are no certificates in PEM for the Kubernetes API in {where}; correct ca_cert, "
            "or certificate-authority in the kubeconfig"
        ) from error


@contextlib.contextmanager
def _as_file(pem: Pem) -> t.Iterator[Path]:
    """Write an inline key of a kubeconfig to a file only while it is loaded."""
    if not isinstance(pem, str):
        yield pem
        return
    with tempfile.NamedTemporaryFile() as file:
        file.write(pem_bytes(pem))
        file.flush()
        yield Path(file.name)
