# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Which user name and password, and which trust, belong to a target.

In this order: those that the target itself has, the entry of ``credentials`` that it names, the
Secret that it names, and for a target that names nothing the entry ``default`` (which modules may
fill from the environment). A credential that is named but missing is an error, never a request
without one. A NodeConfig gets the entry ``default`` only if its namespace is allowed: whoever may
write NodeConfigs in any other one would else choose the server that is told the password.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

from ansible_collections.wattwise.kube.plugins.module_utils.base.boundary import shown, shown_text
from ansible_collections.wattwise.kube.plugins.module_utils.base.context import (
    Context,
    Parameters,
    Result,
    Work,
)
from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import (
    ApiError,
    InvalidInput,
    TargetFailure,
)
from ansible_collections.wattwise.kube.plugins.module_utils.base.names import is_subdomain
from ansible_collections.wattwise.kube.plugins.module_utils.fleet.visits import Credential

DEFAULT_KEY = "default"
ENVIRONMENT = ("WATTWISE_REDFISH_USERNAME", "WATTWISE_REDFISH_PASSWORD")

SecretName = tuple[str, str]
SecretContent = tuple[t.Mapping[str, str], str]


class SecretSource(t.Protocol):
    """Where Secrets come from; ``kube.Kube`` is one."""

    def read_secret(self, namespace: str, name: str) -> SecretContent | None:
        """Decoded data and resource version, or None where there is no such Secret."""

    def in_parallel(
        self,
        work: t.Callable[[SecretName], SecretContent | TargetFailure | None],
        items: t.Sequence[SecretName],
    ) -> list[SecretContent | TargetFailure | None]:
        """``work`` on every item, in their order."""


@dataclass(frozen=True)
class Named:
    """What a target says about its credential: its own, a key, a Secret, or nothing.

    ``namespace`` is that of the NodeConfig that says so, None for the user of the module.
    """

    username: str | None = None
    password: str | None = field(default=None, repr=False)
    key: str | None = None
    secret: SecretName | None = None
    namespace: str | None = None

    @property
    def is_silent(self) -> bool:
        """Whether no credential is named at all."""
        return (self.username, self.password, self.key, self.secret) == (None, None, None, None)

    @property
    def secret_name(self) -> SecretName | None:
        """The Secret that may be meant; a key like ``namespace/name`` means one too."""
        if self.secret is not None or self.key is None:
            return self.secret
        namespace, slash, name = self.key.partition("/")
        return (namespace, name) if slash and namespace and name else None

    @property
    def entry_name(self) -> str:
        """The key in ``credentials`` under which an entry takes the place of a Secret."""
        if self.secret is not None:
            return "/".join(self.secret)
        return self.key or DEFAULT_KEY


@dataclass(frozen=True)
class Access:
    """A credential with the trust that belongs to it; ``source`` says where it comes from.

    ``version`` is the resource version of its Secret, empty where it is from elsewhere.
    ``withheld`` says why the entry ``default`` was not given, where there is one.
    """

    credential: Credential | None = None
    ca: str | None = None
    fingerprints: tuple[str, ...] = ()
    source: str = ""
    version: str = ""
    withheld: str = ""


class Credentials:
    """Resolves what targets say. All Secrets are read at once, when it is made."""

    def __init__(
        self,
        entries: t.Mapping[str, t.Any] | None,
        named: t.Sequence[Named],
        connect: t.Callable[[], SecretSource],
        context: Context,
        default_namespaces: t.Collection[str] = (),
    ) -> None:
        if not isinstance(entries or {}, dict):
            raise InvalidInput(
                "credentials: give a mapping of keys to {username, password}, such as "
                "{default: {username: admin, password: …}}"
            )
        self._entries = entries or {}
        self._default_namespaces = frozenset(default_namespaces)
        self._protect = context.protect
        wanted = sorted({name for name in map(self._needed_secret, named) if name is not None})
        self._secrets = dict(zip(wanted, _read_secrets(connect(), wanted))) if wanted else {}

    def resolve(self, named: Named) -> Access:
        """The target's access. Raises TargetFailure where it is named but missing or incomplete."""
        if named.username is not None or named.password is not None:
            data = {"username": named.username, "password": named.password}
            return self._access(data, "the target", "")
        if named.is_silent and not self._may_have_default(named):
            return Access(withheld=_withheld(named) if DEFAULT_KEY in self._entries else "")
        entry = self._entries.get(named.entry_name)
        if entry is not None:
            return self._access(entry, f"credentials.{named.entry_name}", "")
        secret = named.secret_name
        if secret is not None:
            return self._from_secret(secret)
        if named.key is not None:
            raise TargetFailure(
                "credential",
                f"credentials has no entry {named.key!r}; add it, or name a Secret as "
                "<namespace>/<name>",
            )
        return Access()

    def _may_have_default(self, named: Named) -> bool:
        return named.namespace is None or named.namespace in self._default_namespaces

    def _needed_secret(self, named: Named) -> SecretName | None:
        if named.username is not None or named.password is not None:
            return None
        return None if named.entry_name in self._entries else named.secret_name

    def _from_secret(self, name: SecretName) -> Access:
        content = self._secrets[name]
        where = "the Secret " + shown_text("/".join(name))
        if isinstance(content, TargetFailure):
            raise content
        if content is None:
            raise TargetFailure("credential", f"{where} does not exist; create it")
        data, version = content
        renamed = {**data, "ca": data.get("ca.crt")}
        return self._access(renamed, where, version)

    def _access(self, data: t.Any, source: str, version: str) -> Access:
        values = data if isinstance(data, dict) else {}
        missing = [key for key in ("username", "password") if not values.get(key)]
        if missing:
            raise TargetFailure("credential", f"{source} has no {' and no '.join(missing)}; add it")
        credential = Credential(str(values["username"]), str(values["password"]))
        self._protect(credential.password)
        if ":" in credential.username:
            raise TargetFailure(
                "credential",
                f"the user name in {source} holds a colon, which HTTP authentication cannot carry",
            )
        return Access(
            credential,
            ca=values.get("ca") or None,
            fingerprints=_fingerprints(values.get("tls_fingerprint")),
            source=source,
            version=version,
        )


def _withheld(named: Named) -> str:
    return (
        f"the entry {DEFAULT_KEY} of credentials is not sent for NodeConfigs in the namespace "
        f"{named.namespace}; name a Secret in the NodeConfig, or add the namespace to "
        "default_credential_namespaces"
    )


def with_environment(work: Work, environment: t.Mapping[str, str]) -> Work:
    """``work`` with the environment's user name and password as the entry ``default``."""

    def with_default(parameters: Parameters, context: Context) -> Result:
        username, password = (environment.get(name) for name in ENVIRONMENT)
        entries = parameters.get("credentials") or {}
        if not username or not password or DEFAULT_KEY in entries:
            return work(parameters, context)
        default = {DEFAULT_KEY: {"username": username, "password": password}}
        return work({**parameters, "credentials": {**default, **entries}}, context)

    return with_default


def _read_secrets(
    source: SecretSource, names: t.Sequence[SecretName]
) -> list[SecretContent | TargetFailure | None]:
    def read(name: SecretName) -> SecretContent | TargetFailure | None:
        if not all(map(is_subdomain, name)):
            # It becomes a part of a path, in which a slash and dots would mean another object.
            return TargetFailure("credential", f"{shown('/'.join(name))} is no name of a Secret")
        try:
            return source.read_secret(*name)
        except ApiError as error:
            # Without an answer, or with an account that is not accepted, no Secret can be read.
            if error.status in (0, 401):
                raise
            return TargetFailure(
                "credential",
                f"the Secret {'/'.join(name)} may not be read ({error}); allow get on it",
            )

    return source.in_parallel(read, names)


def _fingerprints(value: t.Any) -> tuple[str, ...]:
    """One fingerprint, several separated by commas or blanks, or a list of them."""
    items = value if isinstance(value, list) else [value or ""]
    return tuple(part for item in items for part in str(item).replace(",", " ").split())
