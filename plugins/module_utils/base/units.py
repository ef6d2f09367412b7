# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Kubernetes quantities, Go durations, RFC 3339 times and Linux CPU lists."""

from __future__ import annotations

import datetime
import re
import typing as t
from decimal import ROUND_CEILING, ROUND_UP, Decimal

from .boundary import InvalidField, shown
from .errors import InvalidInput

# https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/
_QUANTITY = re.compile(
    r"([+-]?(?:\d+\.?\d*|\.\d+))(?:([eE][+-]?\d+)|([numkMGTPE]|[KMGTPE]i)?)", re.ASCII
)
# Suffixes for formatting, the largest first.
_BINARY_SUFFIXES = ("Ei", "Pi", "Ti", "Gi", "Mi", "Ki", None)
_DECIMAL_SUFFIXES = ("E", "P", "T", "G", "M", "k", None, "m", "u", "n")
_SUFFIX_FACTOR: dict[str | None, Decimal] = {
    **{
        suffix: Decimal(2) ** (10 * power)
        for power, suffix in zip(range(6, -1, -1), _BINARY_SUFFIXES)
    },
    **{
        suffix: Decimal(10) ** power for power, suffix in zip(range(18, -12, -3), _DECIMAL_SUFFIXES)
    },
}
_MAX_QUANTITY = Decimal(2**63)
# Longer texts and exponents are refused before conversion, because 1e999999999 would not end.
_MAX_QUANTITY_LENGTH = 64
_MAX_EXPONENT = 64
_MAX_DURATION_LENGTH = 64
_MAX_TIME_LENGTH = 64
_MAX_CPU_LIST_LENGTH = 64 * 1024
_MAX_CPU = 65_535
_MAX_CPUS_NAMED = 4 * _MAX_CPU


# https://pkg.go.dev/time#ParseDuration
_DURATION = re.compile(r"[+-]?(?:(?:\d+\.?\d*|\.\d+)(?:ns|us|µs|μs|ms|s|m|h))+", re.ASCII)
_DURATION_PART = re.compile(r"(\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h)", re.ASCII)
_SECONDS = {
    "ns": 1e-9,
    "us": 1e-6,
    "µs": 1e-6,
    "μs": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "m": 60.0,
    "h": 3600.0,
}


def parse_quantity(
    value: str | int | float, where: str = "quantity", limit: Decimal = _MAX_QUANTITY
) -> Decimal:
    """Exact value of a Kubernetes quantity (``"1500m"`` is 1.5, ``"1Gi"`` is 1073741824).

    Its size is below ``limit``, by default 2^63 units as for the amounts that Kubernetes converts
    to integers. ``where`` names the field in the error message. Raises InvalidField.
    """
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise InvalidField(where, f"{shown(value)} is not a quantity; write a number such as 500m")
    if isinstance(value, int) and abs(value) >= limit:
        raise InvalidField(where, _out_of_range(shown(value), limit))
    text = str(value)
    match = _QUANTITY.fullmatch(text.strip()) if len(text) <= _MAX_QUANTITY_LENGTH else None
    if match is None:
        raise InvalidField(
            where,
            f"{shown(value)} is not a Kubernetes quantity; write a number with an optional "
            "suffix, such as 500m, 2, 1.5, 512Mi or 10G",
        )
    number, exponent, suffix = match.groups()
    if abs(int((exponent or "e0")[1:])) > _MAX_EXPONENT:
        raise InvalidField(where, _out_of_range(shown(value), limit))
    result = Decimal(number + (exponent or "")) * _SUFFIX_FACTOR[suffix]
    if abs(result) >= limit:
        raise InvalidField(where, _out_of_range(shown(value), limit))
    return result


def _out_of_range(text: str, limit: Decimal) -> str:
    largest = "2^63 - 1" if limit == _MAX_QUANTITY else f"below {limit:.1e}"
    return f"the quantity {text} is out of range; the largest is {largest}"


def cpu_millicores(value: str | int | float, where: str = "cpu") -> int:
    """A CPU quantity in millicores, rounded up as Kubernetes does. Raises InvalidInput."""
    return _whole(parse_quantity(value, where) * 1000)


def whole_units(value: str | int | float, where: str = "quantity") -> int:
    """A quantity in whole units (bytes, pods, devices), rounded up. Raises InvalidInput."""
    return _whole(parse_quantity(value, where))


def format_quantity(value: Decimal, binary: bool = False) -> str:
    """The shortest exact text of a quantity, with the largest suffix that leaves a whole number.

    Suffixes are decimal (m, k, M, …), or binary (Ki, Mi, …) for whole numbers with ``binary``.
    Fractions of a nano-unit are rounded away from zero, as in Kubernetes. Raises InvalidInput for a
    number beyond the range of Kubernetes. Source: see _QUANTITY.
    """
    if abs(value) >= _MAX_QUANTITY:
        raise InvalidInput(f"quantity: {value} is out of range; the largest is 2^63 - 1")
    exact = value.quantize(_SUFFIX_FACTOR["n"], ROUND_UP)
    if exact == 0:
        return "0"
    whole = exact == exact.to_integral_value()
    suffixes = _BINARY_SUFFIXES if binary and whole else _DECIMAL_SUFFIXES
    suffix = next(item for item in suffixes if exact % _SUFFIX_FACTOR[item] == 0)
    return f"{int(exact / _SUFFIX_FACTOR[suffix])}{suffix or ''}"


def _whole(value: Decimal) -> int:
    return int(value.to_integral_value(rounding=ROUND_CEILING))


def parse_duration(value: str, where: str = "duration") -> float:
    """Seconds in a Go duration such as ``"1m30s"`` or ``"250ms"``. Raises InvalidInput."""
    text = value.strip() if isinstance(value, str) else value
    if text == "0":
        return 0.0
    is_text = isinstance(text, str) and len(text) <= _MAX_DURATION_LENGTH
    if not is_text or _DURATION.fullmatch(text) is None:
        raise InvalidField(
            where,
            f"{shown(value)} is not a duration; write numbers with units, such as 15s, 1m30s "
            "or 250ms",
        )
    seconds = sum(float(number) * _SECONDS[unit] for number, unit in _DURATION_PART.findall(text))
    return -seconds if text.startswith("-") else seconds


def format_duration(seconds: float) -> str:
    """A number of seconds for people, such as ``"1 h 02 min"``, ``"3 min 05 s"`` or ``"4.2 s"``."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"


def parse_cpu_list(text: str, where: str = "CPU list") -> tuple[int, ...]:
    """The CPUs of a Linux list such as ``"0-3,8,10-11"``, ascending and without duplicates.

    Source: the kernel's cpulist format (Documentation/admin-guide/cputopology.rst). An empty text
    means no CPU. Raises InvalidInput.
    """
    if not isinstance(text, str) or len(text) > _MAX_CPU_LIST_LENGTH:
        raise InvalidField(where, f"{shown(text)} is not a list of CPUs such as 0-3,8")
    cpus: set[int] = set()
    named = 0
    for part in dict.fromkeys(filter(None, (piece.strip() for piece in text.split(",")))):
        match = re.fullmatch(r"(\d{1,9})(?:-(\d{1,9}))?", part, re.ASCII)
        if match is None:
            problem = f"{shown(part)} in {shown(text)} is not a CPU or a range like 0-3"
            raise InvalidField(where, problem)
        first, last = int(match.group(1)), int(match.group(2) or match.group(1))
        if last < first or last > _MAX_CPU:
            problem = f"the range {shown(part)} in {shown(text)} is empty or too large"
            raise InvalidField(where, problem)
        named += last - first + 1
        if named > _MAX_CPUS_NAMED:
            raise InvalidField(where, f"{shown(text)} repeats CPUs too often")
        cpus.update(range(first, last + 1))
    return tuple(sorted(cpus))


def format_cpu_list(cpus: t.Iterable[int]) -> str:
    """The shortest Linux list of these CPUs: ``[3, 1, 2, 8]`` gives ``"1-3,8"``."""
    ranges: list[list[int]] = []
    for cpu in sorted(set(cpus)):
        if ranges and cpu == ranges[-1][1] + 1:
            ranges[-1][1] = cpu
        else:
            ranges.append([cpu, cpu])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in ranges)


def parse_time(text: str, where: str = "time") -> datetime.datetime:
    """An RFC 3339 time, as an aware datetime in UTC. Raises InvalidInput."""
    problem = f"{shown(text)} is not an RFC 3339 time such as 2026-01-31T12:00:00Z"
    if not isinstance(text, str) or len(text) > _MAX_TIME_LENGTH:
        raise InvalidField(where, problem)
    try:
        moment = datetime.datetime.fromisoformat(re.sub(r"(?i)z$", "+00:00", _micro(text)))
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=datetime.timezone.utc)
        return moment.astimezone(datetime.timezone.utc)
    except (ValueError, OverflowError) as error:
        # Years 1 and 9999 overflow in the conversion to UTC.
        raise InvalidField(where, problem) from error


def _micro(text: str) -> str:
    """Cut a fraction of a second to six digits, the limit of Python 3.9."""
    return re.sub(r"\.([0-9]+)", lambda match: "." + match.group(1)[:6].ljust(6, "0"), text)


def format_time(moment: datetime.datetime) -> str:
    """An aware time in the form of Kubernetes: ``2026-01-31T12:00:00Z``."""
    return moment.astimezone(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
