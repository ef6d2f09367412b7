# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Argument specifications as values, which modules merge and the library completes with defaults.

Each shared specification has the name of the doc fragment that describes it; a test compares the
two.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

from .errors import InvalidInput

Options = t.Mapping[str, t.Mapping[str, t.Any]]
Rules = tuple[tuple[t.Any, ...], ...]


@dataclass(frozen=True)
class ArgumentSpec:
    """Options of a module in AnsibleModule's form, with the rules between them.

    ``environment`` of an option lists environment variables that replace it. ``secret_keys`` lists
    the secret members of a ``no_log`` option. module_runner.py reads both.
    """

    options: Options
    mutually_exclusive: Rules = ()
    required_together: Rules = ()
    required_one_of: Rules = ()
    required_if: Rules = ()
    required_by: t.Mapping[str, t.Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in {name for rule in self.required_one_of for name in rule}:
            # Ansible counts a default as given.
            if "default" in self.options.get(name, {}):
                raise ValueError(f"required_one_of: the rule never applies: {name} has a default")

    def merge(self, *others: ArgumentSpec) -> ArgumentSpec:
        """Merge this specification with others; an option may be in one of them only."""
        parts = (self, *others)
        options: dict[str, t.Mapping[str, t.Any]] = {}
        required_by: dict[str, t.Any] = {}
        for part in parts:
            twice = options.keys() & part.options.keys()
            if twice:
                raise ValueError(f"specified twice: {', '.join(sorted(twice))}")
            options.update(part.options)
            required_by.update(part.required_by)
        return ArgumentSpec(
            options,
            mutually_exclusive=_joined(part.mutually_exclusive for part in parts),
            required_together=_joined(part.required_together for part in parts),
            required_one_of=_joined(part.required_one_of for part in parts),
            required_if=_joined(part.required_if for part in parts),
            required_by=required_by,
        )

    def to_keywords(self, fallback: t.Callable[..., t.Any]) -> dict[str, t.Any]:
        """The keyword arguments of AnsibleModule, and of Ansible's validator of such options.

        ``fallback`` is Ansible's ``env_fallback``: the library does not import Ansible.
        """
        return {
            "argument_spec": _of_ansible(self.options, fallback),
            "mutually_exclusive": [list(rule) for rule in self.mutually_exclusive],
            "required_together": [list(rule) for rule in self.required_together],
            "required_one_of": [list(rule) for rule in self.required_one_of],
            "required_if": [list(rule) for rule in self.required_if],
            "required_by": dict(self.required_by),
        }

    def complete(self, parameters: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
        """Fill in all defaults of the parameters, for direct calls of the library.

        Raises InvalidInput for an unknown or a missing option. Ansible checks types, choices and
        the rules between options, and it does so before it calls the library.
        """
        return _complete(self.options, parameters, "parameters")


def _of_ansible(options: Options, fallback: t.Callable[..., t.Any]) -> dict[str, t.Any]:
    """Options, and their suboptions, with only Ansible's keys."""
    found: dict[str, t.Any] = {}
    for name, given in options.items():
        option = {key: value for key, value in given.items() if key != "secret_keys"}
        if variables := option.pop("environment", None):
            option["fallback"] = (fallback, variables)
        if "options" in option:
            option["options"] = _of_ansible(option["options"], fallback)
        found[name] = option
    return found


def _joined(rules: t.Iterable[Rules]) -> Rules:
    return tuple(rule for part in rules for rule in part)


def _complete(options: Options, given: t.Mapping[str, t.Any], where: str) -> dict[str, t.Any]:
    unknown = given.keys() - options.keys()
    if unknown:
        raise InvalidInput(f"{where}: unknown option {', '.join(sorted(unknown))}")
    completed: dict[str, t.Any] = {}
    for name, option in options.items():
        value = given.get(name)
        if value is None:
            value = option.get("default")
        if value is None and option.get("required"):
            raise InvalidInput(f"{where}: the option {name} is required")
        completed[name] = _complete_suboptions(option, value, f"{where}.{name}")
    return completed


def _complete_suboptions(option: t.Mapping[str, t.Any], value: t.Any, where: str) -> t.Any:
    suboptions = option.get("options")
    if suboptions is None or value is None:
        return value
    if option.get("type") == "list":
        return [
            _complete(suboptions, item, f"{where}[{index}]") for index, item in enumerate(value)
        ]
    return _complete(suboptions, value, where)


KUBERNETES = ArgumentSpec(
    {
        "kubeconfig": {
            "type": "raw",
            "no_log": True,
            "secret_keys": ["token", "password", "client-key-data", "auth-provider", "exec"],
            "environment": ["K8S_AUTH_KUBECONFIG"],
        },
        "context": {"type": "str", "environment": ["K8S_AUTH_CONTEXT"]},
        "host": {"type": "str", "environment": ["K8S_AUTH_HOST"]},
        "api_key": {"type": "str", "no_log": True, "environment": ["K8S_AUTH_API_KEY"]},
        "ca_cert": {"type": "path", "environment": ["K8S_AUTH_SSL_CA_CERT"]},
        "client_cert": {"type": "path", "environment": ["K8S_AUTH_CERT_FILE"]},
        "client_key": {"type": "path", "no_log": False, "environment": ["K8S_AUTH_KEY_FILE"]},
        "verify_ssl": {"type": "bool", "environment": ["K8S_AUTH_VERIFY_SSL"]},
        "proxy": {"type": "str", "environment": ["K8S_AUTH_PROXY"]},
        "impersonate_user": {"type": "str", "environment": ["K8S_AUTH_IMPERSONATE_USER"]},
        "impersonate_groups": {
            "type": "list",
            "elements": "str",
            "environment": ["K8S_AUTH_IMPERSONATE_GROUPS"],
        },
    }
)

PROGRESS = ArgumentSpec(
    {
        "progress": {
            "type": "str",
            "default": "auto",
            "choices": ["auto", "line", "log", "none"],
            "environment": ["WATTWISE_PROGRESS"],
        },
        "progress_file": {"type": "path"},
    }
)

# Options of every module that binds or evicts pods or allocates devices; see lease.py.
LEASE = ArgumentSpec(
    {
        "lease_namespace": {"type": "str", "default": "kube-system"},
        "lease_timeout": {"type": "float", "default": 60.0},
    }
)

_TRUST: Options = {
    "allow_plain_http": {"type": "bool", "default": False},
    "validate_certs": {"type": "bool", "default": True},
    "ca_path": {"type": "path"},
    "tls_fingerprint": {"type": "list", "elements": "str", "default": []},
}

# Options of requests with a credential to servers such as Prometheus.
SERVER: Options = {
    "credential": {"type": "str", "no_log": False},
    "credentials": {"type": "dict", "no_log": True, "secret_keys": ["password", "token"]},
    **_TRUST,
}

_HTTP: Options = {
    "timeout": {"type": "float", "default": 10.0},
    "concurrency": {"type": "int", "default": 64},
    **_TRUST,
    "on_error": {"type": "str", "default": "report", "choices": ["report", "fail"]},
    "min_success": {"type": "float", "default": 0.0},
}

# Options of every module with HTTP requests to many machines.
FLEET = ArgumentSpec(
    {
        **_HTTP,
        "snapshot": {"type": "path"},
        "credentials": {"type": "dict", "no_log": True, "secret_keys": ["password", "token"]},
        "node_selector": {"type": "str"},
    }
)

# Options of every module with requests to RMD daemons.
RMD = ArgumentSpec(
    {
        **_HTTP,
        "tls_server_name": {"type": "str", "default": "rmd-nameserver"},
        "client_cert": {"type": "path"},
        "client_key": {"type": "path", "no_log": False},
        "username": {"type": "str"},
        "password": {"type": "str", "no_log": True},
        "wire": {"type": "str", "default": "auto", "choices": ["auto", "0.2", "0.3"]},
    },
    required_by={"client_key": ("client_cert",), "password": ("username",)},
)
