# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The result in the prototype's format: `format: k8srm`."""

from __future__ import annotations

import typing as t

from ...base.json_types import Object
from ...base.libraries import yaml

_KEYS_OF_A_NODE = ("DeviceClaimResults", "NodeName")


def render(result: Object, verbose: bool) -> str:
    """Allocations and node results under the prototype's headings.

    The short form has a line for each node, whether it satisfies all claims. The full form is YAML
    with the keys in alphabetical order, as the prototype's.
    """
    allocations = [
        entry for claim in result["allocations"] if claim for entry in claim.get("allocations", [])
    ]
    results = result["node_results"]
    shown = _yaml([_of_prototype(one) for one in results]) if verbose else _lines(results)
    return (
        f"ALLOCATIONS\n-----------\n{_yaml(allocations) if allocations else ''}\n"
        f"NODE RESULTS\n------------\n{shown}"
    )


def _of_prototype(result: Object) -> Object:
    return {key: result[key] for key in _KEYS_OF_A_NODE}


def _lines(results: t.Sequence[Object]) -> str:
    return "".join(f"{_line(result)}\n" for result in results)


def _line(result: Object) -> str:
    unsatisfied = [
        claim["claimName"] for claim in result["DeviceClaimResults"] if claim["best"] < 0
    ]
    if unsatisfied:
        return f"{result['NodeName']}: could not satisfy these claims: {', '.join(unsatisfied)}"
    return f"{result['NodeName']}: satisfied all claims with score {result['score']}"


def _yaml(value: t.Any) -> str:
    return str(yaml.safe_dump(value, default_flow_style=False, sort_keys=True))
