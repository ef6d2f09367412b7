# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filters as functions and, by the examples of their documentation, in a playbook."""

from __future__ import annotations

import importlib
import json
import pkgutil
import re
import typing as t
from pathlib import Path

import pytest
import yaml
from ansible.errors import AnsibleFilterError
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.wattwise.kube.plugins import filter as filters
from ansible_collections.wattwise.kube.plugins.filter import cpu_lists, quantities
from support.playbook import run_playbook

FOLDER = Path(__file__).resolve().parents[3] / "plugins" / "filter"
FILTERS: dict[str, t.Callable[..., t.Any]] = {
    **cpu_lists.FilterModule().filters(),
    **quantities.FilterModule().filters(),
}
PAGES = {path.stem: yaml.safe_load(path.read_text()) for path in FOLDER.glob("*.yml")}
DOCUMENTS = {name: PAGES[name] for name in sorted(FILTERS)}
CPUS = st.sets(st.integers(min_value=0, max_value=300))


def call(name: str, *arguments: t.Any, **keywords: t.Any) -> t.Any:
    return FILTERS[name](*arguments, **keywords)


def test_every_filter_has_its_page() -> None:
    loaded = {
        name
        for file in pkgutil.iter_modules(filters.__path__)
        for name in importlib.import_module(f"{filters.__name__}.{file.name}")
        .FilterModule()
        .filters()
    }
    assert PAGES.keys() == loaded
    assert all(page["DOCUMENTATION"]["name"] == name for name, page in PAGES.items())


def test_the_examples_say_what_comes_out(tmp_path: Path) -> None:
    tasks, promised = [], []
    for page in DOCUMENTS.values():
        tasks += yaml.safe_load(page["EXAMPLES"])
        promised += re.findall(r"^# (.*)$", page["EXAMPLES"].replace("  #", "#"), re.MULTILINE)
    play = {"hosts": "localhost", "gather_facts": False, "tasks": tasks}
    run = run_playbook([play], tmp_path, as_json=True)
    assert run.returncode == 0, run.output
    shown = [run.results(task["name"])[0]["msg"] for task in tasks]
    assert len(shown) == len(promised) == len(FILTERS)
    for message, promise in zip(shown, promised, strict=True):
        if isinstance(message, dict):
            message = ", ".join(f"{key}: {value}" for key, value in message.items())
        assert message == promise


@pytest.mark.parametrize("name", DOCUMENTS)
def test_the_sample_is_what_the_first_example_gives(name: str) -> None:
    sample = DOCUMENTS[name]["RETURN"]["_value"]["sample"]
    if name in ("parse_quantity", "format_quantity"):
        assert call(name, "1500m") == sample
        return
    assert json.dumps(sample) in json.dumps([call(name, *arguments(name))])


def arguments(name: str) -> list[t.Any]:
    """Parts of the example: a text or a list, and the content of the parentheses."""
    [example] = yaml.safe_load(DOCUMENTS[name]["EXAMPLES"])
    message = example["ansible.builtin.debug"]["msg"]
    found = re.search(rf"(\S.*?) \| wattwise\.kube\.{name}(?:\((.*?)\))?(?: |$)", message)
    assert found is not None
    given_first = found.group(1).rpartition("{{ ")[2]
    return [yaml.safe_load(given_first), *yaml.safe_load(f"[{found.group(2) or ''}]")]


@given(CPUS, CPUS, CPUS)
def test_cpu_lists_behave_as_sets(first: set[int], second: set[int], third: set[int]) -> None:
    texts = [call("format_cpu_list", list(cpus)) for cpus in (first, second, third)]
    lists: list[t.Any] = [texts[0], list(second), texts[2]]

    def result(name: str) -> list[int]:
        return t.cast("list[int]", call("parse_cpu_list", call(name, *lists)))

    assert result("cpu_list_union") == sorted(first | second | third)
    assert result("cpu_list_intersection") == sorted(first & second & third)
    assert result("cpu_list_difference") == sorted(first - second - third)


@given(
    st.one_of(
        st.integers(min_value=-(2**60), max_value=2**60),
        st.decimals(min_value=-1000, max_value=1000, places=6).map(float),
    ),
    st.booleans(),
)
def test_a_quantity_survives_being_written_and_read(number: float, binary: bool) -> None:
    text = call("format_quantity", number, binary=binary)
    assert call("parse_quantity", text) == pytest.approx(number, rel=1e-12, abs=1e-12)
    if isinstance(number, int):
        assert call("parse_quantity", text) == number


@pytest.mark.parametrize(
    ("number", "binary", "text"),
    [
        (0, False, "0"),
        (1.5, False, "1500m"),
        ("0.0000000001", False, "1n"),
        ("-0.0000000001", False, "-1n"),
        (0.1 + 0.2, False, "300m"),
        (1500000, False, "1500k"),
        (3 * 2**30, True, "3Gi"),
        (3 * 2**30, False, "3221225472"),
        (1000, True, "1000"),
        (1.5, True, "1500m"),
        ("2048Mi", True, "2Gi"),
        (2**63 - 1, True, "9223372036854775807"),
    ],
)
def test_quantities_are_written_in_their_shortest_form(
    number: t.Any, binary: bool, text: str
) -> None:
    assert call("format_quantity", number, binary=binary) == text


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("parse_cpu_list", "0-x", "'0-x' in '0-x' is not a CPU or a range like 0-3"),
        ("format_cpu_list", [0, -1], "-1 is not the number of a CPU"),
        ("format_cpu_list", [True], "True is not the number of a CPU"),
        ("cpu_list_union", None, "None is not the number of a CPU"),
        ("parse_quantity", "many", "'many' is not a Kubernetes quantity"),
        ("format_quantity", 2**63, "out of range"),
    ],
)
def test_a_mistake_is_one_sentence_that_names_the_filter(
    name: str, value: t.Any, message: str
) -> None:
    with pytest.raises(AnsibleFilterError, match=re.escape(message)) as caught:
        call(name, value)
    assert f"wattwise.kube.{name}: " in str(caught.value)
