# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
import types
import typing as t

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.wattwise.kube.plugins.module_utils.base.yaml_text import reader
from ansible_collections.wattwise.kube.plugins.module_utils.base.yaml_text.reader import (
    OPERATOR,
    TENANT,
    InvalidYaml,
    Limits,
    read_document,
    read_documents,
)
from support import yaml_corpus
from support.examples import examples

MAX_SECONDS = 1.0
MAX_MEBIBYTES = 32


@pytest.mark.parametrize(
    ("limits", "parser"), [("tenant", "libyaml"), ("tenant", "python"), ("operator", "libyaml")]
)
def test_no_bomb_costs_more_than_a_second_and_32_mebibytes(limits: str, parser: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "support.yaml_bombs", limits, parser],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    told = json.loads(ended.stdout)
    slow = {name: cost for name, cost in told["costs"].items() if cost[0] > MAX_SECONDS}
    assert slow == {}
    assert told["mebibytes"] < MAX_MEBIBYTES
    laughs = [result for name, (_s, result) in told["costs"].items() if name.startswith("laughs")]
    assert laughs and "read" not in laughs


@pytest.mark.parametrize(
    ("text", "line", "problem"),
    [
        ("a: 1\nb: &x 2", 2, "anchors, aliases and tags are not allowed here"),
        ("a: 1\nb: *x", 2, "anchors, aliases and tags are not allowed here"),
        ("a:\n- &x {}", 2, "anchors, aliases and tags are not allowed here"),
        ("- !!str a", 1, "anchors, aliases and tags are not allowed here"),
        ("a: !!python/object:os.system {}", 1, "anchors, aliases and tags are not allowed here"),
        ("! a", 1, "anchors, aliases and tags are not allowed here"),
        ("a:\n  <<: {b: 1}", 2, "the merge key << is not allowed here"),
        ("\n\n" + "[" * 101, 3, "it is nested more than 100 deep"),
        ("- " * 101 + "a", 1, "it is nested more than 100 deep"),
        ("a\n" * 40_000, 1, "it has a text of more than 65536 characters"),
        ("- a\n" * 20_000, 10_000, "it has more than 10000 values"),
        ("a\n---\nb", 3, "it has more than one document"),
        ("a: .nan", 1, "JSON has no .inf and no .nan"),
        ("- -.INF", 1, "JSON has no .inf and no .nan"),
        ("~: a", 1, "a key is null or too large a number"),
        ("18446744073709551615: a", 1, "a key is null or too large a number"),
        ("a: 1\n? [b]", 2, "a key is a list or a mapping"),
        ("{a: 1}: b", 1, "a key is a list or a mapping"),
        ("a\n\x00", 2, "it is not YAML: it holds the character U+0000"),
        ("a: \ud800", 1, "it is not YAML: it holds the character U+D800"),
        ('a: "\\ud800"', 1, "it is not YAML: "),
        ('a:\n  "\\UFFFFFFFF"', 2, "it is not YAML: "),
        ("a: 1\n\ufeffb: 2", 2, "it is not YAML: it holds the character U+FEFF"),
        (b"a: 1\nb: \xff", 2, "it is not UTF-8"),
        (b"\xff\xfea", 1, "it is not UTF-16-LE"),
        ("a: 'b", 1, "it is not YAML: "),
        ("a: 1\n  b: 2", 2, "it is not YAML: "),
        ("%YAML 1.2\n---\na", 2, "it is not YAML: %YAML names another version than 1.1"),
    ],
)
def test_an_error_says_line_what_and_where(text: str | bytes, line: int, problem: str) -> None:
    with pytest.raises(InvalidYaml) as caught:
        read_document(text, "spec.additionalConfig")
    assert str(caught.value).startswith("spec.additionalConfig: line ")
    assert problem in str(caught.value)
    assert caught.value.field == "spec.additionalConfig"
    assert abs(caught.value.line - line) <= 1


@pytest.mark.parametrize(
    "text", ["é" * 200_000, "\U0001f600" * 70_000, b"a" * 300_000, "a" * 300_000]
)
def test_bytes_are_limited_before_anything_is_read(text: str | bytes) -> None:
    with pytest.raises(InvalidYaml, match="^a: it has more than 262144 bytes of YAML"):
        read_document(text, "a")


def test_many_directives_are_refused_because_libyaml_compares_them_with_each_other() -> None:
    text = "".join(f"%TAG !{number}! a\n" for number in range(1000)) + "---\na"
    with pytest.raises(InvalidYaml, match="it has more than 100 directives %TAG"):
        read_document(text, "a", OPERATOR)


def test_an_operators_alias_is_a_copy_and_costs_what_it_stands_for() -> None:
    [first, second] = read_document("- &x {a: [1]}\n- *x", "a", OPERATOR)
    assert first == second == {"a": [1]}
    assert first is not second and first["a"] is not second["a"]
    few = dataclasses.replace(OPERATOR, expansion=100)
    assert read_document("- &x abcdefghij\n- *x\n- *x", "a", few) == ["abcdefghij"] * 3
    with pytest.raises(InvalidYaml, match=r"line 7: its aliases stand for more than 100"):
        read_document("- &x abcdefghij\n" + "- *x\n" * 6, "a", few)


def test_an_alias_cannot_nest_deeper_than_a_text() -> None:
    text = f"- &x {'[' * 60}{']' * 60}\n- {'[' * 60}*x{']' * 60}"
    with pytest.raises(InvalidYaml, match="line 2: it is nested more than 100 deep"):
        read_document(text, "a", OPERATOR)


@pytest.mark.parametrize("mark", ["utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-8"])
def test_byte_order_marks_of_windows_are_read(mark: str) -> None:
    text = "a: é\nb: [1]\n"
    given = ("\ufeff" + text if mark in ("utf-16-le", "utf-16-be") else text).encode(mark)
    assert read_document(given, "a") == {"a": "é", "b": [1]}


def test_json_is_read_where_yaml_has_no_such_text() -> None:
    value = {"name": "\U0001f600", "k" * 2000: "a\u0001", "path": "a/b"}
    text = json.dumps(value).replace("/", "\\/")
    assert read_document(text, "a") == value
    for bad in ('{"a": "\\ud83d\\ude00", "b": NaN}', '["\\ud83d\\ude00", {}' + "[" * 200):
        with pytest.raises(InvalidYaml, match="^a: line 1: it is not YAML"):
            read_document(bad, "a")


@pytest.mark.parametrize("text", ["a: !!binary gA==", "a: !!binary x", "a: !!timestamp 2026-01-31"])
def test_a_tag_that_loses_its_value_is_refused(text: str) -> None:
    with pytest.raises(InvalidYaml, match="a: line 1: a scalar with the tag !!"):
        read_document(text, "a", OPERATOR)
    assert read_document("!!binary aGFsbG8=", "a", OPERATOR) == "hallo"


def test_documents_without_content_do_not_count() -> None:
    assert read_documents("---\n# a\n---\na: 1\n---\n...\n", "a") == [{"a": 1}]
    assert read_documents("", "a") == []
    assert read_document("# only a comment", "a") is None
    assert read_documents("a\n---\nb\n--- {c: 1}", "a", OPERATOR) == ["a", "b", {"c": 1}]


HOSTILE = (
    "<<: ",
    "%TAG ",
    "\\u",
    "\r",
    "\ufeff",
    "\ud800",
    "\x00",
    "@",
    "1:1:1.5",
    "!!binary ",
    "9",
)
PIECES = st.sampled_from((*yaml_corpus.PIECES, *yaml_corpus.SCALARS[:40], *HOSTILE))
TEXTS = st.one_of(st.lists(PIECES, max_size=12).map("".join), st.text(max_size=40))
JSON_TYPES = (dict, list, str, int, float, bool, type(None))


def holds_only_json(value: t.Any) -> bool:
    json.dumps(value, allow_nan=False).encode("ascii")
    return isinstance(value, JSON_TYPES)


@pytest.mark.parametrize("limits", [TENANT, OPERATOR])
@examples(300)
@given(TEXTS)
def test_any_text_gives_values_of_json_or_the_one_error(limits: Limits, text: str) -> None:
    for given_text in (text, text.encode("utf-8", "surrogatepass")):
        try:
            assert all(map(holds_only_json, read_documents(given_text, "a", limits)))
        except InvalidYaml as error:
            assert error.field == "a" and "\n" not in str(error)


@examples(200)
@given(TEXTS)
def test_the_parser_in_python_gives_the_same_error_class(text: str) -> None:
    names = {name: value for name, value in vars(yaml).items() if name != "CLoader"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reader, "yaml", types.SimpleNamespace(**names))
        try:
            assert all(map(holds_only_json, read_documents(text, "a", OPERATOR)))
        except InvalidYaml as error:
            assert error.field == "a"
