# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Notifications as AWX checks and completes them: NotificationTemplateSerializer of AWX 24.6."""

from __future__ import annotations

from typing import Any

from lab.awx.credentials import ENCRYPTED

Json = dict[str, Any]

_REQUIRED = object()
_PYTHON_TYPES = {
    "string": str,
    "password": str,
    "int": int,
    "bool": bool,
    "list": list,
    "object": dict,
}


def _fields(**types: str) -> dict[str, tuple[str, Any]]:
    return {name: (kind, _REQUIRED) for name, kind in types.items()}


# The type and the default of each field.
_TYPES: dict[str, dict[str, tuple[str, Any]]] = {
    "email": _fields(host="string", port="int", username="string", password="password")
    | _fields(use_tls="bool", use_ssl="bool", sender="string", recipients="list")
    | {"timeout": ("int", 30)},
    "grafana": _fields(grafana_url="string", grafana_key="password"),
    "irc": _fields(server="string", port="int", nickname="string", password="password")
    | _fields(use_ssl="bool", targets="list"),
    "mattermost": _fields(mattermost_url="string", mattermost_no_verify_ssl="bool"),
    "pagerduty": _fields(subdomain="string", token="password", service_key="string")
    | _fields(client_name="string"),
    "rocketchat": _fields(rocketchat_url="string", rocketchat_no_verify_ssl="bool"),
    "slack": _fields(token="password", channels="list"),
    "twilio": _fields(account_sid="string", account_token="password", from_number="string")
    | _fields(to_numbers="list"),
    "webhook": _fields(url="string")
    | {
        "http_method": ("string", "POST"),
        "disable_ssl_verification": ("bool", False),
        "username": ("string", ""),
        "password": ("password", ""),
    }
    | _fields(headers="object"),
}
_EVENTS = ("started", "success", "error", "workflow_approval")
_APPROVAL_EVENTS = ("running", "approved", "timed_out", "denied")


def completed(kind: str, given: Json) -> Json:
    """The configuration with the type's defaults."""
    defaults = {
        name: default
        for name, (_type, default) in _TYPES.get(kind, {}).items()
        if default is not _REQUIRED
    }
    return {**defaults, **given}


def problem_of(kind: str, configuration: Json, messages: Any) -> Json | None:
    """The body with which AWX refuses a notification; None if it accepts it."""
    if kind not in _TYPES:
        return {"notification_type": [f'"{kind}" is not a valid choice.']}
    if problems := _problems_of_messages(messages):
        return {"messages": problems}
    if problems := _problems_of_configuration(kind, configuration):
        return {"__all__": problems}
    return None


def shown(kind: str, configuration: Json) -> Json:
    """The configuration as the API shows it."""
    secret = {name for name, (each, _default) in _TYPES[kind].items() if each == "password"}
    return {
        key: ENCRYPTED if key in secret and value else value for key, value in configuration.items()
    }


def _problems_of_configuration(kind: str, configuration: Json) -> list[str]:
    fields = _TYPES[kind]
    missing = [name for name in fields if name not in configuration]
    wrong = {
        name: each
        for name, (each, _default) in fields.items()
        if name in configuration and type(configuration[name]) is not _PYTHON_TYPES[each]
    }
    found = [
        f"No values specified for field '{name}'"
        for name, (each, _default) in fields.items()
        if each == "list" and configuration.get(name) == []
    ]
    method = configuration.get("http_method", "POST")
    if isinstance(method, str) and method.lower() not in ("put", "post"):
        found.append("HTTP method must be either 'POST' or 'PUT'.")
    if missing:
        found.append(f"Missing required fields for Notification Configuration: {missing}.")
    found += [
        f"Configuration field '{name}' incorrect type, expected {each}."
        for name, each in wrong.items()
    ]
    return found


def _problems_of_messages(messages: Any) -> list[str]:
    found = []
    for event, told in (messages or {}).items():
        if event not in _EVENTS:
            listed = "'started', 'success', 'error', or 'workflow_approval'"
            found.append(f"Event '{event}' invalid, must be one of {listed}")
        elif event == "workflow_approval":
            listed = "'running', 'approved', 'timed_out', or 'denied'"
            found += [
                f"Workflow Approval event '{one}' invalid, must be one of {listed}"
                for one in told or {}
                if one not in _APPROVAL_EVENTS
            ]
        elif "\n" in ((told or {}).get("message") or ""):
            found.append(f"Messages cannot contain newlines (found newline in {event} event)")
    return found
