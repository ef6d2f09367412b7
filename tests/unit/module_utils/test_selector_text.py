# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Label selectors in their text form."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import InvalidInput
from ansible_collections.wattwise.kube.plugins.module_utils.base.label_selector import (
    parse_selector_text,
)

LABELS = {"hall": "2", "topology.kubernetes.io/zone": "z1", "spare": ""}


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("", True),
        ("hall=2", True),
        ("hall == 2", True),
        ("hall=3", False),
        ("hall!=3", True),
        ("rack!=1", True),
        ("hall", True),
        ("!hall", False),
        ("!rack", True),
        ("spare=", True),
        ("hall in (1, 2)", True),
        ("hall in (1,3)", False),
        ("hall notin (1,3)", True),
        ("rack notin (1)", True),
        ("topology.kubernetes.io/zone=z1,hall in (1,2),!rack", True),
        ("topology.kubernetes.io/zone=z1,hall in (1,3)", False),
    ],
)
def test_selectors(text: str, matches: bool) -> None:
    assert parse_selector_text(text).matches(LABELS) is matches


@pytest.mark.parametrize("text", ["=2", "hall in 2", "hall in (1", "a b", "hall=2,", "hall=ü", "-"])
def test_what_is_no_selector_says_how_one_looks(text: str) -> None:
    with pytest.raises(InvalidInput, match="node_selector: .* hall=2"):
        parse_selector_text(text, "node_selector")


@given(st.text())
def test_any_text_is_a_selector_or_refused(text: str) -> None:
    with contextlib.suppress(InvalidInput):
        parse_selector_text(text).matches(LABELS)
