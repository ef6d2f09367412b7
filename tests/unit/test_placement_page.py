# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""docs/reference/pod-fields.md agrees with the allow-list on each field; the API server's test covers the
rest.
"""

from __future__ import annotations

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.scheduling import pod_fields
from ansible_collections.wattwise.kube.plugins.module_utils.scheduling.pod_fields import (
    POD,
    VOLUME,
    Fields,
    unsupported_fields,
)
from scripts import write_pod_fields as page
from support.wao import ROOT


def test_the_page_is_current() -> None:
    text = (ROOT / "docs" / "reference" / "pod-fields.md").read_text(encoding="utf-8")
    assert text == page.rendered(text), "run python -m scripts.write_pod_fields"


def test_every_field_of_the_allow_list_is_explained_and_no_other() -> None:
    assert page.POD.keys() == POD.read | POD.harmless | POD.refused
    tables = [value for value in vars(pod_fields).values() if isinstance(value, Fields)]
    explained = [POD, *page.NESTED.values()]
    assert {id(table) for table in tables} == {id(table) for table in explained}


def _is_told(name: str) -> str:
    [row] = [row for row in page.pod_table() if row.startswith(f"| `{name}` |")]
    return row


@pytest.mark.parametrize("name", sorted(page.POD))
def test_the_message_of_the_page_is_that_of_the_placer(name: str) -> None:
    unsupported = f"spec.{name}" in POD.not_understood({name: "x"}, "spec")
    assert unsupported == (f"`unsupported: spec.{name}`" in _is_told(name))


@pytest.mark.parametrize("name", sorted(VOLUME.refused | VOLUME.harmless))
def test_a_kind_of_volume_is_refused_as_the_page_says(name: str) -> None:
    [row] = [row for row in page.nested_table() if row.startswith("| spec.volumes |")]
    _empty, _place, honoured, _no_effect, refused, _end = row.split("|")
    found = unsupported_fields({"spec": {"volumes": [{name: {"x": 1}}]}})
    assert (f"spec.volumes.{name}" in found) == (f"`{name}`" in honoured + refused)
