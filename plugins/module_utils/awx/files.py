# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The objects of AWX as a file of variables for the ``infra.aap_configuration`` collection.

Secrets are variables there, because the file belongs into a repository. Texts with braces are for
AWX, so Ansible must not render them. Empty dictionaries are left out: they mean the same there, but
the collection's role for inventories fails at them.
"""

from __future__ import annotations

import re
import typing as t

from ..base.json_types import MutableObject
from ..base.libraries import yaml
from .configuration import CREDENTIAL_TYPES, Configuration

_HEAD = """\
---
# Written by the wattwise.kube.awx role for the collection infra.aap_configuration.
"""
_SECRETS = "# It needs these secrets as variables: {names}.\n"
_SECRET_CONFIGURATION = re.compile("password|token|secret|key", re.IGNORECASE)


def as_variables_file(wanted: Configuration) -> str:
    """YAML with one variable for each list, in the order of application."""
    secrets: list[str] = []
    lists: MutableObject = {kind: list(items) for kind, items in wanted.items() if items}
    if "controller_credentials" in lists:
        lists["controller_credentials"] = [
            _without_secrets(item, secrets) for item in wanted["controller_credentials"]
        ]
    if "controller_notifications" in lists:
        lists["controller_notifications"] = [
            {
                **item,
                "notification_configuration": {
                    key: _variable(item["name"], key, secrets)
                    if value and _SECRET_CONFIGURATION.search(key)
                    else value
                    for key, value in item["notification_configuration"].items()
                },
            }
            for item in wanted["controller_notifications"]
        ]
    for kind, items in lists.items():
        lists[kind] = [{key: one for key, one in item.items() if one != {}} for item in items]
    told = _SECRETS.format(names=", ".join(secrets)) if secrets else ""
    return _HEAD + told + _dumped(lists)


def _without_secrets(item: MutableObject, secrets: list[str]) -> MutableObject:
    """The credential with a variable in place of each input that may be secret."""
    title = item["credential_type"]
    known = [each for each in CREDENTIAL_TYPES.values() if title.endswith(f" {each.title}")]
    hidden = known[0].secret_fields() if known else frozenset(item["inputs"])
    inputs = {
        key: _variable(item["name"], key, secrets) if key in hidden else value
        for key, value in item["inputs"].items()
    }
    return {**item, "inputs": inputs}


class _Variable(str):
    """A text that Ansible renders when it reads the file, or a key, which it never renders."""

    __slots__ = ()


def _with_plain_keys(value: t.Any) -> t.Any:
    if isinstance(value, dict):
        return {_Variable(key): _with_plain_keys(member) for key, member in value.items()}
    return [_with_plain_keys(item) for item in value] if isinstance(value, list) else value


def _variable(name: str, key: str, secrets: list[str]) -> _Variable:
    variable = re.sub(r"\W+", "_", f"awx_secret_{name}_{key}".lower(), flags=re.ASCII)
    secrets.append(variable)
    return _Variable(f"{{{{ {variable} }}}}")


def _dumped(lists: MutableObject) -> str:
    class Dumper(yaml.SafeDumper):
        """Dumper that marks texts for AWX as unsafe for Ansible, without aliases."""

        def ignore_aliases(self, data: t.Any) -> bool:
            return True

    def represent_text(dumper: t.Any, text: str) -> t.Any:
        if isinstance(text, _Variable) or not re.search(r"\{[{%#]", text):
            return dumper.represent_scalar("tag:yaml.org,2002:str", str(text))
        return dumper.represent_scalar("!unsafe", text, style='"')

    Dumper.add_multi_representer(str, represent_text)
    Dumper.add_representer(str, represent_text)
    text: str = yaml.dump(
        _with_plain_keys(lists), Dumper=Dumper, sort_keys=False, width=120, allow_unicode=True
    )
    return text
