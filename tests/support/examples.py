# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Generated examples: their number, their seeds, and the mark of the tests that run them.

A test states its number of examples, which are the same in every run. Environment variables scale
that number and change the first seed: the gate `unit` measures coverage with a few, `generated`
tries all without coverage, and `make test-deep` many times more from a fresh seed.
"""

from __future__ import annotations

import os
import typing as t
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, Phase, seed, settings

FACTOR = "WATTWISE_EXAMPLES_FACTOR"
FIRST_SEED = "WATTWISE_EXAMPLES_SEED"

Test = t.TypeVar("Test", bound=Callable[..., object])

# For tests with their own loop of examples; `each_seed` and property tests have it.
generated = pytest.mark.generated


def scaled(count: int) -> int:
    """The number of examples in this run, for a default of `count`."""
    return max(1, round(count * float(os.environ.get(FACTOR, "1"))))


def first_seed() -> int | None:
    """The fresh seed of this run; None if it repeats the examples of every run."""
    given = os.environ.get(FIRST_SEED)
    return int(given) if given else None


def seeds(count: int) -> list[int]:
    """Seeds of the examples, for a default of `count`."""
    first = first_seed() or 0
    return [first + index for index in range(scaled(count))]


def each_seed(count: int) -> Callable[[Test], Test]:
    """Parametrise a test by its argument `seed`."""

    def decorate(test: Test) -> Test:
        parametrized = pytest.mark.parametrize("seed", seeds(count))(test)
        return t.cast("Test", generated(parametrized))

    return decorate


def examples(count: int, *, shrinks: bool = True) -> settings:
    """Settings of a property test; without ``shrinks`` for slow examples."""
    phases = [Phase.explicit, Phase.generate]
    return settings(
        max_examples=scaled(count),
        derandomize=first_seed() is None,
        database=None,
        deadline=None,
        phases=tuple(Phase) if shrinks else phases,
        suppress_health_check=list(HealthCheck),
    )


def of_part(part: int) -> Callable[[Test], Test]:
    """Give a part of the examples a seed of its own; no effect if every run tries the same ones."""
    first = first_seed()
    return (lambda test: test) if first is None else seed(first + part)


def are_many(tried: t.Sized) -> bool:
    """Whether there are enough examples for a statement about frequency."""
    return len(tried) >= 20


def nearly_all(found: int, total: int, share: float = 0.99) -> bool:
    """Whether all were found, except for one or for this share of many."""
    return total - found <= max(1.0, (1 - share) * total)


def register_profile() -> None:
    """Settings of property tests without their own."""
    settings.register_profile(
        "wattwise",
        deadline=None,
        derandomize=first_seed() is None,
        database=None,
        max_examples=scaled(100),
    )
    settings.load_profile("wattwise")
