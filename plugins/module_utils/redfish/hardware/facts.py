# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Checks of hosts' hardware facts from any source: addresses, names, numbers, lists.

BMCs, inspection images and writers of labels may write anything. Each fact is read separately: a
broken one becomes a sentence about its host, and counts as unknown.
"""

from __future__ import annotations

import ipaddress
import re
import typing as t

from ...base.boundary import InvalidField, shown, shown_text
from ...nodeconfig.inventory_hosts import address_of_machine

T = t.TypeVar("T")

MAX_INTERFACES = 256
MAX_DISKS = 1024
MAX_PCI_DEVICES = 1024
MAX_FLAGS = 2048
MAX_THREADS = 65_536
MAX_MEMORY_MIB = 2**30  # 1 PiB
MAX_BYTES = 2**63 - 1
MAX_GPUS = 1024
MAX_NAME_LENGTH = 256
_MAX_FINDINGS = 20
_MAX_RACK_LENGTH = 253
_MAC_DIGITS = re.compile(r"[0-9a-f]{12}", re.ASCII)
_MAC = re.compile(r"(?:[0-9a-f]{2}([:-]))(?:[0-9a-f]{2}\1){4}[0-9a-f]{2}", re.ASCII)
_TRUE = frozenset(("true", "yes", "1", "enabled"))
_FALSE = frozenset(("false", "no", "0", "disabled"))

# Names of the sources, and ours, which are those of Linux.
_ARCHITECTURES = {
    **dict.fromkeys(("x86_64", "x86-64", "amd64", "x86"), "x86_64"),
    **dict.fromkeys(("aarch64", "arm64", "arm-a64", "arm"), "aarch64"),
    **dict.fromkeys(("ppc64le", "powerpc", "power"), "ppc64le"),
}


class Facts:
    """The facts of one host while they are read, with a sentence about each broken one."""

    def __init__(self) -> None:
        self._findings: dict[str, None] = {}
        self._left_out = 0

    @property
    def findings(self) -> tuple[str, ...]:
        rest = (f"{self._left_out} further facts cannot be read",) if self._left_out else ()
        return (*self._findings, *rest)

    def note(self, sentence: str) -> None:
        """Add a sentence; beyond a limit only count it."""
        if sentence in self._findings:
            return
        if len(self._findings) < _MAX_FINDINGS:
            self._findings[sentence] = None
        else:
            self._left_out += 1

    def read(self, value: t.Any, path: str, parse: t.Callable[[t.Any, str], T]) -> T | None:
        """The parsed value; None if missing, or with a finding if broken."""
        if value is None or value == "":
            return None
        try:
            return parse(value, path)
        except InvalidField as error:
            self.note(f"{shown_text(error.field)}: {error.problem}")
        except Exception as error:  # noqa: BLE001 - the boundary around one fact
            self.note(f"{path}: cannot be read ({type(error).__name__})")
        return None

    def items(self, value: t.Any, path: str, most: int) -> list[tuple[str, t.Mapping[str, t.Any]]]:
        """The mappings of a list with their paths; other items are findings."""
        if value is None:
            return []
        if not isinstance(value, (list, tuple)):
            self.note(f"{path}: {shown(value)} is not a list")
            return []
        if len(value) > most:
            self.note(f"{path}: only the first {most} of {len(value)} entries are read")
        found: list[tuple[str, t.Mapping[str, t.Any]]] = []
        for index, item in enumerate(value[:most]):
            if isinstance(item, dict):
                found.append((f"{path}[{index}]", item))
            else:
                self.note(f"{path}[{index}]: {shown(item)} is not a mapping")
        return found


def _short(value: t.Any) -> str:
    """The text without blanks around it; empty for a long one, and for anything else."""
    return value.strip() if isinstance(value, str) and len(value) <= MAX_NAME_LENGTH else ""


def mac_address(value: t.Any, path: str) -> str:
    """A MAC address of one adapter, with lower-case letters and colons. Raises InvalidField."""
    given = _short(value).lower()
    digits = given.replace(":", "").replace("-", "")
    if not _MAC.fullmatch(given) and (given != digits or not _MAC_DIGITS.fullmatch(digits)):
        raise InvalidField(path, f"{shown(value)} is not a MAC address such as 0c:42:a1:00:00:01")
    if digits in ("0" * 12, "f" * 12) or int(digits[:2], 16) & 1:
        raise InvalidField(path, f"{shown(value)} is not the MAC address of a single adapter")
    return ":".join(digits[at : at + 2] for at in range(0, 12, 2))


def host_address(value: t.Any, path: str) -> str:
    """An address under which another machine can be reached. Raises InvalidField.

    A prefix length is removed. An address of the controller itself, such as 127.0.0.1, is refused,
    because a connection to it would reach the controller.
    """
    text, slash, length = _short(value).partition("/")
    address = address_of_machine(text)
    if address is None or (slash and not re.fullmatch(r"\d{1,3}", length, re.ASCII)):
        raise InvalidField(path, f"{shown(value)} is not an address of another machine")
    return str(address)


def address_rank(ip: str | None) -> int:
    """Rank of reachability, the best first: IPv4, IPv6, link-local address, none.

    ``ip`` is a result of ``host_address``.
    """
    if ip is None:
        return 3
    address = ipaddress.ip_address(ip)
    return 2 if address.is_link_local else int(address.version == 6)


def of_port(addresses: t.Iterable[str | None]) -> tuple[str | None, str | None]:
    """The best address of a port, and the IPv6 address beside one of IPv4; None for unknown ones.

    ``addresses`` are results of ``host_address``.
    """
    ranked = sorted(addresses, key=address_rank)
    ip = ranked[0] if ranked else None
    if address_rank(ip) != 0:
        return ip, None
    return ip, next((each for each in ranked if address_rank(each) == 1), None)


def name(value: t.Any, path: str) -> str:
    """A printable text of limited length. Raises InvalidField."""
    if not isinstance(value, str):
        raise InvalidField(path, f"{shown(value)} is not a text")
    given = value.strip()
    if not given.isprintable() or len(given) > MAX_NAME_LENGTH:
        raise InvalidField(
            path, f"{shown(value)} is not a printable text of at most {MAX_NAME_LENGTH} characters"
        )
    return given


def rack(value: t.Any, path: str) -> str:
    """The name of a rack. Raises InvalidField."""
    given = name(value, path)
    if len(given) > _MAX_RACK_LENGTH:
        raise InvalidField(path, f"{shown(value)} is longer than {_MAX_RACK_LENGTH} characters")
    return given


def architecture(value: t.Any, path: str) -> str:
    """The architecture as Linux names it. Raises InvalidField."""
    given = name(value, path).lower()
    if given in _ARCHITECTURES:
        return _ARCHITECTURES[given]
    if not re.fullmatch(r"[a-z0-9][a-z0-9_-]{0,31}", given, re.ASCII):
        raise InvalidField(path, f"{shown(value)} is not an architecture such as x86_64")
    return given


def flags(value: t.Any, path: str) -> frozenset[str]:
    """Flags of a processor. Raises InvalidField."""
    if not isinstance(value, (list, tuple)):
        raise InvalidField(path, f"{shown(value)} is not a list")
    if len(value) > MAX_FLAGS:
        raise InvalidField(path, f"it has {len(value)} entries, more than {MAX_FLAGS}")
    for flag in value:
        if not isinstance(flag, str) or not re.fullmatch(r"[\w.:-]{1,64}", flag, re.ASCII):
            raise InvalidField(path, f"{shown(flag)} is not a flag of a processor")
    return frozenset(flag.lower() for flag in value)


def whole(least: int, most: int) -> t.Callable[[t.Any, str], int]:
    """A parser of whole numbers in this range, also of a float without fraction."""

    def parse(value: t.Any, path: str) -> int:
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not is_number or not least <= value <= most or value != int(value):
            raise InvalidField(path, f"{shown(value)} is not a whole number from {least} to {most}")
        return int(value)

    return parse


def count_text(value: t.Any, path: str) -> int:
    """A number of GPUs, from the text of a label. Raises InvalidField."""
    if not isinstance(value, str) or not re.fullmatch(r"\d{1,9}", value, re.ASCII):
        raise InvalidField(path, f"{shown(value)} is not a whole number from 0 to {MAX_GPUS}")
    return whole(0, MAX_GPUS)(int(value), path)


def gigabits(value: t.Any, path: str) -> float | None:
    """The speed of a port; None for 0, the value of sources for a port without a link."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_number or not 0 <= value <= 10_000:
        raise InvalidField(path, f"{shown(value)} is not a number of Gbit/s from 0 to 10000")
    return float(value) or None


def boolean(value: t.Any, path: str) -> bool:
    """A boolean of JSON. Raises InvalidField."""
    if not isinstance(value, bool):
        raise InvalidField(path, f"{shown(value)} is neither true nor false")
    return value


def boolean_text(value: t.Any, path: str) -> bool:
    """A boolean in the form of labels. Raises InvalidField."""
    given = _short(value).lower()
    if given in _TRUE or given in _FALSE:
        return given in _TRUE
    raise InvalidField(path, f"{shown(value)} is neither true nor false")


def disk_kind(value: t.Any, path: str) -> str:
    """``HDD``, ``SSD`` or ``NVME``. Raises InvalidField."""
    given = value.upper() if isinstance(value, str) and len(value) <= MAX_NAME_LENGTH else ""
    if given not in ("HDD", "SSD", "NVME"):
        raise InvalidField(path, f"{shown(value)} is none of HDD, SSD and NVME")
    return given
