# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hostile YAML texts, and a program that reads them and tells what each costs.

``python -m support.yaml_bombs tenant|operator libyaml|python`` writes one line of JSON: seconds of
processor time and the result by name, and the growth of the process in MiB.
"""

from __future__ import annotations

import json
import resource
import sys
import time
import types

import yaml

from ansible_collections.wattwise.kube.plugins.module_utils.base.yaml_text import reader

SIZE = 240_000
LIMITS = {"tenant": reader.TENANT, "operator": reader.OPERATOR}


def repeated(text: str, begin: str = "", end: str = "") -> str:
    return begin + text * (SIZE // len(text)) + end


def laughs(first: str, level: str, levels: int) -> str:
    """Levels of anchors, each ten times the one before."""
    above = (
        f"a{number}: &a{number} {level.format(*[f'*a{number - 1}'] * 10)}"
        for number in range(1, levels)
    )
    return "\n".join((f"a0: &a0 {first}", *above))


LIST = "[" + ",".join(["{}"] * 10) + "]"
MEMBERS = "{{" + ", ".join(f"m{index}: {{}}" for index in range(10)) + "}}"
BOMBS = {
    **{f"open {text!r}": repeated(text) for text in ("[", "{", "[{a: ", "{a: [", "{a: {b: [")},
    **{f"open {text!r}": repeated(text) for text in ("- ", "? ", "- ? ", "? - ", ": ", "- - ? ")},
    **{f"open and {text!r}": repeated("[a, ", end=text) for text in ("]", "}", ": ")},
    "keys in open lists": repeated('["a":1,'),
    "lists": repeated("[],", "[", "]"),
    "mappings": repeated("{},", "[", "]"),
    "short keys": repeated("a: 1\n"),
    "keys": "".join(f"k{number}: 1\n" for number in range(SIZE // 12)),
    "flow keys": "{" + "".join(f"k{number}: 1," for number in range(SIZE // 12)) + "}",
    "candidates for keys": repeated("a:", "[", "]"),
    "indents": "".join(" " * level + "a:\n" for level in range(680)),
    "documents": repeated("---\n"),
    "documents with values": repeated("--- a\n"),
    "plain scalar": repeated("a"),
    "plain lines": repeated("a\n"),
    "quoted lines": repeated("\n a", '"', '"'),
    "open quotation": repeated("\n", '"'),
    "escapes": repeated("\\u0041", '"', '"'),
    "quotation marks": repeated("''", "'", "'"),
    "block scalar": repeated(" a\n", "a: |\n"),
    "empty lines of a block": repeated(" \n", "a: |\n"),
    "folded lines": repeated("\n a", ">\n"),
    "blanks": repeated(" "),
    "line ends": repeated("\n"),
    "carriage returns": repeated("\r"),
    "comments": repeated("#\n"),
    "comment": repeated("#"),
    "tabs": repeated("\t", "a:"),
    "directives": repeated("%A b\n"),
    "tag directives": "".join(f"%TAG !{n}! a\n" for n in range(SIZE // 14)) + "---\na",
    "commas": repeated(","),
    "anchors": "".join(f"- &a{number} x\n" for number in range(SIZE // 14)),
    "aliases": "- &a x\n" + repeated("- *a\n"),
    "aliases of a long text": f"- &a {'x' * 60_000}\n" + "- *a\n" * 40_000,
    "long anchor": "&" + repeated("a") + " b",
    "long tag": "!" + repeated("a") + " b",
    "escaped tag": "!" + repeated("%41") + " b",
    "digits": repeated("1"),
    "hexadecimal digits": "0x" + repeated("f"),
    "fraction": "0." + repeated("1"),
    "exponent": "1e" + repeated("9"),
    "underscores": "1" + repeated("_"),
    "digits of a key": repeated("1") + ": a",
    "base64": "!!binary " + repeated("A"),
    "laughs in lists": laughs(LIST, "[" + ",".join(["{}"] * 10) + "]", 12),
    "laughs in mappings": laughs(LIST, MEMBERS, 12),
    "laughs in merge keys": laughs("{a: 1}", "{{<<: [" + ",".join(["{}"] * 10) + "]}}", 40),
    "laughs in nested merge keys": laughs("{a: 1}", "{{b: {{<<: {}, c: {}}}, d: {}}}", 40),
    "two by two": "\n".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]" for n in range(1, 60)).replace(
        "*a0", "x"
    ),
    "deep aliases": "\n".join(
        ["a0: &a0 " + "[" * 60 + "]" * 60]
        + [f"a{n}: &a{n} {'[' * 30}*a{n - 1}{']' * 30}" for n in range(1, 50)]
    ),
    "itself": "&a [*a, &b {b: *b}]",
    "byte order mark": "\ufeff" + laughs(LIST, "[" + ",".join(["{}"] * 10) + "]", 12),
    "json in json": repeated('{"a":'),
    "json of texts": repeated('"\\ud83d\\ude00",', "[", '""]'),
    "json of lists": repeated('["\\ud800"],', "[", "0]"),
    "surrogates": repeated("\ud800"),
    "null characters": repeated("\x00"),
    "wide characters": repeated("\U0001f600"),
}


def main(limits: str, parser: str) -> None:
    if parser == "python":
        names = {name: value for name, value in vars(yaml).items() if name != "CLoader"}
        vars(reader)["yaml"] = types.SimpleNamespace(**names)
    reader.read_documents("a: [1, {b: c}]", "begin", reader.OPERATOR)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    costs = {}
    for name, text in BOMBS.items():
        begin = time.process_time()
        try:
            reader.read_documents(text, "bomb", LIMITS[limits])
            result = "read"
        except reader.InvalidYaml as error:
            result = str(error)
        costs[name] = (time.process_time() - begin, result)
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    json.dump({"costs": costs, "mebibytes": (after - before) / 1024}, sys.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:])
