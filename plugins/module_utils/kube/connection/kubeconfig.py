# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Kubeconfig files with the semantics of kubectl.

Source: https://kubernetes.io/docs/concepts/configuration/organize-cluster-access-kubeconfig/
"""

from __future__ import annotations

import base64
import os
import typing as t
import urllib.parse
from dataclasses import dataclass, field
from pathlib import Path

from ...base.errors import InvalidInput
from ...base.json_types import Object
from ...base.yaml_text.reader import OPERATOR, InvalidYaml, read_document
from .access import Access, Credential, Pem, bearer, checked_host, token_file
from .exec_plugin import ExecPlugin
from .pem import pem_bytes, pem_text

_EXEC_EXTENSION = "client.authentication.k8s.io/exec"
_PARTS = (("clusters", "cluster"), ("contexts", "context"), ("users", "user"))


class _Entry(t.NamedTuple):
    """A cluster, context or user, with the folder of its relative paths."""

    value: Object
    folder: Path


class _Problem(Exception):
    """Reason why a kubeconfig is unusable, without values that may be secrets."""


@dataclass
class _Merged:
    """Several kubeconfigs as one; the first entry of a name counts."""

    current_context: str = ""
    clusters: dict[str, _Entry] = field(default_factory=dict)
    contexts: dict[str, _Entry] = field(default_factory=dict)
    users: dict[str, _Entry] = field(default_factory=dict)

    def add(self, config: Object, folder: Path) -> None:
        self.current_context = self.current_context or config.get("current-context") or ""
        for part, member in _PARTS:
            known: dict[str, _Entry] = getattr(self, part)
            own: dict[str, _Entry] = {}
            for item in config.get(part) or []:
                if item["name"] in own:
                    raise _Problem(f"two of the {part} are called {item['name']!r}")
                own[item["name"]] = _Entry(item.get(member) or {}, folder)
            setattr(self, part, {**own, **known})

    def find(self, part: str, name: t.Any) -> _Entry:
        entries: dict[str, _Entry] = getattr(self, part)
        if name not in entries:
            raise _Problem(f"there is no {part[:-1]} {name!r}")
        return entries[name]


def read_kubeconfig(
    given: str | Object | None, context: str | None, environment: t.Mapping[str, str] | None = None
) -> Access:
    """Access by a kubeconfig, which is a path, its content, or None for the user's default.

    ``environment`` replaces that of the process. Raises InvalidInput, which names the file and
    quotes nothing of it.
    """
    environment = os.environ if environment is None else environment
    try:
        merged = _Merged()
        if isinstance(given, t.Mapping):
            merged.add(given, Path())
        else:
            for path in _paths(given or environment.get("KUBECONFIG") or "~/.kube/config"):
                merged.add(_parse(path), path.parent.absolute())
        return _access(merged, context)
    except _Problem as problem:
        raise no_way(given, str(problem)) from problem
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        # Their messages describe this code or quote the file, which contains secrets.
        raise no_way(given, "this is not a kubeconfig") from error


def no_way(kubeconfig: t.Any, problem: str) -> InvalidInput:
    """Error of a client without a known API server."""
    where = f"in the file {kubeconfig}: " if isinstance(kubeconfig, str) and kubeconfig else ""
    return InvalidInput(
        f"Cannot find out how to reach Kubernetes: {where}{problem}; set kubeconfig (or "
        "K8S_AUTH_KUBECONFIG) to a readable kubeconfig file, or host and api_key"
    )


def _paths(given: str) -> list[Path]:
    """Existing files of a list in the form of ``KUBECONFIG``."""
    paths = [Path(part).expanduser() for part in given.split(os.pathsep) if part]
    found = [path for path in paths if path.exists()]
    if not found:
        raise _Problem(f"there is no file {given}")
    return found


def _parse(path: Path) -> Object:
    try:
        parsed = read_document(path.read_bytes(), str(path), OPERATOR)
    except OSError as error:
        raise _Problem(f"{path} cannot be read ({error.strerror})") from error
    except InvalidYaml as error:
        where = f" (line {error.line} is not YAML)" if error.line else ""
        raise _Problem(f"this is not a kubeconfig{where}") from error
    if not isinstance(parsed, dict):
        raise _Problem("this is not a kubeconfig")
    return parsed


def _access(merged: _Merged, wanted: str | None) -> Access:
    name = wanted or merged.current_context
    if not name:
        raise _Problem("it has no current-context, and no context is given")
    context = merged.find("contexts", name).value
    cluster, folder = merged.find("clusters", context["cluster"])
    user, home = (
        merged.find("users", context["user"]) if context.get("user") else _Entry({}, folder)
    )
    ca = _pem(cluster, "certificate-authority", folder)
    return Access(
        host=checked_host(cluster["server"], "server"),
        ca=ca,
        verify=not _insecure(cluster),
        server_name=cluster.get("tls-server-name"),
        proxy=cluster.get("proxy-url"),
        certificate=_pem(user, "client-certificate", home),
        key=_pem(user, "client-key", home),
        credential=_credential(user, home, lambda: _told_to_plugins(cluster, ca)),
        impersonation=_impersonation(user),
    )


def _insecure(cluster: Object) -> bool:
    """Whether the cluster's certificate may be any; a text such as "false" is no answer."""
    given = cluster.get("insecure-skip-tls-verify")
    if given is not None and not isinstance(given, bool):
        raise _Problem("insecure-skip-tls-verify is not true or false; write it without quotes")
    return bool(given)


def _pem(entry: Object, name: str, folder: Path) -> Pem | None:
    """PEM from the base64 text in ``name``-data, or the path in ``name``."""
    data, path = entry.get(f"{name}-data"), entry.get(name)
    if data:
        return pem_text(base64.b64decode(data))
    if not path:
        return None
    file: Path = folder / path
    try:
        file.open("rb").close()
    except OSError as error:
        raise _Problem(f"the file {file} of {name} cannot be read ({error.strerror})") from error
    return file


def _credential(
    user: Object, folder: Path, cluster: t.Callable[[], Object]
) -> t.Callable[[], Credential]:
    """Credential in kubectl's order of precedence: token, password, exec plugin."""
    if user.get("tokenFile"):
        return token_file(folder / user["tokenFile"])
    authorization = None
    if user.get("token"):
        authorization = bearer(user["token"])
    elif user.get("username"):
        pair = f"{user['username']}:{user.get('password') or ''}"
        authorization = f"Basic {base64.b64encode(pair.encode()).decode()}"
    elif user.get("exec"):
        return ExecPlugin(user["exec"], folder, cluster())
    elif user.get("auth-provider"):
        authorization = bearer(_id_token(user["auth-provider"]))
    return lambda: Credential(authorization)


def _id_token(provider: Object) -> str:
    """Token of ``oidc``, the last auth-provider of Kubernetes; kubectl renews it."""
    token = (provider.get("config") or {}).get("id-token")
    if provider.get("name") != "oidc" or not isinstance(token, str):
        raise _Problem(
            f"the auth-provider {provider.get('name')!r} gives no token; configure an exec plugin"
        )
    return token


def _told_to_plugins(cluster: Object, ca: Pem | None) -> Object:
    """The cluster in the form for exec plugins."""
    copied = ("server", "tls-server-name", "insecure-skip-tls-verify", "proxy-url")
    told = {name: cluster[name] for name in copied if cluster.get(name)}
    if ca is not None:
        told["certificate-authority-data"] = base64.b64encode(pem_bytes(ca)).decode()
    for extension in cluster.get("extensions") or []:
        if extension["name"] == _EXEC_EXTENSION:
            told["config"] = extension["extension"]
    return told


def _impersonation(user: Object) -> tuple[tuple[str, str], ...]:
    headers = [("Impersonate-User", user["as"])] if user.get("as") else []
    if user.get("as-uid"):
        headers.append(("Impersonate-Uid", user["as-uid"]))
    headers += [("Impersonate-Group", group) for group in user.get("as-groups") or []]
    for name, values in (user.get("as-user-extra") or {}).items():
        header = f"Impersonate-Extra-{urllib.parse.quote(name, safe='')}"
        headers += [(header, value) for value in values]
    return tuple(headers)
