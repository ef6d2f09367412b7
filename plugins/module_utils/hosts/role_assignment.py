# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Assignment of roles to hosts, the work of host_role_assignment."""

from __future__ import annotations

from ..base.argspec import ArgumentSpec
from ..base.boundary import warn_of
from ..base.context import Context, Parameters, Result
from ..base.errors import WattwiseError
from ..solving.limits import LIMITS, Limits
from .assignment_request import read_assignment_request
from .bare_metal_host import read_all_hosts
from .outputs.cluster_outputs import outputs
from .outputs.kubespray import check_networks, small_subnets
from .roles.assignment import Question
from .roles.assignment import assign as assign_hosts
from .roles.instance import read_curves

SPEC = ArgumentSpec(
    {
        "hosts": {"type": "list", "elements": "dict"},
        "host_hardware": {"type": "list", "elements": "dict", "default": []},
        "hardware": {"type": "list", "elements": "dict"},
        "request": {"type": "dict", "required": True},
        "cluster": {"type": "str"},
        "former": {"type": "list", "elements": "dict"},
        "provisionings": {"type": "list", "elements": "dict", "default": []},
        "curves": {"type": "path"},
        "require_ip": {"type": "bool", "default": True},
        "group_names": {"type": "str", "default": "current", "choices": ["current", "legacy"]},
        "ssh": {
            "type": "dict",
            "default": {},
            "options": {
                "private_key_file": {"type": "str", "no_log": False},
                "known_hosts_file": {"type": "str"},
                "known_hosts": {"type": "str", "default": ""},
                "hosts": {"type": "dict", "default": {}},
            },
        },
        "ssh_secret": {"type": "dict", "no_log": True, "secret_keys": ["ssh-privatekey"]},
        "user_data": {"type": "dict", "no_log": True, "default": {}},
        "on_error": {"type": "str", "default": "fail", "choices": ["fail", "report"]},
    },
    required_one_of=(("hosts", "hardware"),),
).merge(LIMITS)


def assign(parameters: Parameters, context: Context = Context()) -> Result:
    """Assign roles to hosts; change nothing.

    The result is that of the module. Raises InvalidInput, and WattwiseError with the shortages if
    roles stay without a host.
    """
    options = SPEC.complete(parameters)
    limits = Limits.of(options)
    wanted = read_assignment_request(
        options["request"], options["cluster"], options["former"], options["provisionings"]
    )
    hosts, findings = read_all_hosts(
        options["hosts"] or [], options["hardware"] or [], options["host_hardware"]
    )
    curves = read_curves(options["curves"])
    findings += [*wanted.findings, *curves.findings]
    warn_of(findings, context)
    question = Question(wanted.request, hosts, wanted.owner, curves.by_node, options["require_ip"])
    answer = assign_hosts(question, limits)
    check_networks(wanted.request, answer)
    result = {"changed": False, **answer.as_dict()}
    if answer.outcome == "assigned":
        made, defects = outputs(wanted, answer.assignments, options, context)
        result |= made
        findings += defects
    result["findings"] = [finding.as_dict() for finding in findings]
    for sentence in (*answer.warnings, *small_subnets(wanted.request, answer)):
        context.warn(sentence)
    if answer.outcome != "assigned" and options["on_error"] == "fail":
        reason = result.pop("message")
        raise WattwiseError(f"Not every role gets a host: {reason}", **result)
    return result
