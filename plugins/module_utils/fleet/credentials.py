# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Resolution of the credentials and the trust of a target.

The order is the user name and password of the target itself, the entry of ``credentials`` that it
names, the Secret that it names, and for a target that names nothing the entry ``default`` (which
modules may fill from the environment). A missing named credential is an error and never leads to a
request without one. A NodeConfig gets the entry ``default`` only if its namespace is allowed,
because a writer of NodeConfigs in any other namespace could otherwise choose the server that gets
the password.
"""

from __future__ import annotations

import re
import typing as t
from dataclasses import dataclass, field

from ..base.boundary import shown, shown_text
from ..base.context import Context, Parameters, Result, Work
from ..base.errors import ApiError, InvalidInput, TargetFailure
from ..base.fields.strict import is_subdomain
from ..base.json_types import Object
from .visits import BearerToken, Credential

DEFAULT_KEY = "default"
_TOKEN = re.compile(r"[!-~]{1,16384}", re.ASCII)
ENVIRONMENT = ("WATTWISE_REDFISH_USERNAME", "WATTWISE_REDFISH_PASSWORD")

SecretName = tuple[str, str]
SecretContent = tuple[t.Mapping[str, str], str]


class SecretSource(t.Protocol):
    """Source of Secrets, such as ``kube.Kube``."""

    def read_secret(self, namespace: str, name: str) -> SecretContent | None:
        """Decoded data and resource version, or None if the Secret does not exist."""

    def in_parallel(
        self,
        work: t.Callable[[SecretName], SecretContent | TargetFailure | None],
        items: t.Sequence[SecretName],
    ) -> list[SecretContent | TargetFailure | None]:
        """Call ``work`` for every item; results have the order of the items."""


@dataclass(frozen=True)
class CredentialReference:
    """Credential reference of a target: its own credential, a key, a Secret, or none.

    ``namespace`` is that of the NodeConfig, None for references by the user of the module.
    """

    username: str | None = None
    password: str | None = field(default=None, repr=False)
    key: str | None = None
    secret: SecretName | None = None
    namespace: str | None = None

    @property
    def is_silent(self) -> bool:
        """Whether there is no reference."""
        return (self.username, self.password, self.key, self.secret) == (None, None, None, None)

    @property
    def secret_name(self) -> SecretName | None:
        """The Secret of the reference; a key in the form ``namespace/name`` is one too."""
        if self.secret is not None or self.key is None:
            return self.secret
        namespace, slash, name = self.key.partition("/")
        return (namespace, name) if slash and namespace and name else None

    @property
    def entry_name(self) -> str:
        """Key of an entry in ``credentials`` that replaces the Secret."""
        if self.secret is not None:
            return "/".join(self.secret)
        return self.key or DEFAULT_KEY


@dataclass(frozen=True)
class Access:
    """A credential with its trust; ``source`` names its origin.

    ``version`` is the resource version of its Secret, else empty. ``withheld`` is the reason why an
    existing entry ``default`` was not used.
    """

    credential: Credential | BearerToken | None = None
    ca: str | None = None
    fingerprints: tuple[str, ...] = ()
    source: str = ""
    version: str = ""
    withheld: str = ""


class Credentials:
    """Resolver of credential references. The constructor reads all Secrets concurrently."""

    def __init__(
        self,
        entries: Object | None,
        named: t.Sequence[CredentialReference],
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

    def resolve(self, named: CredentialReference) -> Access:
        """Access of the target. Raises TargetFailure if its reference is missing or incomplete."""
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
            return self._from_secret(secret, takes_token=named.namespace is None)
        if named.key is not None:
            raise TargetFailure(
                "credential",
                f"credentials has no entry {named.key!r}; add it, or name a Secret as "
                "<namespace>/<name>",
            )
        return Access()

    def _may_have_default(self, named: CredentialReference) -> bool:
        return named.namespace is None or named.namespace in self._default_namespaces

    def _needed_secret(self, named: CredentialReference) -> SecretName | None:
        if named.username is not None or named.password is not None:
            return None
        return None if named.entry_name in self._entries else named.secret_name

    def _from_secret(self, name: SecretName, takes_token: bool) -> Access:
        """The Secret's content.

        The writer of a NodeConfig chooses its endpoint, and a namespace has Secrets with tokens of
        service accounts, so only references by the user of the module may use tokens.
        """
        content = self._secrets[name]
        where = "the Secret " + shown_text("/".join(name))
        if isinstance(content, TargetFailure):
            raise content
        if content is None:
            raise TargetFailure("credential", f"{where} does not exist; create it")
        data, version = content
        renamed = {**data, "ca": data.get("ca.crt")}
        return self._access(renamed, where, version, takes_token)

    def _access(self, data: t.Any, source: str, version: str, takes_token: bool = True) -> Access:
        values = data if isinstance(data, dict) else {}
        is_token = takes_token and values.get("token") and not values.get("username")
        return Access(
            self._token(values, source) if is_token else self._password(values, source),
            ca=values.get("ca") or None,
            fingerprints=_fingerprints(values.get("tls_fingerprint")),
            source=source,
            version=version,
        )

    def _password(self, values: Object, source: str) -> Credential:
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
        return credential

    def _token(self, values: Object, source: str) -> BearerToken:
        token = str(values["token"]).strip()
        self._protect(token)
        if not _TOKEN.fullmatch(token):
            raise TargetFailure(
                "credential", f"the token in {source} has characters that HTTP cannot carry"
            )
        return BearerToken(token)


def _withheld(named: CredentialReference) -> str:
    return (
        f"the entry {DEFAULT_KEY} of credentials is not sent for NodeConfigs in the namespace "
        f"{named.namespace}; name a Secret in the NodeConfig, or add the namespace to "
        "default_credential_namespaces"
    )


def with_environment(work: Work, environment: t.Mapping[str, str]) -> Work:
    """Wrap ``work`` to use the environment's user name and password as the entry ``default``."""

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
            # The name becomes a part of a path, where a slash or dots would address another object.
            return TargetFailure(
                "credential", f"{shown('/'.join(name))} is not the name of a Secret"
            )
        try:
            return source.read_secret(*name)
        except ApiError as error:
            # Without an answer or with a refused account no Secret can be read.
            if error.status in (0, 401):
                raise
            return TargetFailure(
                "credential",
                f"the Secret {'/'.join(name)} may not be read ({error}); allow get on it",
            )

    return source.in_parallel(read, names)


def _fingerprints(value: t.Any) -> tuple[str, ...]:
    """Fingerprints from a text with commas or blanks, or from a list."""
    items = value if isinstance(value, list) else [value or ""]
    return tuple(part for item in items for part in str(item).replace(",", " ").split())
