# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Attributes of devices in sysfs: files with one value each."""

from __future__ import annotations

import re

from ...base.fields.lenient import text
from ..facts import MAX_TEXT_LENGTH
from .host_files import HostFiles

MAX_COUNT = 2**64 - 1
_COUNT = re.compile(r"[0-9]{1,24}", re.ASCII)
# Kepler reads this many bytes of a sensor.
_MAX_COUNT_LENGTH = 128


def word(files: HostFiles, path: str) -> tuple[str, str]:
    """The first line of a file, and the problem with it; one of the two is empty."""
    try:
        value = text(files.line(path), MAX_TEXT_LENGTH)
    except OSError as error:
        return "", _reason(error)
    return value, "" if value else "the file is empty"


def count(files: HostFiles, path: str) -> tuple[int | None, str]:
    """The whole number of a file, and the problem without one: as Kepler, of 64 bits, unsigned."""
    try:
        value = files.text(path, _MAX_COUNT_LENGTH).strip()
    except OSError as error:
        return None, _reason(error)
    if not value:
        return None, "the file is empty"
    if not _COUNT.fullmatch(value) or int(value) > MAX_COUNT:
        negative = value.startswith("-") and _COUNT.fullmatch(value[1:])
        return None, f"it reads {value}" if negative else "the file holds no number of 64 bits"
    return int(value), ""


def _reason(error: OSError) -> str:
    return text((error.strerror or type(error).__name__).lower(), MAX_TEXT_LENGTH)
