# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Selectors that take absurd time or memory are refused or end; other claims get their devices."""

from __future__ import annotations

import random
import typing as t

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import InvalidInput
from ansible_collections.wattwise.kube.plugins.module_utils.cel.selector import (
    MAXIMAL_COST,
    Compiler,
    Selector,
    SelectorError,
)
from ansible_collections.wattwise.kube.plugins.module_utils.devices.allocation import allocate
from support import odd_values
from support.device_objects import dra_class, dra_device, exactly, resource_claim, resource_slice
from support.examples import each_seed

TEXT = "x" * 64
MAX_DEVICE = {
    "device.driver": "d" * 63,
    "device.attributes": {"a": {f"s{index}": TEXT for index in range(31)} | {"l": [TEXT] * 48}},
    "device.capacity": {"a": {"memory": {"kubernetes.Quantity": "1073741824"}}},
    "device.allowMultipleAllocations": True,
}
GOOD = [
    resource_slice("node-1", [dra_device(f"gpu-{index}") for index in range(4)]),
    dra_class("gpu", 'device.driver == "gpu.example.com"'),
    resource_claim("first", exactly("r", "gpu")),
    resource_claim("second", exactly("r", "gpu", count=2)),
]


@pytest.fixture(scope="module", autouse=True)
def _library() -> None:
    """Load it before an example is measured."""
    Compiler("dra").compile("true", "here")


def binds(first: str, step: str, count: int, end: str) -> str:
    """``count`` variables, each built from the previous one, which ``step`` and ``end`` call V."""
    steps = [first] + [step.replace("V", f"v{index}") for index in range(count - 1)]
    opened = "".join(f"cel.bind(v{index}, {one}, " for index, one in enumerate(steps))
    return opened + end.replace("V", f"v{count - 1}") + ")" * count


def loops(count: int, end: str, items: int = 10) -> str:
    listed = f"[{','.join(map(str, range(items)))}]"
    return "".join(f"{listed}.map(v{index}, " for index in range(count)) + end + ")" * count


EXPLOSIVE = {
    "a doubled text": binds('"aaaaaaaaaa"', "V + V", 24, "size(V) > 0"),
    "a doubled list": binds('["a"]', "V + V", 24, "size(V) > 0"),
    "a list of a list": binds('"a"', "[V, V]", 24, "V == V"),
    "the type of a map": binds('"a"', "{V: V}", 20, "true"),
    "the type of a map, in few letters": binds('"a"', "{V:V}", 18, "V == V"),
    "copies of a tree": "optional.of(1)" + ".optMap(a, a)" * 20 + ".hasValue()",
    "nested loops": f"{loops(6, '1')}.size() == 0",
    "lists that are copied": f'"{"a" * 9000}".split("").filter(x, true).size() == 1',
    "lists of lists": f'"{"a" * 4000}".split("").map(x, "{"b" * 4000}").join("").size() == 1',
    "a replaced text": binds('"aaaaaaaaaa"', 'V.replace("", V)', 7, 'V == ""'),
    "a joined text": binds('"aaaaaaaaaa"', "[V, V, V, V, V, V].join(V)", 9, 'V == ""'),
    "a quoted text": binds('"\\n\\n\\n"', "strings.quote(V)", 25, 'V == ""'),
    "bytes": binds("b'ab'", "bytes(string(V) + string(V))", 20, "size(V) == 1"),
    "a regular expression": f'"{"a" * 1000}".matches("{"a{1000}" * 1000}")',
    "a search": f'"{"a" * 5000}".contains("{"a" * 4000}b")',
}


@pytest.mark.parametrize("name", EXPLOSIVE)
def test_what_explodes_is_refused(name: str) -> None:
    with odd_values.bounded(5, 1 << 28), pytest.raises(InvalidInput):
        Compiler("dra").compile(EXPLOSIVE[name], "here")


@pytest.mark.parametrize(
    "source",
    [
        'device.attributes["a"].l.exists(x, x.startsWith("a"))',
        'device.attributes["a"].l.filter(x, x.startsWith("a")).size() > 0',
        'device.attributes["a"].s1.matches("^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{12}$")',
        'cel.bind(a, device.attributes["a"], a.s1 == "b" && a.s2 == "c" || a.s3 in ["d", "e"])',
        'device.capacity["a"].memory.compareTo(quantity("40Gi").add(quantity("1Gi"))) >= 0',
        'device.attributes["a"].s1.split("").exists(x, x == "-")',
        'device.attributes["a"].?s9.orValue("").lowerAscii().contains("h100")',
        'device.attributes["a"].?s9.optMap(x, x + "b").orValue("") == "ab"',
        "[0, 1, 2, 3].all(i, [0, 1, 2, 3].exists(j, i == j))",
    ],
)
def test_what_people_write_is_evaluated(source: str) -> None:
    selector = Compiler("dra").compile(source, "here")
    assert isinstance(selector.evaluate(MAX_DEVICE), bool)


def test_an_amount_without_end_is_refused_before_any_number_is_built() -> None:
    for text in ("1e999999999", "1e-999999999", "9" * 5000):
        selector = Compiler("dra").compile(f'quantity("{text}").isInteger()', "here")
        with odd_values.bounded(1, 1 << 28):
            assert isinstance(selector.evaluate(MAX_DEVICE), SelectorError)


def test_a_selector_is_not_evaluated_for_devices_without_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from ansible_collections.wattwise.kube.plugins.module_utils.cel import selector as selectors

    selector = Compiler("dra").compile('device.driver == "a"', "here")
    monkeypatch.setattr(selectors, "MAXIMAL_COST_OF_ALL", 3 * selector.cost)
    devices = [{**MAX_DEVICE, "device.driver": f"a{number}"} for number in range(5)]
    answers = selectors.Evaluations(devices).of(selector)
    assert answers[:3] == [False] * 3
    assert all("too many steps" in str(answer) for answer in answers[3:])


class Generator:
    """Random expressions with operations that make values large."""

    def __init__(self, seed: int) -> None:
        self._source = random.Random(seed)
        self._variables: list[str] = []

    def selector(self) -> str:
        kind = self._source.randrange(12)
        if kind == 0:
            return str(self._source.choice(odd_values.TEXTS))
        if kind == 1:
            return "".join(
                self._source.choice(['"', "(", ")", "[", "]", "{", "}", "a", ".", "!", "-", "'"])
                for _letter in range(self._source.choice([5, 50, 500]))
            )
        texts = (f"size({self.value(4)}) == {self._source.randrange(9)}", self.truth(4))
        return self._source.choice(texts)

    def truth(self, depth: int) -> str:
        one, other = self.value(depth - 1), self.value(depth - 1)
        variable = f"w{depth}"
        with_variable = [*self._variables, variable]
        forms: list[t.Callable[[], str]] = [
            lambda: f"dyn({one}) == dyn({other})",
            lambda: f"dyn({one}) in {self.collection(depth - 1)}",
            lambda: f"{self.text(depth - 1)}.matches({self.text(depth - 1)})",
            lambda: f"{self.text(depth - 1)}.contains({self.text(depth - 1)})",
            lambda: f"quantity({self.text(depth - 1)}).isLessThan(quantity('1'))",
            lambda: f"isSemver({self.text(depth - 1)})",
        ]
        if depth > 0:
            macro = self._source.choice(["all", "exists", "exists_one"])
            inner = Generator(self._source.randrange(1 << 30))
            inner._variables = with_variable
            forms += [
                lambda: f"{self.collection(depth)}.{macro}({variable}, {inner.truth(depth - 1)})",
                lambda: f"cel.bind({variable}, {one}, {inner.truth(depth - 1)})",
            ] * 3
        return self._source.choice(forms)()

    def value(self, depth: int) -> str:
        return self._source.choice([self.text, self.collection])(depth)

    def collection(self, depth: int) -> str:
        if depth <= 0:
            count = self._source.choice([0, 1, 3, 100])
            return self._source.choice(
                [f"[{', '.join(['dyn(1)'] * count)}]", 'device.attributes["a"].l']
            )
        inner = Generator(self._source.randrange(1 << 30))
        inner._variables = [*self._variables, f"i{depth}"]
        forms: list[t.Callable[[], str]] = [
            lambda: f"[{self.value(depth - 1)}, {self.value(depth - 1)}]",
            lambda: f"({self.collection(depth - 1)} + {self.collection(depth - 1)})",
            lambda: f"{self.collection(depth - 1)}.map(i{depth}, {inner.value(depth - 1)})",
            lambda: f"{self.collection(depth - 1)}.filter(i{depth}, {inner.truth(depth - 1)})",
            lambda: f'{self.text(depth - 1)}.split("")',
            lambda: f"{{{self.text(depth - 1)}: {self.value(depth - 1)}}}",
        ]
        return self._source.choice(forms)()

    def text(self, depth: int) -> str:
        if depth <= 0:
            known = [f"string({name})" for name in self._variables]
            letters = self._source.choice(["", "a", "1", "9" * 60, "a" * 400, "(a*)*", "\\n", "%s"])
            return self._source.choice([f'"{letters}"', "device.driver", *known])
        one, other = self.text(depth - 1), self.text(depth - 1)
        forms: list[t.Callable[[], str]] = [
            lambda: f"({one} + {other})",
            lambda: f'{one}.replace("", {other})',
            lambda: f"{self.collection(depth - 1)}.map(j, string(j)).join({one})",
            lambda: f"strings.quote({one})",
            lambda: f'"%s%s".format([{one}, {other}])',
            lambda: f"string(bytes({one}))",
            lambda: f"cel.bind(t{depth}, {one}, t{depth} + t{depth})",
            lambda: f"({one} == {other} ? {one} : {other}.lowerAscii())",
        ]
        return self._source.choice(forms)()


def compiled(source: str) -> Selector | None:
    try:
        return Compiler("dra").compile(source, "here")
    except InvalidInput:
        return None


@each_seed(100)
def test_any_expression_ends_soon_or_is_refused(seed: int) -> None:
    source = Generator(seed).selector()
    with odd_values.bounded(5, 1 << 28):
        selector = compiled(source)
        if selector is not None:
            assert selector.cost <= MAXIMAL_COST
            assert isinstance(selector.evaluate(MAX_DEVICE), (bool, SelectorError))


def test_some_random_expressions_are_evaluated_and_some_refused() -> None:
    found = [compiled(Generator(seed).selector()) for seed in range(100)]
    assert 10 < found.count(None) < 90


@each_seed(15)
def test_other_claims_get_what_they_get_without_a_bad_selector(seed: int) -> None:
    bad = resource_claim("bad", exactly("r", "gpu", Generator(seed).selector()))
    with odd_values.bounded():
        result = allocate({"objects": [*GOOD, bad], "on_error": "report"})
    alone = allocate({"objects": GOOD})
    given = {
        claim["name"]: got
        for claim, got in zip(result["claims"], result["allocations"], strict=True)
    }
    assert [given["first"], given["second"]] == alone["allocations"]
    told = {one["name"] for one in result["refused"]} | given.keys()
    assert told == {"first", "second", "bad"}
