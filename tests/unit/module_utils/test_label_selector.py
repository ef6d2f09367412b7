# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Label selectors match as in Kubernetes."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import InvalidInput
from ansible_collections.wattwise.kube.plugins.module_utils.base.label_selector import (
    parse_label_selector,
)

LABELS = {"rack": "r1", "role": ""}


def expression(key: str, operator: str, *values: str) -> dict[str, t.Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ({}, True),
        ({"matchLabels": None, "matchExpressions": None}, True),
        ({"matchLabels": {"rack": "r1"}}, True),
        ({"matchLabels": {"rack": "r2"}}, False),
        ({"matchLabels": {"rack": "r1", "zone": "a"}}, False),
        ({"matchLabels": {"role": ""}}, True),
        (expression("rack", "In", "r0", "r1"), True),
        (expression("zone", "In", "a"), False),
        (expression("rack", "NotIn", "r1"), False),
        (expression("rack", "NotIn", "r2"), True),
        (expression("zone", "NotIn", "a"), True),
        (expression("role", "Exists"), True),
        (expression("zone", "Exists"), False),
        (expression("zone", "DoesNotExist"), True),
        (expression("rack", "DoesNotExist"), False),
        ({"matchLabels": {"rack": "r1"}, **expression("role", "DoesNotExist")}, False),
    ],
)
def test_it_matches_as_kubernetes_does(selector: dict[str, t.Any], expected: bool) -> None:
    assert parse_label_selector(selector).matches(LABELS) is expected


@pytest.mark.parametrize(
    ("selector", "reason"),
    [
        (None, "there is no label selector; write matchLabels"),
        ("rack=r1", "there is no label selector"),
        ({"rack": "r1"}, "'rack' is not part of a label selector"),
        ({"matchLabels": ["rack"]}, "matchLabels must be a mapping"),
        ({"matchExpressions": {"rack": "r1"}}, "matchExpressions a list"),
        ({"matchLabels": {"rack": 1}}, "matchLabels.rack: 1 is not text"),
        ({"matchExpressions": ["rack"]}, r"matchExpressions\[0\]: the key is missing"),
        (expression("rack", "Equals", "r1"), "the operator is 'Equals'; write one of In"),
        (expression("rack", "In"), "In and NotIn need a list of values"),
        (expression("rack", "Exists", "r1"), "Exists and DoesNotExist have none"),
        ({"matchExpressions": [{"key": "a", "operator": "In", "values": [1]}]}, "1 is not text"),
    ],
)
def test_a_bad_selector_is_refused(selector: t.Any, reason: str) -> None:
    with pytest.raises(InvalidInput, match=reason):
        parse_label_selector(selector)
