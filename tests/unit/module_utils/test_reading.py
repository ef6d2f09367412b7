# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lists in pieces of any size: every item once, and a defective one leaves out only itself."""

from __future__ import annotations

import gzip
import json
import random
import typing as t

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.base.boundary import Finding
from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import ApiError
from ansible_collections.wattwise.kube.plugins.module_utils.kube import reading
from ansible_collections.wattwise.kube.plugins.module_utils.kube.client import Kube
from support.scripted_api import Asked, Reply, ScriptedApi, in_turn

Json = dict[str, t.Any]


def pieces(data: bytes, size: int) -> t.Iterator[bytes]:
    return iter([data[at : at + size] for at in range(0, len(data), size)])


def read(data: bytes, size: int = 7) -> tuple[list[Json], list[Finding], reading.Listed]:
    items: list[Json] = []
    findings: list[Finding] = []
    listed = reading.read_list(pieces(data, size), items.append, findings.append, {})
    return items, findings, listed


def pod(name: str, **parts: t.Any) -> Json:
    return {"metadata": {"name": name, "namespace": "n"}, **parts}


def in_list(*items: bytes) -> bytes:
    head = b'{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"9"},"items":['
    return head + b",".join(items) + b"]}\n"


TEXTS = ('"', "\\", '\\"', "{[", "}]", "ä", "\U0001f4a1", "\u2028", "<>&", "\x01", "plain " * 30)


def random_value(chance: random.Random, depth: int = 0) -> t.Any:
    kind = chance.randrange(8 if depth < 4 else 6)
    if kind < 3:
        return "".join(chance.choices(TEXTS, k=chance.randrange(6)))
    if kind < 6:
        return chance.choice([0, -7, 2**63 - 1, 1.5, 1e-7, True, False, None, [], {}])
    size = chance.randrange(5)
    if kind == 6:
        return [random_value(chance, depth + 1) for _number in range(size)]
    return {
        "".join(chance.choices(TEXTS, k=2)) + str(number): random_value(chance, depth + 1)
        for number in range(size)
    }


@pytest.mark.parametrize("seed", range(40))
def test_any_list_in_any_pieces_gives_the_items_of_the_whole(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also with the search for brackets, which ordinary items do not need."""
    chance = random.Random(seed)
    items = [pod(f"p{number}", spec=random_value(chance)) for number in range(12)]
    text = json.dumps(
        {"kind": "PodList", "apiVersion": "v1", "items": items, "metadata": {"continue": "c"}},
        ensure_ascii=chance.random() < 0.5,
        indent=chance.choice([None, None, 2]),
    )
    monkeypatch.setattr(reading, "PART_SIZE", chance.choice([16, 40, 300, 100_000]))
    found, findings, listed = read(text.encode(), chance.choice([1, 5, 64, 1000, 100_000]))
    assert found == [{"apiVersion": "v1", "kind": "Pod", **item} for item in items]
    assert (findings, listed.number, listed.text("continue")) == ([], 12, "c")


DEEP = b'{"metadata":{"name":"bad","namespace":"n"},"spec":' + b"[" * 900 + b"]" * 900 + b"}"


@pytest.mark.parametrize(
    ("bad", "subject", "problem"),
    [
        (DEEP, "Pod n/bad", "nested more than 250 deep"),
        (DEEP.replace(b"[" * 900, b"[" * 90_000).replace(b"]" * 900, b"]" * 90_000), "", "nested"),
        (b'{"metadata":{"name":"bad"},"spec":' + b"9" * 5000 + b"}", "Pod bad", "5000 digits"),
        (b'{"metadata":{"name":"bad"},"spec":1e999}', "Pod bad", "not finite"),
        (b'{"metadata":{"name":"bad"},"spec":NaN}', "Pod bad", "NaN"),
        (b'{"metadata":{"name":"bad"},"s":[' + b"{}," * 450_000 + b"1]}", "Pod bad", "members"),
        (b'{"metadata":{"name":"bad"},"s":"' + b"x" * 11_000_000 + b'"}', "", "the limit is"),
        (b'{"metadata":{"name":"bad"},"spec":}', "", "not JSON"),
        (b"null", "", "no object"),
        (b"[1]", "", "no object"),
        (b'"text"', "", "no object"),
    ],
)
def test_a_defective_item_is_left_out_with_its_name(bad: bytes, subject: str, problem: str) -> None:
    good = json.dumps(pod("good")).encode()
    found, findings, _listed = read(in_list(good, bad, good), 100_000)
    assert [item["metadata"]["name"] for item in found] == ["good", "good"]
    [finding] = findings
    assert problem in finding.problem
    assert str(finding.subject) == (subject or "Pod items[1]")


@pytest.mark.parametrize(
    ("data", "number"),
    [
        (b'{"kind":"PodList","items":null}', 0),
        (b'{"items":[],"kind":"PodList"}', 0),
        (b'{"kind":"PodList"}', 0),
        (b' \n{ "metadata" : { } , "kind" : "PodList" , "items" : [ {} , {} ] } \n', 2),
    ],
)
def test_a_list_may_have_its_members_in_any_order(data: bytes, number: int) -> None:
    for size in (1, 3, 100):
        found, findings, listed = read(data, size)
        assert (len(found), findings, listed.number) == (number, [], number)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"<html>",
        b"[]",
        b'{"items":{}}',
        b'{"items":"a"}',
        b'{"items":[{}',
        b'{"items":[{"a":"',
        b'{"items":[{}]',
        b'{"items":[]} {}',
        b'{"items":[]} x',
        b'{"a" 1}',
        b'{"items":[{"a":"\xff"}]}',
        b'{"metadata":{"a":"' + b"x" * 2_000_000 + b'"}}',
    ],
)
def test_an_answer_that_is_no_list_or_is_cut_off_is_an_error(data: bytes) -> None:
    for size in (1, 100_000):
        if len(data) < 1000 or size > 1:
            with pytest.raises((reading.Unreadable, reading.Unusable)):
                read(data, size)


def reply(*items: Json, kind_is_last: bool = False, token: str = "") -> Reply:
    kind = {"kind": "PodList", "apiVersion": "x/v1"}
    metadata = {"metadata": {"continue": token, "resourceVersion": "4"}}
    rest = {**metadata, "items": list(items)}
    return Reply({**rest, **kind} if kind_is_last else {**kind, **rest})


def test_items_get_a_kind_that_the_list_says_after_them() -> None:
    with ScriptedApi(lambda _asked: reply(pod("a"), kind_is_last=True)) as api:
        [found] = Kube.connect({"host": api.url}).list("/apis/x/v1/pods")
    assert (found["kind"], found["apiVersion"]) == ("Pod", "x/v1")


def test_the_size_of_objects_decides_how_many_are_asked_for() -> None:
    """Ordinary clusters need one more request than with the longest pages from the beginning."""

    def limits(size: int, total: int) -> list[int]:
        asked_for: list[int] = []

        def script(asked: Asked) -> Reply:
            query = dict(part.split("=") for part in asked.path.partition("?")[2].split("&"))
            limit, first = int(query["limit"]), int(query.get("continue", 0))
            asked_for.append(limit)
            count = min(limit, total - first)
            token = str(first + count) if first + count < total else ""
            return reply(*[pod("p", text="x" * size)] * count, token=token)

        with ScriptedApi(script) as api:
            found = Kube.connect({"host": api.url}).list("/p", trim=lambda _item: {})
            assert len(found) == total
        return asked_for

    assert limits(4_000, 1_600) == [50, 500, 500, 500, 500]
    heavy = limits(1_400_000, 90)
    assert heavy[0] == 50 and set(heavy[1:]) == {11}


def test_a_page_that_is_cut_off_is_read_again_and_no_item_comes_twice() -> None:
    whole = json.dumps({"kind": "PodList", "items": [pod("a"), pod("b")]}).encode()
    script = in_turn(Reply(whole[:-20]), Reply(whole))
    with ScriptedApi(script) as api:
        kube = Kube.connect({"host": api.url}, sleep=lambda _seconds: None)
        assert [one["metadata"]["name"] for one in kube.list("/api/v1/pods")] == ["a", "b"]


@pytest.mark.parametrize("is_cut", [False, True])
def test_a_compressed_answer_is_read_in_bounded_parts(is_cut: bool) -> None:
    text = in_list(json.dumps(pod("a", text="x" * 3_000_000)).encode())
    data = gzip.compress(text)[: -20 if is_cut else None]

    class Response:
        headers: t.ClassVar = {"Content-Encoding": "gzip"}

    def longest() -> int:
        return max(map(len, reading.plain_parts(Response, pieces(data, 100_000))))

    if is_cut:
        with pytest.raises(reading.Unreadable, match="ends early"):
            longest()
    else:
        assert longest() <= reading.PART_SIZE


def test_without_a_receiver_of_findings_an_unusable_item_is_an_error() -> None:
    with ScriptedApi(lambda _asked: Reply(in_list(DEEP))) as api:
        kube = Kube.connect({"host": api.url}, sleep=lambda _seconds: None)
        with pytest.raises(ApiError, match="has an unusable item: Pod n/bad: is nested"):
            kube.list("/api/v1/pods")
        assert len(api.asked) == 1
