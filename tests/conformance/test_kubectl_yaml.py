# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""YAML as kubectl reads it: the answers of sigs.k8s.io/yaml 1.6.0 to a corpus.

support/yaml_corpus.py makes the texts, and kubectl_yaml/oracle.go wrote kubectl_yaml/answers.jsonl.
"""

from __future__ import annotations

import json
import types
from pathlib import Path

import pytest
import yaml

from ansible_collections.wattwise.kube.plugins.module_utils.base.yaml_text import reader
from ansible_collections.wattwise.kube.plugins.module_utils.base.yaml_text.reader import (
    OPERATOR,
    InvalidYaml,
    read_document,
)
from support import yaml_corpus

ANSWERS = Path(__file__).with_name("kubectl_yaml") / "answers.jsonl"
# Read although Go's YAML refuses it: the escape is JSON's, and kubectl reads JSON as JSON.
READ = {'"\\e\\_\\N\\L\\P\\/"': "\x1b\xa0\x85\u2028\u2029/"}


def answers() -> list[dict[str, str]]:
    lines = ANSWERS.read_text(encoding="utf-8").split("\n")
    return [json.loads(line) for line in lines if line]


def goes_on(text: str) -> bool:
    """Whether something follows the first document, of which Go takes no notice."""
    is_after = False
    try:
        for event in yaml.parse(text, Loader=yaml.CLoader):
            if is_after and not isinstance(event, yaml.StreamEndEvent):
                return True
            is_after = is_after or isinstance(event, yaml.DocumentEndEvent)
    except yaml.YAMLError:
        return is_after
    return False


def reading(text: str) -> str | None:
    try:
        return json.dumps(read_document(text, "text", OPERATOR), sort_keys=True)
    except InvalidYaml:
        return None


def test_the_answers_are_those_to_the_corpus() -> None:
    assert [answer["text"] for answer in answers()] == list(dict.fromkeys(yaml_corpus.texts()))


def test_every_text_is_read_as_go_reads_it() -> None:
    different, after = [], 0
    for answer in answers():
        text, given = answer["text"], answer.get("json")
        wanted = None if given is None else json.dumps(json.loads(given), sort_keys=True)
        found = reading(text)
        if found == wanted:
            continue
        if wanted is not None and found is None and goes_on(text):
            after += 1  # refused: Go would drop in silence what follows the document
        elif text not in READ:
            different.append((text, wanted, found))
    assert different == []
    assert after < len(answers()) / 10


@pytest.mark.parametrize(("text", "value"), READ.items())
def test_a_text_that_only_json_has_is_read_too(text: str, value: str) -> None:
    assert read_document(text, "text", OPERATOR) == value


def test_without_libyaml_only_tabs_and_unknown_directives_differ(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    texts = [answer["text"] for answer in answers()]
    with_libyaml = [reading(text) for text in texts]
    names = {name: value for name, value in vars(yaml).items() if name != "CLoader"}
    monkeypatch.setattr(reader, "yaml", types.SimpleNamespace(**names))
    different = [
        text for text, one in zip(texts, with_libyaml, strict=True) if reading(text) != one
    ]
    assert [text for text in different if "\t" not in text] == ["%FOO\n---\na"]
