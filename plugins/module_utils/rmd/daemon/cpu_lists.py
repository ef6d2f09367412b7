# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Lists of CPUs in RMD's form: ``["0-3", "8"]``, and ``"1-8,^3-4"``, where ``^`` excludes."""

from __future__ import annotations

import re
import typing as t

from ...base.boundary import InvalidField, shown

_TOKEN = re.compile(r"(\^?)(\d{1,9})(?:-(\d{1,9}))?", re.ASCII)
MAX_CPU = 65_535
_MAX_CPUS_NAMED = 4 * MAX_CPU
# Each CPU separately, with a trailing comma.
_MAX_LIST_LENGTH = 512 * 1024


def parse_core_ids(core_ids: t.Sequence[t.Any], where: str = "core_ids") -> frozenset[int]:
    """The CPUs of all lists together; exclusions count in their order.

    Stricter than the daemon, which crashes on a list without a number. Raises InvalidField.
    """
    if not isinstance(core_ids, (list, tuple)):
        raise InvalidField(where, f"{shown(core_ids)} is not a list; write it like [0-3, 8]")
    texts = [str(item) for item in core_ids if isinstance(item, (str, int))]
    if len(texts) < len(core_ids) or sum(map(len, texts)) > _MAX_LIST_LENGTH:
        raise InvalidField(where, f"{shown(core_ids)} is too long, or holds other than CPUs")
    cpus: set[int] = set()
    named = 0
    for token in (token.strip() for item in texts for token in item.split(",")):
        first, last = _range(token, where)
        named += last - first + 1
        if named > _MAX_CPUS_NAMED:
            raise InvalidField(where, f"{shown(core_ids)} repeats CPUs too often")
        if token.startswith("^"):
            cpus.difference_update(range(first, last + 1))
        else:
            cpus.update(range(first, last + 1))
    return frozenset(cpus)


def _range(token: str, where: str) -> tuple[int, int]:
    match = _TOKEN.fullmatch(token)
    if match is None:
        problem = f"{shown(token)} is not a list of CPUs; write it like 3, 0-3 or 0-7,^4"
        raise InvalidField(where, problem)
    first, last = int(match.group(2)), int(match.group(3) or match.group(2))
    if last < first:
        raise InvalidField(where, f"the range {shown(token)} ends before it begins")
    if last > MAX_CPU:
        raise InvalidField(where, f"there is no CPU {last}; the largest is {MAX_CPU}")
    return first, last
