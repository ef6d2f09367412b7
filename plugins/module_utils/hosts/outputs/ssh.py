# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""SSH access to hosts: user, port, key and host keys, and the text of known_hosts.

Sources, the most specific first: the host's variables in the inventory, its user data, the Secret
that the Provisioning names, and its field ``ssh``. There is no default password, passwords are
never copied, and host keys come only from these sources, never from the network.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import typing as t
from dataclasses import dataclass, replace

from ...base.boundary import InvalidField, shown
from ...base.fields.strict import mapping, text, texts
from ...base.yaml_text.reader import read_document
from ..provisioning import SshRequest, port_number, user_name

DEFAULT_PORT = 22
# For ansible_ssh_args: kubespray's ansible.cfg has -o UserKnownHostsFile=/dev/null there, and ssh
# uses the first of two values.
SSH_ARGUMENTS = "-o ControlMaster=auto -o ControlPersist=30m -o StrictHostKeyChecking=yes"
SECRET_KEY = "ssh-privatekey"  # the key of a Secret of type kubernetes.io/ssh-auth

_KEY_TYPES = frozenset(
    (
        *("ssh-ed25519", "ssh-rsa", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384"),
        *("ecdsa-sha2-nistp521", "sk-ssh-ed25519@openssh.com"),
        "sk-ecdsa-sha2-nistp256@openssh.com",
    )
)
_MAX_KEY_LENGTH = 8192
_MAX_FILE_LENGTH = 1024 * 1024
_MAX_USER_DATA_LENGTH = 64 * 1024
_CLOUD_CONFIG = "#cloud-config"
# The keys of cloud-init's ssh_keys for current types; ssh-dss is obsolete.
_PUBLIC_KEYS = ("ecdsa_public", "ed25519_public", "rsa_public")
_OF_SECRET = ("user", "port", "known_hosts")
_REVOKED = "@revoked"
_PASSWORDS = frozenset(("password", "ssh-password", "ansible_password", "ansible_ssh_pass"))
_PATH = re.compile(r"[\w./~@+-]+", re.ASCII)


@dataclass(frozen=True)
class SshAccess:
    """SSH access from one source, or from all together. ``private_key`` is a path, never a key.

    ``host_keys`` are public keys such as ``ssh-ed25519 AAAA…``.
    """

    user: str = ""
    port: int = 0
    private_key: str = ""
    host_keys: tuple[str, ...] = ()

    def without(self, revoked: t.Container[str]) -> SshAccess:
        """This access without revoked host keys."""
        return replace(self, host_keys=tuple(key for key in self.host_keys if key not in revoked))


def access_of(request: SshRequest, *sources: SshAccess) -> SshAccess:
    """The combined access of the sources, the most specific first."""
    found = SshAccess(request.user, request.port)
    for source in reversed(sources):
        found = replace(found, **{name: value for name, value in vars(source).items() if value})
    return found


def public_key(value: t.Any, path: str) -> str:
    """A public key without its comment, normalised. Raises InvalidField for anything else."""
    words = value.split() if isinstance(value, str) and len(value) <= _MAX_KEY_LENGTH else []
    problem = f"{shown(value)} is not a public key; write one such as ssh-ed25519 AAAA…"
    if len(words) < 2 or words[0] not in _KEY_TYPES:
        raise InvalidField(path, problem)
    try:
        blob = base64.b64decode(words[1], validate=True)
    except (binascii.Error, ValueError):
        raise InvalidField(path, problem) from None
    length = int.from_bytes(blob[:4], "big")
    # A key begins with its own type; otherwise it is no key.
    if blob[4 : 4 + length] != words[0].encode() or len(blob) <= 4 + length:
        raise InvalidField(path, problem)
    return f"{words[0]} {base64.b64encode(blob).decode()}"


def access_of_secret(obj: t.Any) -> tuple[SshAccess, str, list[str]]:
    """User and port of a Secret, the text of its known_hosts, and warnings about it.

    Its private key is not read, because the installer mounts it. Other keys are not read either.
    Raises InvalidField.
    """
    given = mapping(obj, "Secret")
    encoded, plain = (mapping(given.get(part), part) for part in ("data", "stringData"))
    data = {
        **{key: _decoded(encoded[key], key) for key in _OF_SECRET if key in encoded},
        **{key: text(plain[key], key) for key in _OF_SECRET if key in plain},
    }
    doubts = [
        f"the Secret's {name} is not used: hosts are reached with a key"
        for name in sorted(_PASSWORDS & {*encoded, *plain})
    ]
    if SECRET_KEY not in encoded and SECRET_KEY not in plain:
        doubts.append(f"the Secret has no {SECRET_KEY}")
    port = data.get("port", "").strip()
    if port and not (port.isascii() and port.isdigit() and len(port) <= 5):
        raise InvalidField("port", f"{shown(port)} is not a port")
    access = SshAccess(
        user_name(data.get("user", "").strip(), "user"),
        port_number(int(port), "port") if port else 0,
    )
    return access, data.get("known_hosts", ""), doubts


def _decoded(value: t.Any, key: str) -> str:
    try:
        return base64.b64decode(text(value, key), validate=True).decode("utf-8")
    except (binascii.Error, ValueError):
        raise InvalidField(key, "it is not base64 of a text in UTF-8") from None


def access_of_user_data(content: t.Any, path: str) -> SshAccess:
    """The user that cloud-init makes with keys, and the host keys that it installs.

    Anything other than a ``#cloud-config`` gives nothing. Raises InvalidField.
    """
    given = text(content, path)
    if len(given) > _MAX_USER_DATA_LENGTH or not given.startswith(_CLOUD_CONFIG):
        return SshAccess()
    config = mapping(read_document(given, path), path)
    users = config.get("users")
    names = [
        each["name"]
        for each in (users if isinstance(users, list) else [])
        if isinstance(each, dict) and each.get("name") and each.get("ssh_authorized_keys")
    ]
    keys = mapping(config.get("ssh_keys"), f"{path}.ssh_keys")
    return SshAccess(
        user=user_name(names[0], f"{path}.users") if names else "",
        host_keys=tuple(
            public_key(keys[name], f"{path}.ssh_keys.{name}")
            for name in _PUBLIC_KEYS
            if name in keys
        ),
    )


def access_of_inventory(given: t.Any, path: str) -> SshAccess:
    """An inventory's variables of a host: user, port, private_key_file and host_keys."""
    fields = mapping(given, path)
    for name in fields:
        if name in _PASSWORDS:
            raise InvalidField(f"{path}.{name}", "hosts are reached with a key, not a password")
        if name not in ("user", "port", "private_key_file", "host_keys"):
            raise InvalidField(f"{path}.{shown(name)}", "there is no such field")
    return SshAccess(
        user_name(fields.get("user"), f"{path}.user"),
        port_number(fields.get("port"), f"{path}.port"),
        file_path(fields.get("private_key_file"), f"{path}.private_key_file"),
        tuple(
            public_key(key, f"{path}.host_keys[{index}]")
            for index, key in enumerate(texts(fields.get("host_keys"), f"{path}.host_keys"))
        ),
    )


def file_path(value: t.Any, path: str) -> str:
    """The path of a file, checked for an inventory; empty for None."""
    given = text(value, path)
    if given and (not _PATH.fullmatch(given) or given.startswith("-")):
        raise InvalidField(
            path, f"{shown(given)} cannot be a path in an inventory; write letters and digits"
        )
    return given


def keys_in_known_hosts(content: str, address: str, port: int) -> tuple[str, ...]:
    """The keys that a known_hosts file has for an address, also in hashed lines.

    Lines with a marker, such as ``@revoked``, and patterns give no key. Unreadable lines are
    ignored, as in OpenSSH.
    """
    name = known_name(address, port)
    found = []
    for line in content[:_MAX_FILE_LENGTH].splitlines():
        words = line.split()
        if len(words) < 3 or words[0].startswith(("#", "@")):
            continue
        if not any(_is_name(given, name) for given in words[0].split(",")):
            continue
        try:
            found.append(public_key(" ".join(words[1:3]), "known_hosts"))
        except InvalidField:
            continue
    return tuple(dict.fromkeys(found))


def revocations(content: str) -> dict[str, str]:
    """The ``@revoked`` lines of a known_hosts file, by line, with the key of each.

    The whole file counts, because a key with an unread revocation would be trusted.
    """
    found = {}
    for line in content.splitlines():
        words = line.split()
        if len(words) < 4 or words[0] != _REVOKED:
            continue
        try:
            key = public_key(" ".join(words[2:4]), "known_hosts")
        except InvalidField:
            continue
        found[f"{_REVOKED} {words[1]} {key}"] = key
    return found


def _is_name(given: str, name: str) -> bool:
    if not given.startswith("|1|"):
        return given == name
    # https://man.openbsd.org/sshd.8, SSH_KNOWN_HOSTS FILE FORMAT: |1|salt|HMAC-SHA1 of the name.
    salt, _bar, digest = given[3:].partition("|")
    try:
        expected = base64.b64decode(digest, validate=True)
        made = hmac.new(base64.b64decode(salt, validate=True), name.encode(), hashlib.sha1)
    except (binascii.Error, ValueError):
        return False
    return hmac.compare_digest(made.digest(), expected)


def known_name(address: str, port: int) -> str:
    """An address in the form of known_hosts, with brackets and port for ports other than 22."""
    return address if port in (0, DEFAULT_PORT) else f"[{address}]:{port}"


def known_hosts_text(
    hosts: t.Iterable[tuple[str, SshAccess]], revoked: t.Iterable[str] = ()
) -> str:
    """The lines of known_hosts: revocations, and the keys of hosts by address, in their order."""
    lines = list(revoked)
    lines += [
        f"{known_name(address, access.port)} {key}"
        for address, access in hosts
        for key in access.host_keys
    ]
    return "".join(f"{line}\n" for line in dict.fromkeys(lines))
