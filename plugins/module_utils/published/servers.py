# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Generation of processors by a vendor's server model, by the vendors' naming schemes.

A PowerEdge R650 is of the 15th generation, and its last digit means Intel.
"""

from __future__ import annotations

import re
import typing as t

from .processors import ENTRY_XEON, Series

_MAX_MODEL_LENGTH = 256

Generations = t.Mapping[str, tuple[int, ...]]


class _Scheme(t.NamedTuple):
    """Names of a vendor's servers.

    ``model`` has the group ``generation``, and ``amd`` for servers with EPYC. The maps have the
    generations of processors; several if a server supports several.
    """

    vendor: re.Pattern[str]
    model: re.Pattern[str]
    intel: Generations
    amd: Generations


_DELL = re.compile(r"\bdell\b|poweredge")
_HPE = re.compile(r"\bhpe?\b|hewlett|proliant|synergy")
_LENOVO = re.compile(r"lenovo|thinksystem|\bibm\b")
_SUPERMICRO = re.compile(r"super\s?micro")
_FUJITSU = re.compile(r"fujitsu|fsas|primergy")
_CISCO = re.compile(r"cisco|\bucs[bcsx]?\b")

# Servers with processors of other lines: entry-level Xeons, which are one series, and Arm.
_OTHERS = (
    (_DELL, re.compile(r"\b(?:r2\d0|t1\d0|[rt]3[13-9]0)\b"), ENTRY_XEON),
    (_DELL, re.compile(r"\bxr1[12]\b"), Series("Intel", "Xeon", 7)),
    (_HPE, re.compile(r"\b(?:[dm]l\d\d|dl320e|ml310e)\s*gen\s*\d|microserver gen"), ENTRY_XEON),
    (_HPE, re.compile(r"\brl\d{3}\s*gen"), Series("Ampere", "Arm", 1)),
    (_LENOVO, re.compile(r"\b(?:s[rt](?:[12]5|5)[08]|x3250|x3100)\b"), ENTRY_XEON),
    (_FUJITSU, re.compile(r"\b[rt]x1\d{3}\b"), ENTRY_XEON),
)
_SCHEMES = (
    _Scheme(
        _DELL,
        re.compile(
            r"\b(?:[rtcm]|fc|hs|xe|xr|mx)\d(?P<generation>\d)\d?(?:0|(?P<amd>5))(?:[a-z]{1,2}\d?)?\b"
        ),
        {"2": (1, 2), "3": (3, 4), "4": (5, 6), "5": (7,), "6": (8, 9), "7": (10,)},
        {"4": (1,), "5": (2, 3), "6": (4,), "7": (5,)},
    ),
    _Scheme(
        _HPE,
        # The last digit of DL384 means an Arm processor.
        re.compile(
            r"\b(?:(?:dl|ml|bl|xl)\d\d(?:[0-36-9]|(?P<amd>5))[a-z]?|synergy\s*\d{3}[a-z]?)"
            r"\s*gen\s*(?P<generation>\d+(?:\s*plus)?)"
        ),
        {"8": (1, 2), "9": (3, 4), "10": (5, 6), "10plus": (7,), "11": (8, 9), "12": (10,)},
        {"10": (1, 2), "10plus": (2, 3), "11": (4,), "12": (5,)},
    ),
    _Scheme(
        _LENOVO,
        re.compile(
            r"\bs[rtdn]\d\d(?:[0-46-9]|(?P<amd>5))(?:[a-z](?!\w))?(?:\s[a-z](?!\w))?(?:\s*(?P<generation>v\d))?\b"
        ),
        {"": (5, 6), "v2": (7,), "v3": (8, 9), "v4": (10,)},
        {"": (2, 3), "v3": (4, 5)},
    ),
    _Scheme(
        _LENOVO,
        re.compile(r"\bn?x\d{3,4}\s*(?P<generation>m\d)\b"),
        {"m4": (1, 2), "m5": (3, 4)},
        {},
    ),
    _Scheme(
        _SUPERMICRO,
        re.compile(r"\b(?:sys|ssg|sbi)?\s?[1267]\d\d(?P<generation>[789])[bgprtuw]"),
        {"7": (1, 2), "8": (3, 4), "9": (5, 6)},
        {},
    ),
    _Scheme(
        _SUPERMICRO,
        re.compile(r"\b(?:sys|ssg)\s?\d\d(?P<generation>[012])[bghpu]"),
        {"0": (7,), "1": (8, 9), "2": (10,)},
        {},
    ),
    _Scheme(
        _SUPERMICRO,
        re.compile(r"\b(?P<amd>as)\s*\d\d\d(?P<generation>[3456])[b-z]"),
        {},
        {"3": (1, 2), "4": (2, 3), "5": (4, 5), "6": (5,)},
    ),
    # Boards, which some firmware names in place of the server.
    _Scheme(
        _SUPERMICRO,
        re.compile(r"\bx(?P<generation>9|1[0-4])[dq]"),
        {"9": (1, 2), "10": (3, 4), "11": (5, 6), "12": (7,), "13": (8, 9), "14": (10,)},
        {},
    ),
    _Scheme(
        _SUPERMICRO,
        re.compile(r"\b(?P<amd>h)(?P<generation>1[1-4])[ds]"),
        {},
        {"11": (1, 2), "12": (2, 3), "13": (4, 5), "14": (5,)},
    ),
    _Scheme(
        _FUJITSU,
        # Servers of the line CX, also CX2550, have Intel's processors.
        re.compile(
            r"\b(?:cx\d{4}|[rtb]x(?!47)\d\d(?:[0-46-9]|(?P<amd>5))0)\s*(?P<generation>m\d)\b"
        ),
        {"m1": (3,), "m2": (4,), "m4": (5, 6), "m5": (6,), "m6": (7,), "m7": (8, 9), "m8": (10,)},
        {"m1": (2, 3), "m2": (4,)},
    ),
    _Scheme(
        _CISCO,
        re.compile(r"\b[bcx]?\d\d(?:0|(?P<amd>5))c?\s*(?P<generation>m\d)"),
        {"m3": (1, 2), "m4": (3, 4), "m5": (5, 6), "m6": (7,), "m7": (8, 9), "m8": (10,)},
        {"m6": (2, 3), "m8": (4, 5)},
    ),
)


def series_of_server(manufacturer: str, model: str) -> tuple[Series, ...]:
    """The possible series of a server of this model; empty if unknown."""
    text = re.sub(r"[\s_-]+", " ", model[:_MAX_MODEL_LENGTH].lower()).replace("+", " plus")
    vendor = f"{manufacturer[:_MAX_MODEL_LENGTH].lower()} {text}"
    for of_vendor, pattern, series in _OTHERS:
        if of_vendor.search(vendor) and pattern.search(text):
            return (series,)
    for scheme in _SCHEMES:
        found = scheme.model.search(text) if scheme.vendor.search(vendor) else None
        if found is not None:
            return _series(scheme, found)
    return ()


def _series(scheme: _Scheme, found: re.Match[str]) -> tuple[Series, ...]:
    is_amd = "amd" in found.re.groupindex and found["amd"] is not None
    maker, line = ("AMD", "EPYC") if is_amd else ("Intel", "Xeon")
    generation = (found["generation"] or "").replace(" ", "")
    known = (scheme.amd if is_amd else scheme.intel).get(generation, ())
    return tuple(Series(maker, line, one) for one in known)
