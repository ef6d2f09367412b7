# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Processor names from firmware, and their generations by the makers' naming schemes.

Generations count per maker, so that neighbours are one apart: EPYC by Zen, Xeon from E5 v1 on.
"""

from __future__ import annotations

import functools
import re
import typing as t

_MAX_MODEL_LENGTH = 256
_MARKS = re.compile(
    r"^\W*\d+\s*x\s|\((?:r|tm|c)\)|[®™]|@.*|\b\d+(?:\.\d+)?\s*ghz\b|\b\d+[\s-]cores?\b"
    # Lenovo and HPE append cores and power: "Platinum 8380 40C 270W 2.3GHz Processor".
    r"|\b\d{1,3}[cw]\b|\b(?:cpu|processor)\b"
)
_SEPARATORS = re.compile(r"[^a-z0-9+]+")
_VERSION = re.compile(r"_(v\d)(?=_|$)")
# The first E5 and E7 have a 0 where later ones have their version, and Xeon 6 repeats its name.
_NO_VERSION = re.compile(r"^(.*_e[57]_\d{4}[a-z]*)_0$")
_XEON_SIX_TWICE = re.compile(r"^intel_xeon_6_(?=6\d{3})")
_WITHOUT_MAKER = (
    (re.compile(r"^(?:amd_)?epyc_?"), "amd_epyc_"),
    (re.compile(r"^xeon_"), "intel_xeon_"),
)
# Firmware and publications write "Xeon Platinum 8480+" and "Xeon 8480+".
_TIER = re.compile(r"^intel_xeon_(?:platinum|gold|silver|bronze)_")

# Models of some clouds have letters instead of digits: 7V12, 7B13. The last digit is the generation.
_EPYC = re.compile(
    r"^amd_epyc_(?:embedded_)?(?P<line>[3-9])[0-9a-z]{2}(?P<generation>[1-9])[a-z]*(?:_.*)?$"
)
_FIRST_OF_LINE = {"8": 4, "9": 4}
_SIX = re.compile(r"^intel_xeon_6\d{3}(?P<cores>[ep])\+?(?:_?[a-z])?$")
_SCALABLE = re.compile(
    r"^intel_xeon_(?P<tier>(?:platinum|gold|silver|bronze|max)_)?(?P<first>[3-9])(?P<generation>[1-5])"
    r"\d\d[a-z]*\+?$"
)
_WORKSTATION = re.compile(r"^intel_xeon_w\d?_[23](?P<generation>[1-6])\d\d[a-z]*$")
_E_VERSION = re.compile(r"^intel_xeon_e[57]_\d{4}[a-z]*(?:_?v(?P<version>[1-4]))?(?:_.*)?$")
_EDGE = re.compile(r"^intel_xeon_d_[12](?P<generation>[1-9])\d\d[a-z]*$")
_ENTRY = re.compile(r"^intel_(?:xeon_)?(?:e3_|e_2|w_1|63\d\dp$)")
_ARM = re.compile(r"^ampere_?(?P<one>one)?")

# Generations of Xeon: E5 v1 is 1, the first Scalable 5, Xeon 6 is 10.
_BEFORE_SCALABLE = 4
_XEON_SIX = 10
# Xeon D-1500, D-1600 and D-2100, D-1700 and D-2700, D-1800 and D-2800.
_EDGE_GENERATIONS = {"5": 1, "6": 2, "1": 2, "7": 3, "8": 4}

_MAKERS = (
    ("Intel", re.compile(r"intel|xeon")),
    ("AMD", re.compile(r"amd|epyc|opteron|ryzen")),
    ("Ampere", re.compile(r"ampere")),
    (
        "another",
        re.compile(
            r"hygon|loongson|zhaoxin|phytium|kunpeng|hisilicon|(?:^|_)arm|neoverse|nvidia|grace"
            r"|graviton|cavium|thunder|fujitsu|a64fx|power\d|sparc"
        ),
    ),
)
_NUMBER = re.compile(r"\d[0-9a-z]{2}\d|\d{3}")
# Samples and virtual processors have numbers that say nothing: "Genuine Intel(R) CPU 0000%@".
_SAMPLE = re.compile(r"eng_sample|genuine|(?:^|_)0000(?:_|$)")


class Series(t.NamedTuple):
    """Maker, line and generation; only servers of the same maker and line are similar.

    ``variant`` distinguishes less similar lines of one generation.
    """

    maker: str
    line: str
    generation: int
    variant: str = ""


ENTRY_XEON = Series("Intel", "Xeon E", 1)


@functools.lru_cache(maxsize=1024)
def processor_name(model: str) -> str:
    """Firmware's name of a model in the table's form: ``intel_xeon_e5_2670v2``."""
    bare = _MARKS.sub(" ", model[:_MAX_MODEL_LENGTH].lower())
    name = _VERSION.sub(r"\1", _SEPARATORS.sub("_", bare).strip("_"))
    for pattern, maker in _WITHOUT_MAKER:
        name = pattern.sub(maker, name)
    return _XEON_SIX_TWICE.sub("intel_xeon_", _NO_VERSION.sub(r"\1", name)).rstrip("_")


def without_tier(name: str) -> str:
    """The name without Platinum, Gold, Silver and Bronze, which are often omitted."""
    return _TIER.sub("intel_xeon_", name)


def is_model(name: str) -> bool:
    """Whether the name is that of one model, not only of a maker or a family."""
    return bool(_NUMBER.search(name)) and not _SAMPLE.search(name)


def maker_of(name: str) -> str:
    """The maker of a processor by its name; empty if unknown."""
    return next((maker for maker, pattern in _MAKERS if pattern.search(name)), "")


@functools.lru_cache(maxsize=1024)
def series_of(name: str) -> Series | None:
    """The series of a processor's name; None without one."""
    return _epyc(name) or _xeon(name) or _arm(name)


def _epyc(name: str) -> Series | None:
    found = _EPYC.match(name)
    if found is None:
        return None
    generation = max(int(found["generation"]), _FIRST_OF_LINE.get(found["line"], 1))
    return Series("AMD", "EPYC", generation, found["line"])


def _xeon(name: str) -> Series | None:
    if _ENTRY.match(name):
        return ENTRY_XEON
    found = _SIX.match(name)
    if found:
        return Series("Intel", "Xeon", _XEON_SIX, found["cores"].upper())
    found = _SCALABLE.match(name)
    # Without its tier, a number of 3000, 5000 or 7000 may belong to the years before 2010.
    if found and (found["tier"] or found["first"] in "4689"):
        return Series("Intel", "Xeon", _BEFORE_SCALABLE + int(found["generation"]))
    found = _WORKSTATION.match(name)
    if found:
        return Series("Intel", "Xeon", _BEFORE_SCALABLE + int(found["generation"]), "W")
    found = _E_VERSION.match(name)
    if found:
        return Series("Intel", "Xeon", int(found["version"] or 1))
    found = _EDGE.match(name)
    generation = _EDGE_GENERATIONS.get(found["generation"]) if found else None
    return Series("Intel", "Xeon D", generation) if generation else None


def _arm(name: str) -> Series | None:
    found = _ARM.match(name)
    return Series("Ampere", "Arm", 2 if found["one"] else 1) if found else None
