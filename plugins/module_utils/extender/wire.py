# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Bodies of kube-scheduler's requests to an extender, and of the responses.

Source: staging/src/k8s.io/kube-scheduler/extender/v1/types.go of Kubernetes 1.34. Its outer structs
have no JSON tags, so their members have Go's names.
"""

from __future__ import annotations

import json
import typing as t

from ..base import strict_json
from ..base.errors import InvalidInput
from ..base.json_types import Object

# A pod has at most 1.5 MiB in etcd, and 10,000 names of nodes have 2.5 MB.
MAX_BODY = 4 * 1024 * 1024
_LIMITS = strict_json.JsonLimits(size=MAX_BODY, members=200_000)


class Call(t.NamedTuple):
    """A pod, and the names of its candidate nodes."""

    pod: Object
    names: list[str]


def read_call(body: bytes) -> Call:
    """The body of a filter or prioritize call. Raises InvalidInput."""
    try:
        given = strict_json.parse(body, _LIMITS)
    except ValueError as error:
        raise InvalidInput(f"The body is not JSON ({error}); send ExtenderArgs") from error
    if not isinstance(given, dict):
        raise InvalidInput("The body is not a JSON object; send ExtenderArgs")
    pod, names = given.get("Pod"), given.get("NodeNames")
    if not isinstance(pod, dict):
        raise InvalidInput("Pod is missing; send ExtenderArgs of kube-scheduler")
    if names is None and given.get("Nodes") is not None:
        raise InvalidInput(
            "The body has whole Nodes; set nodeCacheCapable: true for this extender in the "
            "configuration of kube-scheduler"
        )
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise InvalidInput("NodeNames is not a list of names; send ExtenderArgs of kube-scheduler")
    return Call(pod, names)


def filter_reply(names: t.Sequence[str], left_out: t.Mapping[str, str], error: str = "") -> str:
    """ExtenderFilterResult; ``left_out`` has the nodes that no eviction can free, with reasons."""
    return strict_json.format_compact(
        {
            "Nodes": None,
            "NodeNames": list(names),
            "FailedNodes": {},
            "FailedAndUnresolvableNodes": dict(left_out),
            "Error": error,
        }
    )


def prioritize_reply(names: t.Sequence[str], scores: t.Sequence[int]) -> str:
    """HostPriorityList, written by hand, because a thousand objects take long."""
    hosts = map(json.encoder.encode_basestring_ascii, names)
    parts = [f'{{"Host":{host},"Score":{score}}}' for host, score in zip(hosts, scores)]
    return f"[{','.join(parts)}]"
