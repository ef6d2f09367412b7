# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Credential types as AWX checks and injects them: CredentialType of AWX 24.6."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from jinja2 import StrictUndefined, TemplateError, sandbox

Json = dict[str, Any]

ENCRYPTED = "$encrypted$"
_NAME = re.compile(r"[a-zA-Z_]\w*", re.ASCII)
_EXTRA_VAR = re.compile(r"[a-zA-Z_{}]+[a-zA-Z0-9_{}]*")
_FILE = re.compile(r"template(\.[a-zA-Z_]\w*)?", re.ASCII)
_KEY = re.compile(
    r"\A\s*-{4,} *BEGIN (?P<type>(?:(?:RSA|DSA|EC|OPENSSH|ENCRYPTED) )?PRIVATE KEY) *-{4,}"
    r"\s*[A-Za-z0-9+/=\s]+-{4,} *END (?P=type) *-{4,}\s*\Z"
)
_FIELD_KEYS = {
    *("id", "label", "type", "format", "choices", "help_text", "multiline", "secret"),
    *("ask_at_runtime", "default"),
}


def problem_of_type(inputs: Json, injectors: Json) -> str | None:
    """Reason why AWX refuses the type; None if it accepts it."""
    fields = inputs.get("fields", [])
    for each in fields:
        if not _NAME.fullmatch(each.get("id", "")) or each["id"] == "tower":
            return f"{each.get('id')} is an invalid variable name"
        if "label" not in each or not each.keys() <= _FIELD_KEYS:
            return f"Additional properties are not allowed in {each['id']}"
    if unknown := injectors.keys() - {"file", "env", "extra_vars"}:
        return f"Additional properties are not allowed ({unknown})"
    for name in injectors.get("env", {}):
        if name.startswith("ANSIBLE_") or not _NAME.fullmatch(name):
            return f"Environment variable {name} may affect Ansible configuration"
    if bad := [name for name in injectors.get("file", {}) if not _FILE.fullmatch(name)]:
        return f"{bad[0]} does not match any of the regexes"
    if bad := [name for name in _keys(injectors.get("extra_vars", {})) if not _matches(name)]:
        return f"{bad[0]} does not match any of the regexes"
    example = {each["id"]: "EXAMPLE" for each in fields}
    try:
        inject(injectors, example, files=None, undefined=StrictUndefined)
    except TemplateError as error:
        return f"injectors use an undefined field ({error})"
    return None


def _matches(name: str) -> bool:
    return bool(_EXTRA_VAR.fullmatch(name))


def _keys(value: Any) -> list[str]:
    if not isinstance(value, dict):
        return []
    return [*value, *(key for member in value.values() for key in _keys(member))]


def problem_of_inputs(type_inputs: Json, inputs: Json) -> Json | None:
    """Reason why AWX refuses the inputs of a credential; None if it accepts them."""
    known = {each["id"] for each in type_inputs.get("fields", [])}
    if unknown := inputs.keys() - known:
        found = ", ".join(sorted(unknown))
        return {"inputs": [f"Additional properties are not allowed ('{found}' was unexpected)"]}
    keys = [each["id"] for each in type_inputs["fields"] if each.get("format") == "ssh_private_key"]
    errors = {
        name: [f"Invalid certificate or key: {inputs[name][:100]}..."]
        for name in keys
        if inputs.get(name) not in (None, "", ENCRYPTED) and not _KEY.search(inputs[name])
    }
    return {"inputs": errors} if errors else None


def shown_inputs(type_inputs: Json, inputs: Json) -> Json:
    """The inputs as the API shows them."""
    secret = {each["id"] for each in type_inputs.get("fields", []) if each.get("secret")}
    return {key: ENCRYPTED if key in secret and value else value for key, value in inputs.items()}


@dataclass
class Injected:
    """Variables and files that a job gets from its credentials."""

    environment: dict[str, str] = field(default_factory=dict)
    extra_vars: Json = field(default_factory=dict)


def inject(injectors: Json, inputs: Json, files: Path | None, undefined: Any = None) -> Injected:
    """Render the injectors; files go into the folder, or nowhere without one."""
    options = {"undefined": undefined} if undefined else {}
    templates = sandbox.ImmutableSandboxedEnvironment(**options)
    names: Json = {key: value for key, value in inputs.items() if value != ""}

    def render(template: Any) -> Any:
        if isinstance(template, dict):
            return {render(key): render(value) for key, value in template.items()}
        if isinstance(template, list):
            return [render(each) for each in template]
        return templates.from_string(template).render(**names)

    tower = names["tower"] = SimpleNamespace()
    for label, template in injectors.get("file", {}).items():
        path = "EXAMPLE_FILENAME"
        text = render(template)
        if files is not None:
            target = files / f"credential-{len(list(files.iterdir()))}"
            target.write_text(text)
            target.chmod(0o600)
            path = str(target)
        _, _, part = label.partition(".")
        if part:
            tower.filename = getattr(tower, "filename", SimpleNamespace())
            setattr(tower.filename, part, path)
        else:
            tower.filename = path
    return Injected(render(injectors.get("env", {})), render(injectors.get("extra_vars", {})))
