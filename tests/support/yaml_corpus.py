# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Texts that Go read once: scalars in every place, structures, and mixtures by a fixed seed."""

from __future__ import annotations

import json
import random
import sys
import typing as t

# fmt: off
SCALARS = (
    *"yes on y Y n no off NO Off true TRUE tRUE false ~ null Null nULL = << - + . @ ` 1,000".split(),
    *".5 .5_0 .5__0 .5_ ._5 .5e3 .5e .5e3_0 -.5 +.5 .inf -.inf +.INF .iNF .nan Infinity NaN".split(),
    *"0 00 7 010 0o10 0O10 0o8 08 09.5 0b11 0B11 -0b11 +0b11 0b12 0b 0x1F 0X1f -0x1F 0x 0x_".split(),
    *"1_000 1__0 _1 1_ 0_8 0o_7 0x_f_ +_1 12:30 12:30:45 1:1:1.5 52:54:00:12:34:56 1e3 1E3".split(),
    *"1.e3 1. 1.0 1.10 1e999 -1e999 1e-999 1e20 1e21 123456789012345678901 -0 -0.0 +1 0.1".split(),
    *"9223372036854775807 9223372036854775808 18446744073709551615 18446744073709551616".split(),
    *"-9223372036854775808 -9223372036854775809 +18446744073709551615 100000000000000000000.5".split(),
    *"2026-03-01 2024-13-45 2001-12-14T21:59:43Z 1.7976931348623157e308 5e-324 1e-7 0.0000001".split(),
    *"0x1.8p1 1f 1K 1Ei 10.0.0.0/24 1.2.3 v1 a=b !=x =~ 16777217.5 1234567.5 0.00001 1e6".split(),
    "٢",
    "é",
    "9" * 25,
    "9" * 400,
    "0." + "0" * 400 + "1",
    "0x" + "f" * 17,
    "0" * 30 + "7",
    "0b" + "1" * 64,
    "0b" + "1" * 65,
    "-0b1" + "0" * 63,
)
PLACES = ("{}", "a: {}", "- {}", "{{a: {}}}", "[{}]", "{}: 1", "{{{}: 1}}", "? {}", "a: '{}'")
TAGS = ("!!str", "!!int", "!!float", "!!bool", "!!null", "!!map", "!x", "!")
STRUCTURES = (
    *("", " ", "\n", "#", "# a\n", "---", "---\n", "...", "--- a", "--- |\n a\n", "--- {a: 1}"),
    *("a", "a b", "a\n b", "a\n\n b", "'a'", "'a''b'", '"a"', '"a\\n\\x41\\u00e9\\U0001F600"'),
    *('"\\0"', '"\\e\\_\\N\\L\\P\\/"', '"\\ud83d\\ude00"', '"\\ud800"', '"\\UFFFFFFFF"', '"\\q"'),
    *('"a\n  b"', '"a\\\n  b"', "'a\n\n  b'", '"', "'", '"a', "|\n a\n b\n", "|-\n a\n", "|+\n a\n\n"),
    *(">\n a\n b\n", ">-\n a\n\n b\n", ">2\n   a\n", "|9\n a", "|0\n a", "|x\n a", "a: |\n b\nc: 1"),
    *("a: >\n  b\n   c\n  d\n", "a: |\n\tb", "a:\n\t- b", "a:\tb", "a: b\t", "a: b\t# c", "[\ta\t]"),
    *("a: 1\nb: 2", "a: 1\na: 2", "a: 1\n'a': 2", "a:\nb:", "a: b: c", "a:b", "a: 'b' c", "a : b"),
    *("- a\n- b", "-a", "- - a\n  - b", "-\n- b", "a:\n- b\n- c", "a:\n  - b\n - c", "- a\nb: c"),
    *("- a: 1\n  b: 2\n- c", "  a: 1\n b: 2", "a: 1\n  b: 2", "a:\n    b: 1\n  c: 2", "? a\n: b"),
    *("? [a]\n: b", "[a]: b", "{a: 1}: b", "? {a: 1}", "? a\n? b", ": a", "- : a", "{: a}", "{? a}"),
    *("[]", "{}", "[a, b]", "[a, b,]", "[a,, b]", "[,]", "[a b]", "[a: b]", "[a: b, c]", "[a", "a]"),
    *("{a: 1, b: 2}", "{a: 1, b: 2,}", "{a, b}", "{a: }", "{a}", "{a:1}", '{"a":1}', "{'a':1}", "{"),
    *("{a: [b, {c: d}]}", "{a: {b: c}", "[a, b\n]", "[a,\nb]", "a: [\nb\n]", "{a: b\n}", "a: {\n}"),
    *("{a: b#c}", "{a: b #c\n}", "a: #b", "a: b #c", "a#b: c", "#a: b", "a: '#b'", "a: %b", "%a"),
    *("a: @b", "a: `b", "a: &", "a: *", "a: !", "a: ?b", "a: -b", "a: - b", "a: ? b", "a: :b"),
    *("a: ://b", "a: http://b:80/c", "a: [http://b]", "a: {b: http://c}", "a: b,c", "a: [b,c]"),
    *("a: &x 1\nb: *x", "a: &x [1]\nb: *x\nc: *x", "a: *x", "a: &x [*x]", "a: &x 1\nb: &x 2\nc: *x"),
    *("&x 5: a\nb: *x", "&x a: b\n*x : c", "- &x [1]\n- {*x : 1}", "&x a", "a: &x\nb: *x", "- &x\n- *x"),
    *("a: &x {b: 1}\nc:\n  <<: *x\n  d: 2", "a: &x {b: 1}\nc:\n  b: 2\n  <<: *x", "<<: {a: 1}"),
    *("a: &x {b: 1}\nc:\n  <<: *x\n  b: 2", "<<: [{a: 1}, {a: 2, b: 3}]", "<<: 1", "<<: [1]", "<<:"),
    *("- &x [{a: 1}]\n- {<<: *x}", "'<<': {a: 1}", "!!merge <<: {a: 1}", "a: <<", "{<<: {a: 1}, a: 2}"),
    *("!!map {a: 1}", "!!seq [a]", "!!str [a]", "!!int {a: 1}", "!!null [a]", "!!set {a}", "!x [a]"),
    *("!!int ''", "!!float ''", "!!bool ''", "!!null ''", "!!str", "!!int", "!!bool", "!!float"),
    *("!!binary aGFsbG8=", "!!binary 'aGFs bG8='", "!!binary |\n aGFs\n bG8=\n", "!!binary a", "!!omap [a]"),
    *("!<tag:yaml.org,2002:int> '5'", "%TAG !e! tag:yaml.org,2002:\n---\n!e!int '5'", "!e!int '5'"),
    *("%YAML 1.1\n---\na", "%YAML 1.2\n---\na", "%YAML 2.0\n---\na", "%YAML 1.1\na", "%FOO\n---\na"),
    *("\ufeffa: 1", "\ufeff", "a: \ufeff", "a: b\ufeffc", "\x00", "a: \x00", "a: \x07", "a: \x7f", "a: \x1b"),
    *("a: \x85b", "a: \u2028b", "a\u2029: b", "a: \ufffe", "a: \U0001f600", "a: \xa0b", "a:\r\n  b\r\n"),
    *("a: 1\r\nb: 2\r\n", "a: 1\rb: 2", "a: |\r\n  b\r\n  c\r\n", '"a\r\n b"', "a: 1\n---", "a: 1\n..."),
    "{" + "a" * 1025 + ": 1}",
    "a" * 1025 + ": 1",
    "'" + "a" * 1030 + "': 1",
    "a:" + " " * 1100 + "1",
    "[" * 50 + "]" * 50,
    "- " * 50 + "a",
    "? " * 50 + "a",
    "{a: " * 50 + "}" * 50,
    "\n".join(" " * level + "a:" for level in range(50)),
)
PIECES = (
    *("a", "b", "k", "1", "x y", "'q'", '"d"', "&n ", "*n", "!!str ", "!t ", "[", "]", "{", "}", ","),
    *(": ", ":", "- ", "-", "? ", "\n", "\n  ", "\n    ", "\t", " ", "# c\n", "|\n", ">-\n", "---\n"),
    *("\r\n", "\x85", "é", "=", "~", "..", "://", "a: b", "- a\n- b\n", "k: v\n", "\n  k: v", "%", "''"),
    *("<<: *n", "&n {a: 1}", '"x":1', "null", "[a: b]", "{a: , b}", "a#b", "a #b", "`", "\\", "0x1"),
)
# fmt: on
MIXTURES = 2500
SEED = 26


def texts() -> t.Iterator[str]:
    for scalar in SCALARS:
        yield from (place.format(scalar) for place in PLACES)
        for tag in TAGS:
            yield from (f"a: {tag} {scalar}", f"a: {tag} '{scalar}'")
    yield from STRUCTURES
    chance = random.Random(SEED)
    for _number in range(MIXTURES):
        yield "".join(chance.choice(PIECES) for _piece in range(chance.randint(2, 9)))


if __name__ == "__main__":
    json.dump(list(dict.fromkeys(texts())), sys.stdout)
