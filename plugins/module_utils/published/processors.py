# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Processor names from firmware, and their generations.

Generations count per maker, so that neighbours are one apart: EPYC by Zen, Xeon from E5 v1 on.
"""

from __future__ import annotations

import functools
import re
import typing as t

_LONGEST_MODEL = 256
_MARKS = re.compile(r"\((?:r|tm|c)\)|[®™]|@.*|\b(?:cpu|processor|\d+-core)\b")
_SEPARATORS = re.compile(r"[^a-z0-9+]+")
_VERSION = re.compile(r"_(v\d)(?=_|$)")
# Firmware and publications write "Xeon Platinum 8480+" and "Xeon 8480+".
_TIER = re.compile(r"^intel_xeon_(?:platinum|gold|silver|bronze)_")

_EPYC = re.compile(r"^amd_epyc_(?P<line>[3-9])\d\w(?P<generation>[1-9])[a-z]*(?:_.*)?$")
_SCALABLE = re.compile(r"^intel_xeon_(?:[a-z]+_)?[3-9](?P<generation>[1-6])\d\d[a-z]*\+?$")
_SIX = re.compile(r"^intel_xeon_6\d{3}[ep]\+?$")
_E_VERSION = re.compile(r"^intel_xeon_e[57]_\d{4}[a-z]*(?:_?v(?P<version>[1-4]))?$")
_ENTRY = re.compile(r"^intel_(?:xeon_)?(?:e3_|e_2)")
_ARM = re.compile(r"^ampere_?(?P<one>one)?")

# Generations of Xeon: E5 v1 is 1, the first Scalable 5, Xeon 6 is 10.
_BEFORE_SCALABLE = 4
_XEON_SIX = 10


class Series(t.NamedTuple):
    """Maker, line and generation; only servers of the same maker and line are similar.

    ``variant`` distinguishes less similar lines of one generation.
    """

    maker: str
    line: str
    generation: int
    variant: str = ""


def processor_name(model: str) -> str:
    """Firmware's name of a model in the table's form: ``intel_xeon_e5_2670v2``."""
    bare = _MARKS.sub(" ", model[:_LONGEST_MODEL].lower())
    return _VERSION.sub(r"\1", _SEPARATORS.sub("_", bare).strip("_"))


def without_tier(name: str) -> str:
    """The name without Platinum, Gold, Silver and Bronze, which are often omitted."""
    return _TIER.sub("intel_xeon_", name)


@functools.lru_cache(maxsize=1024)
def series_of(name: str) -> Series | None:
    """The series of a processor's name; None without one."""
    found = _EPYC.match(name)
    if found:
        return Series("AMD", "EPYC", int(found["generation"]), found["line"])
    if _SIX.match(name):
        return Series("Intel", "Xeon", _XEON_SIX)
    found = _SCALABLE.match(name)
    # Without its tier, a number below 8000 may belong to the years before 2010.
    if found and (_TIER.match(name) or name.startswith("intel_xeon_8")):
        return Series("Intel", "Xeon", _BEFORE_SCALABLE + int(found["generation"]))
    found = _E_VERSION.match(name)
    if found:
        return Series("Intel", "Xeon", int(found["version"] or 1))
    if _ENTRY.match(name):
        return Series("Intel", "Xeon E", 1)
    found = _ARM.match(name)
    return Series("Ampere", "Arm", 2 if found["one"] else 1) if found else None
