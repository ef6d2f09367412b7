# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import random
import typing as t

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.base.boundary import (
    Finding,
    InvalidField,
    Subject,
    guarded,
    shown,
    shown_text,
    subject_of,
    warn_of,
)
from ansible_collections.wattwise.kube.plugins.module_utils.base.context import Context
from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import (
    InvalidInput,
    MissingLibrary,
)
from support.examples import each_seed
from support.odd_values import bounded, odd_value

POD = Subject("Pod", "web-0", "shop")


def raising(error: Exception) -> t.Callable[[], int]:
    def read() -> int:
        raise error

    return read


def test_what_is_read_without_an_exception_is_given() -> None:
    assert guarded(POD, lambda: 7) == 7


def test_an_object_is_named_only_in_a_finding() -> None:
    named: list[Subject] = []

    def name() -> Subject:
        named.append(POD)
        return POD

    assert guarded(name, lambda: 7) == 7
    assert not named
    assert guarded(name, raising(InvalidField("spec", "'x'"))) == Finding(POD, "spec", "'x'")
    assert named == [POD]


def test_the_field_of_an_error_is_the_field_of_its_finding() -> None:
    found = guarded(POD, raising(InvalidField("spec.overhead.cpu", "'x' is not a quantity")))
    assert isinstance(found, Finding)
    assert found.as_dict() == {
        "kind": "Pod",
        "namespace": "shop",
        "name": "web-0",
        "field": "spec.overhead.cpu",
        "problem": "'x' is not a quantity",
    }
    assert str(found) == "Pod shop/web-0: spec.overhead.cpu: 'x' is not a quantity"


@pytest.mark.parametrize(
    "error",
    [
        ValueError("x" * 10_000),
        OverflowError(),
        RecursionError(),
        KeyError("\ud800"),
        AttributeError(),
        ZeroDivisionError(),
        MemoryError(),
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"),
        InvalidInput("line\nline" * 1000),
    ],
)
def test_every_exception_becomes_a_short_printable_finding(error: Exception) -> None:
    found = guarded(POD, raising(error))
    assert isinstance(found, Finding)
    assert str(found).isprintable()
    assert len(str(found)) < 600


def test_a_missing_library_is_nobodys_finding() -> None:
    with pytest.raises(MissingLibrary):
        guarded(POD, raising(MissingLibrary("numpy", "no module")))


@each_seed(50)
def test_every_value_is_shown_on_one_short_line(seed: int) -> None:
    value = odd_value(random.Random(seed), finite=False)
    with bounded():
        for text in (shown(value), shown_text(str(value)[:1000] if value != 10**400 else "")):
            assert text.isprintable()
            assert len(text) < 1200


@each_seed(50)
def test_every_value_has_a_subject(seed: int) -> None:
    source = random.Random(seed)
    obj = source.choice(
        [
            odd_value(source),
            {"metadata": odd_value(source)},
            {"metadata": {"name": odd_value(source)}},
        ]
    )
    subject = subject_of(obj, "Pod", "pods[3]")
    assert subject.name
    assert str(subject).isprintable()
    assert len(str(subject)) < 600


def test_an_object_without_a_name_is_called_by_its_place() -> None:
    assert str(subject_of({"metadata": {"name": ""}}, "Pod", "pods[3]")) == "Pod pods[3]"
    named = {"metadata": {"name": "a", "namespace": "b"}}
    assert str(subject_of(named, "Pod", "pods[3]")) == "Pod b/a"


def test_all_findings_of_a_run_are_one_warning() -> None:
    warnings: list[str] = []
    context = Context(warn=warnings.append)
    warn_of([], context)
    assert not warnings
    warn_of([Finding(POD, "spec.a", "is bad")], context)
    assert warnings.pop() == "Pod shop/web-0: spec.a: is bad; correct this object"
    other = Finding(Subject("Node", "n1"), "status", "is bad")
    warn_of([Finding(POD, "spec.a", "is bad"), Finding(POD, "spec.b", "is bad"), other], context)
    [warning] = warnings
    assert warning.startswith("2 objects cannot be used as they are, the first is Pod shop/web-0")
