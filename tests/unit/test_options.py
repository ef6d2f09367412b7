# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The forms of an option that are generated from its table; the gate `options` compares files."""

from __future__ import annotations

import re
import typing as t
from pathlib import Path

import pytest
import yaml

from scripts import generate_options
from scripts.option_tables import Option, Reference, names, plain, table


def option(name: str = "wait_seconds", **entry: t.Any) -> Option:
    """An option with this entry; ``spec`` replaces its specification."""
    spec = entry.pop("spec", {"type": "float", "default": 5.0})
    return Option(name, "place", spec, {"description": "Seconds to wait.", **entry}, ())


def named(reference: Reference) -> str:
    return f"<{reference.table}.{reference.name}{reference.rest}>"


def generated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, text: str) -> str:
    """The content of a file of the tree after the generator."""
    monkeypatch.setattr(generate_options, "REPOSITORY", tmp_path)
    match = generate_options.PART.search(text)
    assert match is not None
    return generate_options.part(tmp_path / path, match)


def test_every_option_of_a_table_has_its_forms() -> None:
    for of in map(table, names()):
        for one in of.options.values():
            assert one.documentation("module", named)["description"], (of.name, one.name)
            assert one.documentation("role", named)["type"], (of.name, one.name)
            assert one.schema()["description"], (of.name, one.name)


def test_a_reference_is_rendered_for_each_surface() -> None:
    [text] = table("place").options["standby_watts"].sentences("module", named)
    assert text == "Power draw of a sleeping node in W, with <place.allow_power_off>."
    [text] = option(
        description="See O(predict:power_curves[].max) and O(strategy=optimal)."
    ).sentences("module", named)
    assert text == "See <predict.power_curves[].max> and <place.strategy=optimal>."


def test_a_reference_to_no_option_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"place\.wait_seconds: there is no option strateggy"):
        option(description="See O(strateggy).").sentences("module", named)


def test_options_of_other_plugins_and_other_variables_of_the_role_stay() -> None:
    text = "See O(wattwise.kube.x#module:ssh) and O(placement_bind)."
    assert option(description=text).sentences("role", named) == [text]


def test_words_of_a_shared_sentence_are_those_of_the_table() -> None:
    texts = {
        name: table(name).options["timeout"].sentences("module", named)[0]
        for name in ("fleet", "read")
    }
    assert texts["fleet"].startswith("Seconds that all requests to one target may")
    assert texts["read"].startswith("Seconds that all requests to one machine may")


@pytest.mark.parametrize(
    ("name", "entry", "field"),
    [
        ("max_age", {"kind": "period"}, "maxAgeSeconds"),
        ("wait_seconds", {"kind": "period"}, "waitSeconds"),
        ("min_gain_watts", {}, "minGainWatts"),
        ("keep", {"field": {"name": "keepPlans"}}, "keepPlans"),
    ],
)
def test_a_field_has_camel_case_and_its_unit(name: str, entry: t.Any, field: str) -> None:
    assert option(name, **entry).field_name() == field


def test_a_schema_has_range_default_and_the_first_paragraph() -> None:
    texts = [
        "Seconds from V(0) on, as M(wattwise.kube.x) and P(wattwise.kube.y#role) say.",
        "More.",
    ]
    assert option(kind="period", schema={"maximum": 60}, description=texts).schema() == {
        "type": "number",
        "minimum": 0,
        "maximum": 60,
        "default": 5,
        "description": "Seconds from 0 on, as module x and role y say.",
    }
    assert plain("O(x) has C(a) and E(B) and RV(c)") == "O(x) has a and B and c"


@pytest.mark.parametrize(
    ("spec", "entry", "default", "is_omitted"),
    [
        ({"type": "path"}, {}, "", True),
        ({"type": "path", "required": True}, {}, None, False),
        ({"type": "path"}, {"role": {"default": "{{ other }}"}}, "{{ other }}", True),
        ({"type": "dict"}, {}, None, False),
        ({"type": "float", "default": 0.0}, {"role": {"default": 0.5}}, 0.5, False),
    ],
)
def test_an_empty_variable_leaves_out_an_option_without_default(
    spec: t.Any, entry: t.Any, default: t.Any, is_omitted: bool
) -> None:
    one = option(spec=spec, **entry)
    assert (one.role_default(), one.is_omitted_if_empty) == (default, is_omitted)


def test_long_sentences_are_folded_and_read_back_as_they_were() -> None:
    value = {
        "a": {"description": ["word " * 40 + "end: with a colon", "# no comment", "'quoted'"]},
        "b": [{"c": "", "d": []}, "on"],
    }
    lines = list(generate_options.block(value, 4))
    assert max(map(len, lines)) <= generate_options.WIDTH
    assert yaml.safe_load("\n".join(lines)) == value


def test_the_file_decides_the_form(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    request = "# begin generated: place min_gain_watts\n# end generated\n"
    forms = {
        path: generated(tmp_path, monkeypatch, path, request)
        for path in (
            "roles/placement/defaults/main.yml",
            "roles/placement/meta/limits.yml",
            "roles/placement/vars/main.yml",
        )
    }
    assert [text.splitlines()[1:-1] for text in forms.values()] == [
        ["placement_min_gain_watts: 5.0"],
        ["placement_min_gain_watts: {above: 0}"],
        ['min_gain_watts: "{{ placement_min_gain_watts }}"'],
    ]
    # Outside of a whole table, another variable may be none of the entry point's.
    specification = generated(
        tmp_path, monkeypatch, "roles/placement/meta/argument_specs.yml", request
    )
    assert "C(placement_rebalance)" in specification
    of_step = generated(tmp_path, monkeypatch, "plugins/modules/fleet_reconciliation.py", request)
    assert re.search(r"O\(place\.rebalance\)", of_step)


def test_a_request_for_an_option_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ValueError, match="place: there is no option min_gain"):
        generate_options.selected(table("place"), ["-min_gain"], "module")
