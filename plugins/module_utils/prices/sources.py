# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The series of a file, a URL or Prometheus, and the last one that was read instead.

Prices never stop a run: without a usable series, a warning says so, and every hour costs the same.
"""

from __future__ import annotations

import datetime
import hashlib
import math
import re
import typing as t
import urllib.parse
from dataclasses import dataclass
from pathlib import Path

from ..base.argspec import SERVER, ArgumentSpec
from ..base.context import Context, Parameters
from ..base.errors import InvalidInput, TargetError, WattwiseError
from ..base.json_types import Object
from ..base.units import format_duration, format_time, parse_time
from ..fleet.budget import Budget
from ..fleet.credentials import CredentialReference
from ..fleet.urls import origin_text, parse_endpoint
from ..fleet.visits import Client
from ..nodeconfig.poll import Job, PollTarget, poll
from .reader import MAX_BYTES, read_prometheus, read_series, series_of
from .series import PriceSeries

_DAY = 86400
# Prometheus is asked for a week, so that each day of the week was there once.
_RANGE_SECONDS = 7 * _DAY
_STEP_SECONDS = 900
_QUERY = re.compile(r"\?\S*?(?=[:;,.]?(?:\s|$))")
_RANGES = {
    "max_age": (0.0, 31.0 * _DAY),
    "keep_seconds": (0.0, 31.0 * _DAY),
    "margin_seconds": (0.0, 1.0 * _DAY),
    "surcharge": (-1e6, 1e6),
}

OPTIONS = ArgumentSpec(
    {
        "path": {"type": "path"},
        "url": {"type": "str"},
        "query": {"type": "str"},
        "unit": {"type": "str", "default": ""},
        "surcharge": {"type": "float", "default": 0.0},
        "max_age": {"type": "float", "default": 172800.0},
        "keep_seconds": {"type": "float", "default": 3600.0},
        "defer_pods": {"type": "bool", "default": False},
        "margin_seconds": {"type": "float", "default": 1800.0},
        "timeout": {"type": "float", "default": 10.0},
        **SERVER,
    }
)


@dataclass(frozen=True)
class ReadPrices:
    """The usable series, if any, and the document of one that was just read."""

    series: PriceSeries | None = None
    document: Object | None = None


def is_given(options: Parameters) -> bool:
    """Whether the options name a series."""
    return bool(options["path"] or options["url"])


def check_options(options: Parameters) -> None:
    """Raises InvalidInput."""
    if options["path"] and options["url"]:
        raise InvalidInput("prices: path and url are two sources; leave one out")
    if options["query"] and not options["url"]:
        raise InvalidInput("prices: query needs the URL of Prometheus in url")
    if options["defer_pods"] and not is_given(options):
        raise InvalidInput("prices: defer_pods needs a series; give path or url")
    for name, (least, most) in _RANGES.items():
        value = options[name]
        if not math.isfinite(value) or not least <= value <= most:
            raise InvalidInput(
                f"prices: {name} is {value:g}; give a number from {least:g} to {most:g}"
            )


def read_prices(options: Parameters, context: Context, last: Object | None) -> ReadPrices:
    """The series of the source; with ``last``, the document of a former run, if that fails.

    A URL is asked once in ``keep_seconds``. Everything that an operator should know is a warning.
    """
    now, source = context.now(), _identity(options)
    if last is not None and last["source"] != source:
        last = None
    kept = None if last is None else _of_document(last)
    if kept is not None and not options["path"] and _is_fresh(last, options, now):
        return ReadPrices(_usable(kept, options, context))
    try:
        series = _with_surcharge(_read(options, context), options["surcharge"])
    except WattwiseError as error:
        instead = "every hour counts the same" if kept is None else "the last series counts"
        context.warn(f"The prices could not be read, so that {instead}: {error}")
        return ReadPrices(None if kept is None else _usable(kept, options, context))
    document = {
        "source": source,
        "unit": series.unit,
        "prices": [
            {"time": format_time(_moment(time)), "price": price}
            for time, price in zip(series.times, series.prices)
        ],
    }
    return ReadPrices(_usable(series, options, context), document)


def _usable(series: PriceSeries, options: Parameters, context: Context) -> PriceSeries | None:
    """The series, unless it is too old or begins too late; what is guessed is told."""
    now = context.now().timestamp()
    age, early = now - series.end, series.times[0] - now
    if age > options["max_age"]:
        context.warn(
            f"The prices ended {format_duration(age)} ago, so that every hour counts the same; "
            "give newer ones, or check the clock"
        )
        return None
    if early > 0:
        context.warn(
            f"The prices begin in {format_duration(early)}, so that every hour counts the same "
            "until then; check their times and the clock"
        )
        return None
    if age > 0:
        context.warn(
            f"The prices ended {format_duration(age)} ago; those of the same time on the days "
            "before stand for them"
        )
    if series.holes:
        context.warn(
            f"The prices have {series.holes} holes; those of the same time on the days before "
            "stand for them"
        )
    return series


def _read(options: Parameters, context: Context) -> PriceSeries:
    """Raises WattwiseError."""
    if options["url"]:
        return _fetch(options, context)
    try:
        with Path(options["path"]).open("rb") as file:
            content = file.read(MAX_BYTES + 1)
        return read_series(content.decode(), options["unit"])
    except OSError as error:
        raise InvalidInput(f"{options['path']}: {error.strerror}; give a file to read") from error
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{options['path']}: not a text in UTF-8") from error


def _fetch(options: Parameters, context: Context) -> PriceSeries:
    endpoint = origin_text(parse_endpoint(options["url"]).origin)
    parts = urllib.parse.urlsplit(options["url"].strip())
    now = int(context.now().timestamp()) // _STEP_SECONDS * _STEP_SECONDS

    async def ask(client: Client, _target: PollTarget) -> PriceSeries:
        if not options["query"]:
            link = f"{parts.path or '/'}{f'?{parts.query}' if parts.query else ''}"
            return read_series(await client.get_text(link), options["unit"])
        asked = {
            "query": options["query"],
            "start": now - _RANGE_SECONDS,
            "end": now,
            "step": _STEP_SECONDS,
        }
        link = f"{parts.path.rstrip('/')}/api/v1/query_range?{urllib.parse.urlencode(asked)}"
        return read_prometheus((await client.get_json(link)).body, options["unit"])

    target = PollTarget(
        "prices",
        endpoint,
        "Prices",
        "prices",
        named=CredentialReference(key=options["credential"] or None),
        tls={"ca_path": options["ca_path"], "tls_fingerprint": options["tls_fingerprint"]},
    )
    job: Job[PriceSeries | None] = Job(target, "Prices", ask, None)
    shared = {"concurrency": 1, "min_success": 0.0, **options}
    [result] = poll([job], shared, context, budget=Budget(10, MAX_BYTES, 400_000)).results
    if isinstance(result, TargetError):
        # The query of a URL may hold a key; the request has it in another spelling.
        detail = result.detail if options["query"] else _QUERY.sub("", result.detail)
        raise InvalidInput(f"{endpoint}: {detail}")
    if result is None:
        raise InvalidInput(f"{endpoint}: no answer")
    return result


def _with_surcharge(series: PriceSeries, surcharge: float) -> PriceSeries:
    if not surcharge:
        return series
    points = zip(series.times, (price + surcharge for price in series.prices))
    return series_of(list(points), series.unit)


def _identity(options: Parameters) -> str:
    """What the series comes from, as a digest, because the query of a URL may hold a key."""
    parts = [options[name] for name in ("path", "url", "query", "unit", "surcharge")]
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def _of_document(document: Object) -> PriceSeries | None:
    try:
        return series_of(
            [(parse_time(one["time"]).timestamp(), one["price"]) for one in document["prices"]],
            document["unit"],
        )
    except InvalidInput:
        return None


def _is_fresh(document: t.Any, options: Parameters, now: datetime.datetime) -> bool:
    """Whether the document is young; one from the future is not, as clocks may jump."""
    age = (now - parse_time(document["time"])).total_seconds()
    return bool(0 <= age < options["keep_seconds"])


def _moment(time: float) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(time, datetime.timezone.utc)
