# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Generation of processors by a vendor's server model.

Vendors number generations: a PowerEdge R650 is of the 15th, and its last digit means Intel.
"""

from __future__ import annotations

import re
import typing as t

from ansible_collections.wattwise.kube.plugins.module_utils.published.processors import Series

_LONGEST_MODEL = 256
_POWER_EDGE = re.compile(r"\b(?:[rtcm]|hs|xe|xr|mx)(?P<digits>\d{3,4})(?:xd2?|xa|xs|cs|c|p|t)?\b")
_PRO_LIANT = re.compile(
    r"\b(?:dl|ml|bl|xl|rl)\d\d(?P<last>\d)[ac]?\s*(?:gen\s*(?P<generation>\d+))"
)
_THINK_SYSTEM = re.compile(r"\bs[rtdn]\d\d(?P<last>\d)(?:\s*v(?P<version>\d))?\b")
_PLUS = re.compile(r"gen\s*10\s*plus")

# Generations of the series by those of the servers; several if a server supports several.
_DELL_INTEL = {2: (1, 2), 3: (3, 4), 4: (5, 6), 5: (7,), 6: (8, 9), 7: (10,)}
_DELL_AMD = {4: (1,), 5: (2, 3), 6: (4,), 7: (5,)}
_HPE_INTEL = {8: (1, 2), 9: (3, 4), 10: (5, 6), 11: (8, 9), 12: (10,)}
_HPE_AMD = {10: (1, 2), 11: (4,), 12: (5,)}
_LENOVO_INTEL = {1: (5, 6), 2: (7,), 3: (8, 9), 4: (10,)}
_LENOVO_AMD = {1: (2, 3), 3: (4, 5)}
_AMD_DIGIT = "5"


def series_of_server(manufacturer: str, model: str) -> tuple[Series, ...]:
    """The possible series of a server of this model; empty if unknown."""
    vendor, text = manufacturer[:_LONGEST_MODEL].lower(), model[:_LONGEST_MODEL].lower()
    text = re.sub(r"[_-]+", " ", text)
    if "dell" in vendor or "poweredge" in text:
        return _dell(text)
    if re.search(r"\b(?:hpe?|hewlett)\b", vendor) or "proliant" in text:
        return _hpe(text)
    if "lenovo" in vendor or "thinksystem" in text:
        return _lenovo(text)
    return ()


def _dell(text: str) -> tuple[Series, ...]:
    found = _POWER_EDGE.search(text)
    if found is None:
        return ()
    digits = found["digits"]
    is_amd = digits[-1] == _AMD_DIGIT
    return _series(is_amd, _DELL_AMD if is_amd else _DELL_INTEL, int(digits[1]))


def _hpe(text: str) -> tuple[Series, ...]:
    found = _PRO_LIANT.search(text)
    if found is None:
        return ()
    is_amd = found["last"] == _AMD_DIGIT
    if _PLUS.search(text):
        return _series(is_amd, {10: (2, 3)} if is_amd else {10: (7,)}, 10)
    return _series(is_amd, _HPE_AMD if is_amd else _HPE_INTEL, int(found["generation"]))


def _lenovo(text: str) -> tuple[Series, ...]:
    found = _THINK_SYSTEM.search(text)
    if found is None:
        return ()
    is_amd = found["last"] == _AMD_DIGIT
    return _series(is_amd, _LENOVO_AMD if is_amd else _LENOVO_INTEL, int(found["version"] or 1))


def _series(
    is_amd: bool, generations: t.Mapping[int, tuple[int, ...]], server: int
) -> tuple[Series, ...]:
    maker, line = ("AMD", "EPYC") if is_amd else ("Intel", "Xeon")
    return tuple(Series(maker, line, one) for one in generations.get(server, ()))
