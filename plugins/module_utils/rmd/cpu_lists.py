# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Lists of CPUs as RMD writes them: ``["0-3", "8"]``, and ``"1-8,^3-4"``, where ``^`` excludes."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.wattwise.kube.plugins.module_utils.errors import InvalidInput
from ansible_collections.wattwise.kube.plugins.module_utils.texts import shown

_MOST_NAMED = 1 << 17
_TOKEN = re.compile(r"(\^?)(\d{1,6})(?:-(\d{1,6}))?")


def parse_core_ids(core_ids: t.Sequence[t.Any], where: str = "core_ids") -> frozenset[int]:
    """The CPUs of all lists together; exclusions count in the order in which they stand.

    Stricter than the daemon, which dies of a list without a number. Raises InvalidInput.
    """
    cpus: set[int] = set()
    named = 0
    for item in core_ids:
        for token in str(item).split(","):
            match = _TOKEN.fullmatch(token.strip())
            if match is None:
                raise InvalidInput(
                    f"{where}: {shown(item)} is not a list of CPUs; write it like 3, 0-3 or 0-7,^4"
                )
            first, last = int(match.group(2)), int(match.group(3) or match.group(2))
            if last < first:
                raise InvalidInput(f"{where}: the range {token!r} ends before it begins")
            named += last - first + 1
            if named > _MOST_NAMED:
                raise InvalidInput(f"{where}: names CPUs far more often than any machine has them")
            if match.group(1):
                cpus.difference_update(range(first, last + 1))
            else:
                cpus.update(range(first, last + 1))
    return frozenset(cpus)


def cpus_of_hex_mask(text: str) -> frozenset[int] | None:
    """The CPUs of a mask like ``6`` or ``20000,00000000`` (32 bits a group); None if it is none."""
    groups = text.split(",")
    if not all(re.fullmatch(r"[0-9a-f]{1,8}", group) for group in groups):
        return None
    bits = int("".join(group.zfill(8) for group in groups), 16)
    return frozenset(number for number in range(bits.bit_length()) if bits >> number & 1)
