# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sources of prices that answer, hang, lie or are old: a run always goes on."""

from __future__ import annotations

import datetime
import http.server
import json
import threading
import typing as t
import urllib.parse
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.base import documents
from ansible_collections.wattwise.kube.plugins.module_utils.base.context import Context
from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import InvalidInput
from ansible_collections.wattwise.kube.plugins.module_utils.base.units import format_time
from ansible_collections.wattwise.kube.plugins.module_utils.prices import sources
from ansible_collections.wattwise.kube.plugins.module_utils.prices.sources import ReadPrices

NOW = datetime.datetime(2026, 1, 31, 12, 0, tzinfo=datetime.UTC)
HOUR = datetime.timedelta(hours=1)


def csv(first: datetime.datetime, *prices: float | str) -> str:
    rows = [f"{format_time(first + HOUR * hour)},{price}" for hour, price in enumerate(prices)]
    return "\n".join(["time,price", *rows])


TODAY = csv(NOW - 12 * HOUR, *range(1, 25))


class Server:
    """Answers everything with one text, or not at all."""

    def __init__(self) -> None:
        self.content: str | None = TODAY
        self.status = 200
        self.paths: list[str] = []
        self.closed = threading.Event()
        owner = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                owner.paths.append(self.path)
                if owner.content is None:
                    owner.closed.wait()
                    return
                content = owner.content.encode()
                self.send_response(owner.status)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_arguments: object) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"


@pytest.fixture
def server() -> Iterator[Server]:
    found = Server()
    thread = threading.Thread(target=found.server.serve_forever, args=(0.01,))
    thread.start()
    yield found
    found.closed.set()
    found.server.shutdown()
    found.server.server_close()
    thread.join()


class Reading(t.NamedTuple):
    known: ReadPrices
    warnings: list[str]


def read(options: dict[str, t.Any], last: t.Any = None, now: datetime.datetime = NOW) -> Reading:
    completed = sources.OPTIONS.complete(options)
    sources.check_options(completed)
    warnings: list[str] = []
    context = Context(warn=warnings.append, now=lambda: now)
    return Reading(sources.read_prices(completed, context, last), warnings)


def document(known: ReadPrices, now: datetime.datetime = NOW) -> dict[str, t.Any]:
    """The document as the run folder has it, which its schema allows."""
    assert known.document is not None
    body = {"document": "wattwise.kube/prices/v1", "time": format_time(now), **known.document}
    documents.check(body, "prices", "prices.json")
    return json.loads(json.dumps(body))  # type: ignore[no-any-return]


def test_a_file_is_read_with_its_surcharge(tmp_path: Path) -> None:
    path = tmp_path / "prices.csv"
    path.write_text(TODAY, encoding="utf-8")
    known, warnings = read({"path": str(path), "unit": "EUR/MWh", "surcharge": 100.0})
    assert known.series is not None
    assert known.series.at(NOW.timestamp()) == 113.0
    assert known.series.unit == "EUR/MWh"
    assert not warnings


def test_a_url_is_asked_with_its_query_and_again_only_after_an_hour(server: Server) -> None:
    options = {"url": f"{server.url}/day?zone=BE&key=secret"}
    known, warnings = read(options)
    assert server.paths == ["/day?zone=BE&key=secret"]
    assert not warnings
    assert "secret" not in json.dumps(known.document)
    kept = document(known)
    again = read(options, kept, NOW + 0.9 * HOUR)
    assert again.known == ReadPrices(known.series, None)
    assert len(server.paths) == 1
    read(options, kept, NOW + 1.1 * HOUR)
    read(options, kept, NOW - HOUR)  # the clock went back
    read({**options, "surcharge": 1.0}, kept)  # another series
    assert len(server.paths) == 4


def test_prometheus_is_asked_for_a_week(server: Server) -> None:
    values = [[NOW.timestamp() - 900, "70"], [NOW.timestamp(), "80"]]
    result = [{"metric": {}, "values": values}]
    server.content = json.dumps(
        {"status": "success", "data": {"resultType": "matrix", "result": result}}
    )
    known, warnings = read({"url": f"{server.url}/prometheus/", "query": "avg(price)"})
    assert known.series is not None
    assert known.series.at(NOW.timestamp() + 60) == 80.0
    assert not warnings
    parts = urllib.parse.urlsplit(server.paths[0])
    assert parts.path == "/prometheus/api/v1/query_range"
    asked = urllib.parse.parse_qs(parts.query)
    assert asked["query"] == ["avg(price)"]
    assert int(asked["end"][0]) - int(asked["start"][0]) == 7 * 86400


@pytest.mark.parametrize("content", ["<html>Sign in</html>", "{}", "", "time,price\nnow,1"])
def test_garbage_is_told_and_every_hour_counts_the_same(server: Server, content: str) -> None:
    server.content = content
    known, [warning] = read({"url": server.url})
    assert known == ReadPrices()
    assert warning.startswith("The prices could not be read, so that every hour counts the same: ")


def test_a_url_that_hangs_leaves_the_last_series(server: Server) -> None:
    options = {"url": f"{server.url}/day?key=secret", "timeout": 0.2}
    kept = document(read({**options, "timeout": 10.0}).known)
    server.content = None
    known, [warning] = read(options, kept, NOW + 2 * HOUR)
    assert known.series is not None
    assert known.document is None
    assert "so that the last series counts" in warning
    assert "secret" not in warning


@pytest.mark.parametrize("key", ["secret", "a secret", "ésecret", 300 * "secret"])
def test_a_refusal_names_the_server_but_not_the_key(server: Server, key: str) -> None:
    server.status = 403
    _known, [warning] = read({"url": f"{server.url}/day?key={key}"})
    assert "HTTP 403 to GET /day" in warning
    assert server.url in warning
    assert "secret" not in warning


@pytest.mark.parametrize("url", ["http://[::1", "http://[prices]/day", "prices.example/day"])
def test_a_text_that_is_no_url_is_told(url: str) -> None:
    known, [warning] = read({"url": url})
    assert known == ReadPrices()
    assert "every hour counts the same" in warning and url[:9] in warning


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    known, [warning] = read({"path": str(tmp_path / "none.csv")})
    assert known == ReadPrices()
    assert "No such file" in warning


@pytest.mark.parametrize(
    ("hours", "is_used", "words"),
    [
        (-13, True, ["ended 1 h 00 min ago", "days before"]),
        (-12 - 49, False, ["ended 49 h 00 min ago", "every hour counts the same"]),
        (+12, False, ["begin in", "check their times and the clock"]),
        (-11, True, []),
    ],
)
def test_an_old_series_is_guessed_then_ignored_and_both_are_told(
    tmp_path: Path, hours: int, is_used: bool, words: list[str]
) -> None:
    path = tmp_path / "prices.csv"
    path.write_text(csv(NOW + hours * HOUR, *[5.0] * 12), encoding="utf-8")
    known, warnings = read({"path": str(path)})
    assert (known.series is not None) is is_used
    assert len(warnings) == bool(words)
    assert all(word in warnings[0] for word in words)


def test_holes_are_told(tmp_path: Path) -> None:
    path = tmp_path / "prices.csv"
    path.write_text(csv(NOW - 12 * HOUR, 1, "", "", "", *[2] * 20), encoding="utf-8")
    known, [warning] = read({"path": str(path)})
    assert known.series is not None
    assert warning.startswith("The prices have 1 hole")


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"path": "a", "url": "https://b"}, "two sources"),
        ({"query": "up"}, "needs the URL"),
        ({"defer_pods": True}, "needs a series"),
        ({"path": "a", "max_age": -1.0}, "max_age is -1"),
        ({"path": "a", "margin_seconds": float("nan")}, "margin_seconds is nan"),
    ],
)
def test_contradicting_options_are_refused(options: dict[str, t.Any], problem: str) -> None:
    with pytest.raises(InvalidInput, match=problem):
        sources.check_options(sources.OPTIONS.complete(options))
