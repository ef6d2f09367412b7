# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The fixed ports of ansible-operator, checked once before the tests that start it."""

from __future__ import annotations

import typing as t

import pytest

from lab.operator.container import foreign_program

_FILES = (
    *("test_operator.py", "test_operator_demo.py", "test_operator_robustness.py"),
    "test_sleep_day.py",
)


def require_operator_ports(tests: t.Iterable[str]) -> None:
    """End the session with one sentence if a test needs a port that another program has.

    ``tests`` are ids. Raises UsageError.
    """
    needs = any(f"integration/{name}::" in test for test in tests for name in _FILES)
    problem = foreign_program() if needs else ""
    if problem:
        raise pytest.UsageError(f"tests of the operator cannot start: {problem}")
