# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Meaning of a sensor's name: inlet air, another temperature, or no temperature at all.

Vendors join and abbreviate names (SystemBoardInletTemp, FP_TEMP_SENSOR, INLET_TMP) and localise
them. Short words count only at the begin of a word; long ones anywhere.
"""

from __future__ import annotations

import functools
import re
import typing as t

# Air or water that another part has already heated, and exhaust air.
_NEVER_WITHIN = (
    *("powersuppl", "p/s", "riser", "pcie", "hgx", "processormodule", "mlom", "backplane", "nvme"),
    *("drive", "water", "coolant", "liquid", "loop", "outlet", "exhaust"),
    *("netzteil", "abluft", "auslass", "sortie", "salida", "uscita", "alimentation"),
    *("電源", "电源", "排気", "排气", "出風", "出风", "出口"),
)
_NEVER_BEGINNING = (
    *("psu", "gpu", "nic", "sioc", "ifm", "asic", "fem", "pdb", "hdd", "ssd", "dimm", "cpu"),
    *("erot", "irot", "raid"),
)
_NEVER_ALONE = ("ps", "bp")
# Not the word board: "System Board Inlet Temp" is the inlet of a chassis.
_BOARD_INLET = re.compile(r"(\d+\s*-\s*)?board\s*inlet", re.IGNORECASE)

_INLET = (
    *("inlet", "intake", "zuluft", "einlass", "lufteintritt", "ansaug", "admission", "aspiration"),
    *("entrée", "entree", "entrada", "ingresso", "吸気", "吸い込み", "入気", "入口"),
    *("进风", "進風", "进气", "進氣", "入风"),
)
_AMBIENT = ("ambient", "umgebung", "ambiant", "周囲", "環境温", "环境温", "環境溫")
_AMBIENT_ALONE = ("amb",)
_FRONT_BEGINNING = ("front",)
_FRONT_PANEL_ALONE = ("fp",)
_TEMPERATURE_BEGINNING = ("temp", "tmp")

_OTHER_QUANTITIES = (
    *("fan", "volt", "curr", "cur", "amp", "power", "pwr", "watt", "energy", "freq", "rpm", "pwm"),
    *("tach", "speed", "flow", "airflow", "humid", "press", "altitude", "util", "usage"),
    *("vr", "vcore"),
)

_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


def _parts(name: str) -> list[str]:
    """Words of a name in lower case, split at changes of case or kind of character."""
    return [part.lower() for part in _PART.findall(name)]


def _begins(parts: t.Sequence[str], words: tuple[str, ...]) -> bool:
    return any(part.startswith(words) for part in parts)


# Cached, because machines of one model have the same names.
@functools.lru_cache(maxsize=4096)
def is_elsewhere(name: str) -> bool:
    """Whether the name is that of an inner part, a power supply, a liquid or the exhaust."""
    squeezed = re.sub(r"[\s_.-]", "", name).lower()
    parts = _parts(name)
    return (
        any(word in squeezed for word in _NEVER_WITHIN)
        or _begins(parts, _NEVER_BEGINNING)
        or any(part in _NEVER_ALONE for part in parts)
        or _BOARD_INLET.match(name) is not None
    )


def air_rank(name: str) -> int | None:
    """Rank of the name for inlet air; less is better, None is no match.

    0 inlet and ambient, 1 inlet or intake, 2 ambient, 3 front.
    """
    lower = name.lower()
    parts = _parts(name)
    inlet = any(word in lower for word in _INLET)
    ambient = any(word in lower for word in _AMBIENT) or any(
        part in _AMBIENT_ALONE for part in parts
    )
    if inlet:
        return 0 if ambient else 1
    if ambient:
        return 2
    front = _begins(parts, _FRONT_BEGINNING) or any(part in _FRONT_PANEL_ALONE for part in parts)
    return 3 if front else None


def is_other_quantity(name: str) -> bool:
    """Whether the name of a sensor excludes a temperature."""
    parts = _parts(name)
    return _begins(parts, _OTHER_QUANTITIES) and not _begins(parts, _TEMPERATURE_BEGINNING)
