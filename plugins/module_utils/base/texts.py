# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Untrusted values and texts for messages and results: printable, short and on one line."""

from __future__ import annotations

import reprlib
import typing as t

_MAX_PROBLEM_LENGTH = 500

_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 80
_SHORT.maxlong = 40
_SHORT.maxlevel = 3


def shown(value: t.Any) -> str:
    """A value for a message: printable, on one line, at most about 80 characters."""
    try:
        return _SHORT.repr(value)
    except Exception:  # noqa: BLE001 - a value that cannot be shown is no reason to fail
        return f"a {type(value).__name__} that cannot be shown"


def shown_text(text: str, longest: int = _MAX_PROBLEM_LENGTH) -> str:
    """A text for a message, without quotation marks: printable, on one line and short."""
    cut = text if len(text) <= longest else f"{text[: longest - 1]}…"
    if cut.isprintable():
        return cut
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in cut)
