# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Odd values in otherwise good objects and answers, for tests of boundaries.

A test makes an example from each seed (``support.examples``): good objects and one spoilt object.
Its oracle is the result of the good objects without the spoilt one. ``bounded`` fails an example
that takes absurd time or memory.
"""

from __future__ import annotations

import contextlib
import copy
import random
import resource
import signal
import typing as t

Json = t.Any

EXAMPLE_SECONDS = 10
EXAMPLE_BYTES = 1 << 30

TEXTS = [
    "",
    " ",
    "abc",
    "nan",
    "NaN",
    "inf",
    "-Infinity",
    "1e999999999",
    "1e-999999999",
    "-1",
    "-0",
    "0x10",
    "1_000",
    "9" * 5000,
    "0." + "0" * 5000 + "1",
    "٣",
    "１２Gi",
    "१",
    "9223372036854775808",
    "9223372036854775807",
    "16Ei",
    "8Ei",
    "1n",
    "\ud800",
    "a\x00b",
    "a\r\nb: c",
    "\x1b[2J",
    "\u202eevil",
    "e\u0301" * 30,
    "x" * 40_000,
    "-" * 40_000,
    "1" * 40_000,
    "a" * 254,
    "A/B/C",
    "/",
    "..",
    "../../etc/passwd",
    "${HOME}",
    "{{ lookup('pipe', 'id') }}",
    "{{ 1/0 }}",
    "-oProxyCommand=id",
    "true",
    "null",
    "9999-12-31T23:59:59.999999999-12:00",
    "0001-01-01T00:00:00+14:00",
    "2026-13-41T25:61:61Z",
    "99999999h",
    "https://[::1",
    "https://a@b@c/\\d?e#f",
    "<script>alert(1)</script>",
    "0-65535,1-65535",
    "0-99999999999",
]
NUMBERS: list[int | float] = [
    *(0, 1, -1, 2**31 - 1, 2**31, 2**53 + 1, 2**60, 2**63 - 1, 2**63, -(2**63) - 1, 10**30),
    *(0.1, -0.0, 1e-320, 1e308, -1e308),
]
# API servers and our documents never carry these.
NOT_CARRIED: list[int | float] = [10**400, float("nan"), float("inf"), float("-inf")]


def deep_json(depth: int) -> Json:
    """Nested lists and mappings."""
    value: Json = 1
    for level in range(depth):
        value = [value] if level % 2 else {"a": value}
    return value


def odd_value(source: random.Random, *, finite: bool = True) -> Json:
    """A value of any type and size; with ``finite``, one that JSON can carry."""
    kind = source.randrange(8)
    if kind < 4:
        return source.choice(TEXTS)
    if kind == 4:
        return source.choice(NUMBERS if finite else [*NUMBERS, *NOT_CARRIED])
    if kind == 5:
        return source.choice([None, True, False, [], {}, [None], [[]], {"": None}, [{}]])
    if kind == 6:
        return source.choice([[1] * 5000, {str(key): key for key in range(5000)}, deep_json(50)])
    return deep_json(source.choice([3, 90, 400]))


def places(value: Json, path: tuple[t.Any, ...] = ()) -> list[tuple[t.Any, ...]]:
    """Paths of all members and items of a value."""
    items: t.Iterable[tuple[t.Any, Json]] = ()
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    found = []
    for key, item in items:
        found += [(*path, key), *places(item, (*path, key))]
    return found


def spoilt(
    source: random.Random,
    good: Json,
    keep: t.Collection[tuple[t.Any, ...]] = (),
    *,
    finite: bool = True,
) -> Json:
    """A copy of a good value with one to three odd places; the paths in ``keep`` are preserved.

    A place gets an odd value, loses its value, or gets an unknown neighbour.
    """
    result = copy.deepcopy(good)
    for _change in range(source.choice([1, 1, 1, 2, 3])):
        found = [path for path in places(result) if not _holds(path, keep)]
        if not found:
            break
        *parents, last = source.choice(found)
        parent = result
        for key in parents:
            parent = parent[key]
        way = source.randrange(10)
        if way == 0:
            del parent[last]
        elif way == 1 and isinstance(parent, dict):
            parent[source.choice(["unknown", "\ud800", "x" * 300])] = odd_value(
                source, finite=finite
            )
        else:
            parent[last] = odd_value(source, finite=finite)
    return result


def _holds(path: tuple[t.Any, ...], keep: t.Collection[tuple[t.Any, ...]]) -> bool:
    """Whether a change at the path would change a preserved place."""
    return any(kept[: len(path)] == path or path[: len(kept)] == kept for kept in keep)


@contextlib.contextmanager
def bounded(seconds: int = EXAMPLE_SECONDS, more_bytes: int = EXAMPLE_BYTES) -> t.Iterator[None]:
    """Fail if the block exceeds this time or lets the process grow by more than this memory."""

    def give_up(_number: int, _frame: t.Any) -> t.NoReturn:
        raise AssertionError(f"the example took more than {seconds} s")

    used = _address_space()
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used + more_bytes, hard))
    former = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, former)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def _address_space() -> int:
    with open("/proc/self/statm", encoding="ascii") as file:  # noqa: PTH123 - no file, but a view
        return int(file.read().split()[0]) * resource.getpagesize()
