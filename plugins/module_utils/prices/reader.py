# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""A series of prices from text: CSV, JSON, or the answer of Prometheus.

CSV has a header line with the columns ``time`` and ``price``. JSON is a list of objects with these
members, or an object with such a list in ``prices`` and a text in ``unit``. The form of the API of
energy-charts.info is known, too: ``unix_seconds``, ``price`` and ``unit``. Times are RFC 3339 with
their offset, because a time without one is mostly local. Entries without a price are holes.
"""

from __future__ import annotations

import csv
import re
import typing as t

from ..base import strict_json
from ..base.boundary import InvalidField
from ..base.errors import InvalidInput
from ..base.fields import strict
from ..base.fields.lenient import member
from ..base.texts import shown
from ..base.units import parse_time
from .series import PriceSeries

MAX_BYTES = 4 * 2**20
_LIMITS = strict_json.JsonLimits(MAX_BYTES, 400_000)
_COLUMNS = ("time", "price")
_OFFSET = re.compile(r"(?:[zZ]|[+-]\d\d:?\d\d)$")
_MAX_UNIT_LENGTH = 32

Point = tuple[float, float]


def read_series(text: str, unit: str = "") -> PriceSeries:
    """The series of a CSV or JSON text. Raises InvalidInput, also for a text of another unit."""
    if len(text.encode()) > MAX_BYTES:
        raise InvalidInput(f"prices: the text has more than {MAX_BYTES // 2**20} MiB")
    if text.lstrip("\ufeff \t\r\n")[:1] in ("{", "["):
        points, named = _of_json(text)
    else:
        points, named = _of_csv(text), ""
    if unit and named and _plain(unit) != _plain(named):
        raise InvalidInput(
            f"prices: their unit is {shown(named)}, not {shown(unit)}; correct the option unit, or "
            "leave it out"
        )
    return series_of(points, named or unit)


def read_prometheus(body: t.Any, unit: str = "") -> PriceSeries:
    """The series of an answer to a range query. Raises InvalidInput."""
    result = member(body, "data", "result")
    if member(body, "status") != "success" or member(body, "data", "resultType") != "matrix":
        raise InvalidInput("prices: the answer is no range of Prometheus; check the URL")
    if not isinstance(result, list) or len(result) != 1:
        number = len(result) if isinstance(result, list) else 0
        raise InvalidInput(
            f"prices: the query has {number} series; give one whose result is a single series, "
            "such as avg(...)"
        )
    values = strict.sequence(member(result[0], "values"), "values")
    points = [_sample(pair, f"values[{index}]") for index, pair in enumerate(values)]
    return series_of([point for point in points if point is not None], unit)


def series_of(points: t.Iterable[Point], unit: str) -> PriceSeries:
    """The series of points in ascending order. Raises InvalidInput."""
    if len(unit) > _MAX_UNIT_LENGTH:
        raise InvalidInput(f"prices: the unit {shown(unit)} is too long; write it as in EUR/MWh")
    times, prices = zip(*points) if points else ((), ())
    return PriceSeries(times, prices, unit)


def _of_csv(text: str) -> list[Point]:
    rows = csv.reader(text.lstrip("\ufeff").splitlines(), strict=True)
    columns: list[str] | None = None
    points: list[Point] = []
    try:
        for row in rows:
            where = f"prices, line {rows.line_num}"
            if columns is None:
                columns = [name.strip() for name in row]
                if any(columns.count(name) != 1 for name in _COLUMNS):
                    raise InvalidInput(f"{where}: the first line must name time and price once")
            elif row:
                if len(row) != len(columns):
                    raise InvalidInput(
                        f"{where}: {len(row)} fields, but the first line names {len(columns)}"
                    )
                fields = dict(zip(columns, row))
                if fields["price"].strip():
                    points.append((time_of(fields["time"], where), _price(fields["price"], where)))
    except csv.Error as error:
        raise InvalidInput(f"prices, line {rows.line_num}: not readable as CSV: {error}") from error
    return points


def _of_json(text: str) -> tuple[list[Point], str]:
    try:
        body = strict_json.parse(text.lstrip("\ufeff"), _LIMITS)
    except ValueError as error:
        raise InvalidInput(f"prices: not readable as JSON: {error}") from error
    if isinstance(body, list):
        return _entries(body), ""
    body = strict.mapping(body, "prices")
    unit = strict.text(body.get("unit"), "unit")
    if "unix_seconds" not in body:
        return _entries(strict.sequence(body.get("prices"), "prices")), unit
    times = strict.sequence(body["unix_seconds"], "unix_seconds")
    prices = strict.sequence(body.get("price"), "price")
    if len(times) != len(prices):
        raise InvalidInput(f"prices: {len(times)} times, but {len(prices)} prices")
    return [
        (_seconds(time, f"unix_seconds[{index}]"), strict.number(price, f"price[{index}]"))
        for index, (time, price) in enumerate(zip(times, prices))
        if price is not None
    ], unit


def _entries(entries: t.Sequence[t.Any]) -> list[Point]:
    points: list[Point] = []
    for index, given in enumerate(entries):
        where = f"prices[{index}]"
        entry = strict.required_mapping(given, where)
        if entry.get("price") is not None:
            price = strict.number(entry["price"], f"{where}.price")
            points.append((time_of(entry.get("time"), f"{where}.time"), price))
    return points


def _sample(pair: t.Any, where: str) -> Point | None:
    """A sample of Prometheus; None for NaN, which stands for no value."""
    if not isinstance(pair, list) or len(pair) != 2:
        raise InvalidField(where, "it is no pair of time and value")
    if pair[1] == "NaN":
        return None
    return _seconds(pair[0], where), _price(pair[1], where)


def time_of(given: t.Any, where: str) -> float:
    """Whole seconds since the epoch of an RFC 3339 time with its offset. Raises InvalidField."""
    moment = parse_time(given, where)
    if not _OFFSET.search(given):
        raise InvalidField(where, f"{shown(given)} has no offset; write 2026-01-31T12:00:00+01:00")
    return _seconds(moment.timestamp(), where)


def _seconds(given: t.Any, where: str) -> float:
    """Whole seconds, so that sums of times are exact."""
    return float(round(strict.number(given, where)))


def _price(given: t.Any, where: str) -> float:
    try:
        return float(given)
    except (TypeError, ValueError):
        raise InvalidField(where, f"{shown(given)} is no number") from None


def _plain(unit: str) -> str:
    return unit.replace(" ", "").lower()
