# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Kubeconfig files with the semantics of kubectl, and the exec plugins that they name.

Source: https://kubernetes.io/docs/concepts/configuration/organize-cluster-access-kubeconfig/
"""

from __future__ import annotations

import base64
import datetime
import json
import os
import subprocess
import threading
import typing as t
import urllib.parse
from dataclasses import dataclass, field
from pathlib import Path

from ...base.context import utc_now
from ...base.errors import InvalidInput
from ...base.json_types import Object
from ...base.texts import shown_text
from ...base.units import parse_time
from ...base.yaml_text.reader import OPERATOR, InvalidYaml, read_document
from .access import Access, Credential, Pem, bearer, checked_host, token_file
from .pem import pem_bytes, pem_text

_TIMEOUT_SECONDS = 60.0
# Margin before the expiry of a token, so that requests with it arrive in time.
_RENEWAL = datetime.timedelta(seconds=30)
_MAX_STDERR_LENGTH = 300


class ExecPlugin:
    """The member ``exec`` of a user in a kubeconfig. Thread-safe.

    The plugin runs at the first use of its credential, and again after the expiry. Source: https://
    kubernetes.io/docs/reference/access-authn-authz/authentication/#client-go-credential-plugins
    """

    def __init__(
        self,
        settings: Object,
        folder: Path,
        cluster: Object,
        now: t.Callable[[], datetime.datetime] = utc_now,
    ) -> None:
        self._command = str(settings["command"])
        if os.sep in self._command:  # relative to the kubeconfig; other commands are found by PATH
            self._command = str(folder / self._command)
        self._arguments = [str(argument) for argument in settings.get("args") or []]
        self._variables = {item["name"]: item["value"] for item in settings.get("env") or []}
        self._hint = settings.get("installHint") or "install it there, or correct the kubeconfig"
        specification: dict[str, t.Any] = {"interactive": False}
        if settings.get("provideClusterInfo"):
            specification["cluster"] = cluster
        self._asked: Object = {
            "apiVersion": settings["apiVersion"],
            "kind": "ExecCredential",
            "spec": specification,
        }
        self._now = now
        self._lock = threading.Lock()
        self._credential: Credential | None = None
        self._end: datetime.datetime | None = None

    def __call__(self) -> Credential:
        """The current credential. Raises InvalidInput."""
        with self._lock:
            if self._credential is None or (self._end and self._now() >= self._end - _RENEWAL):
                self._credential, self._end = self._read(self._run())
            return self._credential

    def _run(self) -> str:
        environment = {
            **os.environ,
            **self._variables,
            "KUBERNETES_EXEC_INFO": json.dumps(self._asked),
        }
        try:
            # The library works without Ansible, so there is no run_command.
            done = subprocess.run(  # pylint: disable=ansible-bad-function
                [self._command, *self._arguments],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                check=False,
                encoding="utf-8",
                errors="replace",
                env=environment,
                timeout=_TIMEOUT_SECONDS,
            )
        except FileNotFoundError as error:
            raise self._failure(f"is not installed on this host; {self._hint}") from error
        except (OSError, subprocess.TimeoutExpired) as error:
            reason = getattr(error, "strerror", None) or f"no end within {_TIMEOUT_SECONDS:g} s"
            raise self._failure(f"cannot be run ({reason}); run it by hand") from error
        if done.returncode:
            said = shown_text(done.stderr.strip(), _MAX_STDERR_LENGTH)
            raise self._failure(f"ended with status {done.returncode} ({said}); run it by hand")
        return done.stdout

    def _read(self, text: str) -> tuple[Credential, datetime.datetime | None]:
        try:
            answer = json.loads(text)
            if any(answer[name] != self._asked[name] for name in ("apiVersion", "kind")):
                raise self._failure(
                    f"answers with another apiVersion or kind than {self._asked['apiVersion']} "
                    "ExecCredential; correct apiVersion in the kubeconfig"
                )
            status = answer["status"]
            token, end = status.get("token"), status.get("expirationTimestamp")
            credential = Credential(
                bearer(token) if token else None,
                status.get("clientCertificateData"),
                status.get("clientKeyData"),
            )
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            # The answer contains secrets and is not quoted.
            raise self._failure("prints no ExecCredential; run it by hand") from error
        if (credential.certificate is None) != (credential.key is None) or not (
            credential.authorization or credential.certificate
        ):
            raise self._failure("gives neither a token nor a certificate with its key")
        return credential, parse_time(end, "expirationTimestamp") if end else None

    def _failure(self, problem: str) -> InvalidInput:
        return InvalidInput(f"The exec plugin {self._command} of the kubeconfig {problem}")


_EXEC_EXTENSION = "client.authentication.k8s.io/exec"
_PARTS = ("clusters", "contexts", "users")


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
    parts: dict[str, dict[str, _Entry]] = field(
        default_factory=lambda: {part: {} for part in _PARTS}
    )

    def add(self, config: Object, folder: Path) -> None:
        self.current_context = self.current_context or config.get("current-context") or ""
        for part in _PARTS:
            own: dict[str, _Entry] = {}
            for item in config.get(part) or []:
                if item["name"] in own:
                    raise _Problem(f"two of the {part} are called {item['name']!r}")
                own[item["name"]] = _Entry(item.get(part[:-1]) or {}, folder)
            self.parts[part] = {**own, **self.parts[part]}

    def find(self, part: str, name: t.Any) -> _Entry:
        if name not in self.parts[part]:
            raise _Problem(f"there is no {part[:-1]} {name!r}")
        return self.parts[part][name]


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
