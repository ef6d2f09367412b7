# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The fleet client against real servers on loopback."""

from __future__ import annotations

import email.utils
import gzip
import socket
import typing as t
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import (
    InvalidInput,
    MissingLibrary,
    TargetError,
    TargetFailure,
)
from ansible_collections.wattwise.kube.plugins.module_utils.base.libraries import LazyModule
from ansible_collections.wattwise.kube.plugins.module_utils.base.version import USER_AGENT
from ansible_collections.wattwise.kube.plugins.module_utils.fleet import visits
from ansible_collections.wattwise.kube.plugins.module_utils.fleet.failures import (
    retry_after_seconds,
)
from ansible_collections.wattwise.kube.plugins.module_utils.fleet.visits import (
    Budget,
    Client,
    Credential,
    FleetOptions,
    Target,
    Trust,
    visit,
)
from support.certificates import self_signed
from support.fake_pace import FakeTime
from support.https_server import SHARED_CERTIFICATE, Document, HttpsServer, Reply

TRUSTED = Trust(ca_content=SHARED_CERTIFICATE.pem)
QUICK = FleetOptions(timeout=2.0)


async def read_x(client: Client, target: Target) -> t.Any:
    return (await client.get_json("/x")).body


def target(endpoint: str, name: str = "node-1", **fields: t.Any) -> Target:
    return Target(name, endpoint, trust=fields.pop("trust", TRUSTED), **fields)


def only(results: list[t.Any]) -> TargetError:
    assert len(results) == 1
    assert isinstance(results[0], TargetError)
    return results[0]


def test_results_and_errors_come_in_the_order_of_the_targets() -> None:
    steps: list[tuple[int, int, int]] = []

    def progress(done: int, total: int, failed: int) -> None:
        steps.append((done, total, failed))

    with HttpsServer({"/x": {"v": 1}}) as slow, HttpsServer({"/x": {"v": 2}}) as quick:
        slow.delay_seconds = 0.1
        targets = [target(slow.endpoint, "a"), target(quick.endpoint, "b"), target("nowhere", "c")]
        results = visit(targets, read_x, QUICK, progress)
    assert results[:2] == [{"v": 1}, {"v": 2}]
    assert results[2].reason == "malformed"
    assert sorted(done for done, _total, _failed in steps) == [1, 2, 3]
    assert steps[-1] == (3, 3, 1)


def test_no_targets_are_no_results() -> None:
    assert visit([], read_x) == []


def test_one_machine_never_gets_two_requests_at_once() -> None:
    with HttpsServer({"/x": {}}, delay_seconds=0.01) as server:
        visit([target(server.endpoint, f"n{index}") for index in range(8)], read_x)
        assert server.seen.most_in_flight == 1
        assert server.requests["/x"] == 8


def test_work_that_asks_twice_at_once_is_served_one_by_one() -> None:
    import asyncio

    async def both(client: Client, target: Target) -> int:
        return len(await asyncio.gather(client.get_json("/x"), client.get_json("/y")))

    with HttpsServer({"/x": {}, "/y": {}}, delay_seconds=0.01) as server:
        assert visit([target(server.endpoint)], both) == [2]
        assert server.seen.most_in_flight == 1


def test_a_server_that_serves_many_gets_as_many_requests_at_once_as_allowed() -> None:
    options = FleetOptions(per_host=4)
    with HttpsServer({"/x": {}}, certificate=None, delay_seconds=0.02) as server:
        visit([target(server.endpoint, f"n{index}") for index in range(16)], read_x, options)
        assert server.seen.most_in_flight == 4


def test_many_machines_are_asked_at_once_but_not_more_than_allowed() -> None:
    hosts = [f"127.0.0.{number}" for number in range(1, 9)]
    with HttpsServer({"/x": {}}, certificate=None, host="0.0.0.0", delay_seconds=0.05) as server:
        targets = [target(f"http://{host}:{server.port}", host) for host in hosts]
        visit(targets, read_x, FleetOptions(concurrency=3))
        assert server.seen.most_in_flight == 3


@pytest.mark.parametrize("status", [500, 502, 503, 504, 429])
def test_passing_troubles_are_tried_again_with_growing_pauses(status: int) -> None:
    time = FakeTime()
    replies = [Reply(status), Reply(status), Reply(body={"v": 1})]
    with HttpsServer({"/x": replies}) as server:
        assert visit([target(server.endpoint)], read_x, pace=time.pace) == [{"v": 1}]
        assert server.requests["/x"] == 3
    assert time.slept == [0.5, 1.0]


def test_retries_end() -> None:
    with HttpsServer({"/x": Reply(500)}) as server:
        error = only(visit([target(server.endpoint)], read_x, pace=FakeTime().pace))
        assert server.requests["/x"] == 3
    assert error.reason == "server_error"
    assert "HTTP 500" in error.detail and "/x" in error.detail


def test_a_reset_connection_is_tried_again() -> None:
    with HttpsServer({"/x": [Reply(drop=True), Reply(drop=True), Reply(body={})]}) as server:
        assert visit([target(server.endpoint)], read_x, pace=FakeTime().pace) == [{}]


def test_a_connection_that_always_breaks_is_unreachable() -> None:
    with HttpsServer({"/x": Reply(drop=True)}) as server:
        error = only(visit([target(server.endpoint)], read_x, pace=FakeTime().pace))
    assert error.reason == "unreachable"
    assert "broke" in error.detail


@pytest.mark.parametrize(
    ("status", "reason"),
    [(401, "unauthorized"), (403, "forbidden"), (404, "not_found"), (405, "server_error")],
)
def test_final_answers_are_not_asked_for_again(status: int, reason: str) -> None:
    with HttpsServer({"/x": Reply(status)}) as server:
        error = only(visit([target(server.endpoint)], read_x))
        assert server.requests["/x"] == 1
    assert error.reason == reason


def test_a_post_is_sent_once_unless_it_may_be_repeated() -> None:
    async def post(client: Client, target: Target) -> t.Any:
        return (await client.post_json("/x", {"a": 1}, repeatable=target.name == "may")).body

    with HttpsServer({"/x": [Reply(503), Reply(503), Reply(body={})]}) as server:
        targets = [target(server.endpoint, "must not"), target(server.endpoint, "may")]
        results = visit(targets, post, pace=FakeTime().pace)
        assert server.seen.contents == [b'{"a":1}'] * 3
    assert results[0].reason == "server_error"
    assert results[1] == {}


def test_bytes_are_posted_as_they_are() -> None:
    async def post(client: Client, target: Target) -> t.Any:
        return (await client.post_json("/x", b'{"a":1e-7}')).body

    with HttpsServer({"/x": {}}) as server:
        assert visit([target(server.endpoint)], post) == [{}]
        assert server.seen.contents == [b'{"a":1e-7}']


def test_retry_after_is_obeyed_when_it_fits() -> None:
    time = FakeTime()
    with HttpsServer({"/x": [Reply(503, headers={"Retry-After": "4"}), Reply(body={})]}) as server:
        assert visit([target(server.endpoint)], read_x, pace=time.pace) == [{}]
    assert time.slept == [4.0]


def test_retry_after_may_be_a_date() -> None:
    time = FakeTime()
    date = email.utils.formatdate(time.wall + 3, usegmt=True)
    with HttpsServer({"/x": [Reply(429, headers={"Retry-After": date}), Reply(body={})]}) as server:
        assert visit([target(server.endpoint)], read_x, pace=time.pace) == [{}]
    assert time.slept == [3.0]


def test_retry_after_beyond_the_deadline_says_when_to_come_back() -> None:
    time = FakeTime(wall=1_800_000_000.0)
    with HttpsServer({"/x": Reply(503, headers={"Retry-After": "60"})}) as server:
        error = only(visit([target(server.endpoint)], read_x, pace=time.pace))
        assert server.requests["/x"] == 1
    assert error.reason == "throttled"
    assert "2027-01-15T08:01:00Z" in error.detail
    assert time.slept == []


@given(st.text())
def test_any_retry_after_is_a_pause_or_nothing(value: str) -> None:
    seconds = retry_after_seconds(value, 0.0)
    assert seconds is None or seconds >= 0


@given(st.integers(min_value=0, max_value=10**8))
def test_retry_after_in_seconds(seconds: int) -> None:
    assert retry_after_seconds(str(seconds), 0.0) == seconds


@given(st.integers(min_value=0, max_value=2 * 10**9), st.integers(0, 10**6))
def test_retry_after_as_a_date(now: int, ahead: int) -> None:
    assert retry_after_seconds(email.utils.formatdate(now + ahead, usegmt=True), now) == ahead
    assert retry_after_seconds(email.utils.formatdate(now - 1, usegmt=True), now) == 0


@pytest.mark.parametrize("value", [None, "", "soon", "-3", "1e9", "٣", "Fri, 99 Foo 2027"])
def test_a_retry_after_without_meaning_is_none(value: str | None) -> None:
    assert retry_after_seconds(value, 0.0) is None


def test_the_deadline_covers_all_requests_of_a_target() -> None:
    async def twice(client: Client, target: Target) -> None:
        await client.get_json("/x")
        await client.get_json("/slow")

    documents: dict[str, Document] = {"/x": {}, "/slow": Reply(delay_seconds=5, body={})}
    with HttpsServer(documents) as server:
        error = only(visit([target(server.endpoint)], twice, FleetOptions(timeout=0.3)))
    assert error.reason == "timeout"
    assert "0.3 s" in error.detail and "/slow" in error.detail


def test_nothing_is_asked_after_the_deadline() -> None:
    time = FakeTime()

    async def dawdle(client: Client, target: Target) -> None:
        await time.pace.sleep(11)
        await client.get_json("/x")

    with HttpsServer({"/x": {}}) as server:
        error = only(visit([target(server.endpoint)], dawdle, pace=time.pace))
        assert server.total == 0
    assert error.reason == "timeout"


def test_one_request_may_have_less_time_than_the_target() -> None:
    async def impatient(client: Client, target: Target) -> t.Any:
        with pytest.raises(TargetFailure, match="no answer"):
            await client.get_json("/slow", limit=0.05)
        return (await client.get_json("/x")).body["v"]

    with HttpsServer({"/slow": Reply(delay_seconds=5), "/x": {"v": "ok"}}) as server:
        assert visit([target(server.endpoint)], impatient, QUICK) == ["ok"]


def test_a_dead_machine_is_unreachable() -> None:
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        endpoint = f"https://127.0.0.1:{reserved.getsockname()[1]}"
        error = only(visit([target(endpoint)], read_x, QUICK))
    assert error.reason == "unreachable"
    assert "cannot connect" in error.detail


def test_a_machine_that_accepts_but_never_greets_is_unreachable() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        endpoint = f"https://127.0.0.1:{silent.getsockname()[1]}"
        error = only(visit([target(endpoint)], read_x, FleetOptions(timeout=0.3)))
    assert error.reason == "unreachable"


def test_a_name_that_does_not_resolve_is_unreachable() -> None:
    assert only(visit([target("https://bmc.invalid")], read_x, QUICK)).reason == "unreachable"


def test_a_port_that_speaks_no_tls_is_a_tls_error() -> None:
    with HttpsServer({"/x": {}}, certificate=None) as server:
        endpoint = server.endpoint.replace("http:", "https:")
        assert only(visit([target(endpoint)], read_x, QUICK)).reason == "tls"


def test_a_self_signed_certificate_is_not_trusted_by_default() -> None:
    with HttpsServer({"/x": {}}) as server:
        error = only(visit([target(server.endpoint, trust=Trust())], read_x, QUICK))
        assert server.total == 0
    assert error.reason == "tls"
    assert "tls_fingerprint" in error.detail


def test_a_certificate_for_another_name_is_not_trusted() -> None:
    other = self_signed(names=["other.example"])
    with HttpsServer({"/x": {}}, certificate=other) as server:
        trust = Trust(ca_content=other.pem)
        assert only(visit([target(server.endpoint, trust=trust)], read_x, QUICK)).reason == "tls"


def test_verification_can_be_switched_off() -> None:
    with HttpsServer({"/x": {"v": 1}}) as server:
        trust = Trust(validate_certs=False)
        assert visit([target(server.endpoint, trust=trust)], read_x) == [{"v": 1}]


@pytest.mark.parametrize("form", ["ca_path", "ca_content"])
def test_authorities_are_found_among_other_text(tmp_path: Path, form: str) -> None:
    bundle = f"\ufeff# Főtanúsítvány – hall\n{SHARED_CERTIFICATE.pem}# Ende\n".replace("\n", "\r\n")
    path = tmp_path / "ca.pem"
    path.write_bytes(bundle.encode())
    trust = Trust(ca_path=str(path)) if form == "ca_path" else Trust(ca_content=bundle)
    with HttpsServer({"/x": {"v": 1}}) as server:
        assert visit([target(server.endpoint, trust=trust)], read_x) == [{"v": 1}]


@pytest.mark.parametrize("form", ["ca_path", "ca_content"])
def test_a_bundle_without_a_certificate_is_named(tmp_path: Path, form: str) -> None:
    bundle = SHARED_CERTIFICATE.pem.replace("CERTIFICATE", "TRUSTED CERTIFICATE")
    path = tmp_path / "ca.pem"
    path.write_text(bundle)
    trust = Trust(ca_path=str(path)) if form == "ca_path" else Trust(ca_content=bundle)
    error = only(visit([target("https://127.0.0.1", trust=trust)], read_x))
    assert "Cannot read certificate authorities" in error.detail
    assert "it holds no certificate in PEM" in error.detail


def test_authorities_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    error = only(visit([target("https://127.0.0.1", trust=Trust(ca_path="/no/ca.pem"))], read_x))
    assert "/no/ca.pem" in error.detail


def test_ipv6_literals() -> None:
    with HttpsServer({"/x": {"v": 6}}, host="::1") as server:
        assert visit([target(server.endpoint)], read_x) == [{"v": 6}]


@pytest.mark.parametrize(
    "endpoint",
    [
        "",
        "10.0.0.1",
        "10.0.0.1:443",
        "ftp://h",
        "https://",
        "https://[::1",
        "https://h:99999",
        "x y",
    ],
)
def test_an_endpoint_that_is_no_url_says_what_to_write(endpoint: str) -> None:
    error = only(visit([target(endpoint)], read_x))
    assert error.reason == "malformed"
    assert "https://10.0.0.1" in error.detail


def test_a_password_in_an_endpoint_is_refused_and_not_repeated() -> None:
    error = only(visit([target("https://admin:s3cr3t/@h@10.0.0.1")], read_x))
    assert error.reason == "malformed"
    assert "s3cr3t" not in repr(error)


def test_a_password_is_not_in_a_credential_s_text() -> None:
    assert "s3cr3t" not in repr(Target("n", "https://h", Credential("admin", "s3cr3t")))


def test_credentials_and_user_agent_travel() -> None:
    with HttpsServer({"/x": {"v": 1}}, account=("admin", "pä:ss")) as server:
        credential = Credential("admin", "pä:ss")
        assert visit([target(server.endpoint, credential=credential)], read_x) == [{"v": 1}]
        assert server.seen.user_agents == {USER_AGENT}


def test_an_account_that_was_refused_is_not_tried_for_the_next_node_of_the_same_machine() -> None:
    with HttpsServer({"/x": {}}, account=("admin", "right")) as server:
        wrong, right = Credential("admin", "wrong"), Credential("admin", "right")
        results = visit(
            [
                target(server.endpoint, "a", credential=wrong),
                target(server.endpoint, "b", credential=wrong),
                target(server.endpoint, "c", credential=right),
            ],
            read_x,
        )
        assert server.requests["/x"] == 2
    assert [getattr(result, "reason", None) for result in results] == [
        "unauthorized",
        "unauthorized",
        None,
    ]
    assert "refused the same account for a" in results[1].detail


def test_proxies_of_the_environment_are_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")
    with HttpsServer({"/x": {}}) as server:
        assert visit([target(server.endpoint)], read_x) == [{}]


def test_redirects_within_the_machine_are_followed() -> None:
    documents: dict[str, Document] = {"/x": Reply(308, headers={"Location": "/y"}), "/y": {"v": 1}}
    with HttpsServer(documents) as server:
        assert visit([target(server.endpoint)], read_x) == [{"v": 1}]


def test_redirects_elsewhere_are_refused_because_credentials_would_travel() -> None:
    credential = Credential("admin", "secret")
    with HttpsServer({"/x": {}}) as other:
        moved = Reply(302, headers={"Location": f"{other.endpoint}/x"})
        with HttpsServer({"/x": moved}) as server:
            error = only(visit([target(server.endpoint, credential=credential)], read_x))
        assert other.total == 0
    assert error.reason == "server_error"
    assert other.endpoint in error.detail


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize(
    ("location", "path"),
    [
        ("/a/y/", "/a/y"),
        ("y", "/a/y"),
        ("./y?v=1", "/a/y"),
        ("../y", "/y"),
        ("//other.example/y", "/y"),
        ("https://192.0.2.1/a/x/y", "/a/x/y"),
        ("https://admin:word@ilo.example:8443/y#part", "/y"),
    ],
)
def test_the_path_of_a_redirect_is_followed_at_the_given_endpoint(
    status: int, location: str, path: str
) -> None:
    async def read_below(client: Client, target: Target) -> t.Any:
        return (await client.get_json("/a/x")).body

    moved = Reply(status, headers={"Location": location})
    with HttpsServer({"/a/x": moved, path: {"v": 1}}) as server:
        credential = Credential("admin", "secret")
        assert visit([target(server.endpoint, credential=credential)], read_below) == [{"v": 1}]
        assert server.total == 2


def test_a_redirect_to_what_the_endpoint_lacks_names_both() -> None:
    moved = Reply(302, headers={"Location": "https://user:word@login.example/sign-in"})
    with HttpsServer({"/x": moved}) as server:
        error = only(visit([target(server.endpoint)], read_x))
    assert error.reason == "not_found"
    assert "GET /x (redirected to 'https://login.example/sign-in')" in error.detail


@pytest.mark.parametrize("base", ["/proxy", "/proxy/"])
def test_a_redirect_keeps_the_base_path_of_the_endpoint(base: str) -> None:
    moved = Reply(308, headers={"Location": "https://192.0.2.1/y"})
    with HttpsServer({"/proxy/x": moved, "/proxy/y": {"v": 1}}) as server:
        assert visit([target(server.endpoint + base)], read_x) == [{"v": 1}]


def test_a_redirect_from_http_to_https_is_told_and_not_followed() -> None:
    with HttpsServer({"/x": {}}) as secure, HttpsServer({}, certificate=None) as server:
        location = f"https://127.0.0.1:{secure.port}/x"
        server.documents = {"/x": Reply(301, headers={"Location": location})}
        error = only(visit([target(server.endpoint)], read_x))
        assert (error.reason, secure.total, server.total) == ("server_error", 0, 1)
    assert f"points to {location}, another origin" in error.detail
    assert "make it the endpoint" in error.detail


@pytest.mark.parametrize("location", ["ftp://h/x", "https://[::1/x", "https://h:99999/x", "a:b"])
def test_a_redirect_to_what_is_no_url_is_told(location: str) -> None:
    with HttpsServer({"/x": Reply(308, headers={"Location": location})}) as server:
        error = only(visit([target(server.endpoint)], read_x))
    assert error.reason == "malformed"
    assert "which is not a URL" in error.detail


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_write_is_never_redirected(status: int) -> None:
    async def post_x(client: Client, target: Target) -> t.Any:
        return (await client.post_json("/x", {"v": 1}, repeatable=True)).body

    moved = Reply(status, headers={"Location": "/y"})
    with HttpsServer({"/x": moved, "/y": {}}) as server:
        error = only(visit([target(server.endpoint)], post_x))
        assert (error.reason, dict(server.requests)) == ("server_error", {"/x": 1})
    assert "only a GET follows a redirect" in error.detail


def test_a_long_chain_of_redirects_ends() -> None:
    chain = {
        f"/x{step or ''}": Reply(307, headers={"Location": f"https://192.0.2.{step}/x{step + 1}"})
        for step in range(9)
    }
    with HttpsServer(chain) as server:
        error = only(visit([target(server.endpoint)], read_x))
        assert (error.reason, server.total) == ("server_error", 4)


def test_redirects_in_a_circle_end() -> None:
    with HttpsServer({"/x": Reply(302, headers={"Location": "/x"})}) as server:
        assert only(visit([target(server.endpoint)], read_x)).reason == "server_error"
        assert server.requests["/x"] == 1


def test_a_link_to_another_host_is_refused() -> None:
    async def stray(client: Client, target: Target) -> None:
        await client.get_json("https://127.0.0.2/x")

    with HttpsServer({}) as server:
        assert only(visit([target(server.endpoint)], stray)).reason == "server_error"
        assert server.total == 0


def test_an_absolute_link_to_the_same_machine_is_followed() -> None:
    async def absolute(client: Client, target: Target) -> t.Any:
        return (await client.get_json(f"{target.endpoint}/x#/Temperatures/0")).body

    with HttpsServer({"/x": {"v": 1}}) as server:
        assert visit([target(server.endpoint)], absolute) == [{"v": 1}]
        assert list(server.requests) == ["/x"]


@pytest.mark.parametrize("base", ["/proxy", "/proxy/"])
def test_the_endpoint_s_base_path_is_kept_and_not_doubled(base: str) -> None:
    async def both(client: Client, target: Target) -> list[t.Any]:
        return [(await client.get_json(link)).body for link in ("/x", "/proxy/x", "x")]

    with HttpsServer({"/proxy/x": {"v": 1}}) as server:
        assert visit([target(server.endpoint + base)], both) == [[{"v": 1}] * 3]


@pytest.mark.parametrize(
    ("link", "asked"),
    [
        ("/a%23b", "/a%23b"),
        ("/a:b/c", "/a:b/c"),
        ("/a b/ü", "/a%20b/%C3%BC"),
        ("/x\r\nHost: evil", "/xHost:%20evil"),
        ("/x?$expand=.($levels=1)", "/x?$expand=.($levels=1)"),
        ("/x/", "/x/"),
    ],
)
def test_links_are_not_quoted_twice_and_break_nothing(link: str, asked: str) -> None:
    async def follow(client: Client, target: Target) -> None:
        await client.get_json(link)

    with HttpsServer({}) as server:
        assert only(visit([target(server.endpoint)], follow)).reason == "not_found"
        assert list(server.requests) == [asked]


@pytest.mark.parametrize(
    "content",
    [b"", b"<html>", b"{", b"[" * 100_000, b"\xff\xfe\xfd"],
    ids=["empty", "html", "cut", "deep", "bytes"],
)
def test_an_answer_that_is_not_json_is_malformed(content: bytes) -> None:
    with HttpsServer({"/x": Reply(body=content)}) as server:
        error = only(visit([target(server.endpoint)], read_x))
    assert error.reason == "malformed"
    assert "not the expected JSON" in error.detail


async def read_until_it_fails(client: Client, target: Target) -> t.Any:
    while True:
        await client.get_json("/x")


BUDGET = Budget(requests=30, size=200_000, members=5_000, depth=10, text=1_000)
OVER = {
    "one answer": (Reply(body=b" " * 200_001), 1, "more than 0.190735 MiB in all"),
    "many answers": (Reply(body={"a": ["b" * 900] * 20}), 11, "more than 0.190735 MiB in all"),
    "many requests": (Reply(body={"a": 1}), 30, "more than 30 requests"),
    "many members": (Reply(body=list(range(1_000))), 6, "more than 0 members"),
    "headers": (Reply(body={}, headers={f"X-{n}": "x" * 8000 for n in range(8)}), 4, "MiB in all"),
    "one header": (Reply(body={}, headers={"X": "x" * 9000}), 1, "is not valid HTTP"),
    "depth": (Reply(body=b"[" * 11 + b"]" * 11), 1, "nested more than 10 deep"),
    "a text": (Reply(body={"a": "b" * 1001}), 1, "a text of more than 1000 bytes"),
    "a text of escapes": (Reply(body=b'["' + b"\\\\" * 501 + b'"]'), 1, "a text of more than"),
    "gzip": (
        Reply(body=gzip.compress(b" " * 50_000_000), headers={"Content-Encoding": "gzip"}),
        1,
        "MiB in all",
    ),
    "brotli": (Reply(body=b"abc", headers={"Content-Encoding": "br"}), 1, "is packed as 'br'"),
}


@pytest.mark.parametrize("case", OVER)
def test_a_target_that_is_over_its_budget_is_malformed_after_that_many_requests(case: str) -> None:
    reply, requests, detail = OVER[case]
    options = FleetOptions(budget=BUDGET)
    with HttpsServer({"/x": reply}) as server, HttpsServer({"/x": {"v": 1}}) as well:
        targets = [target(server.endpoint), target(well.endpoint, "well")]

        async def work(client: Client, one: Target) -> t.Any:
            return await (read_x if one.name == "well" else read_until_it_fails)(client, one)

        error, good = visit(targets, work, options)
        # The request above the limit is not even sent.
        assert server.requests["/x"] == requests
    assert good == {"v": 1}
    assert (error.reason, detail in error.detail) == ("malformed", True), error


def test_a_number_that_is_none_is_null_and_no_other_value_is_lost() -> None:
    body = b'{"a": NaN, "b": -Infinity, "c": 1e999, "d": ' + b"9" * 5000 + b', "e": [1.5, 7]}'
    with HttpsServer({"/x": Reply(body=body)}) as server:
        [answer] = visit([target(server.endpoint)], read_x)
    assert answer == {"a": None, "b": None, "c": None, "d": None, "e": [1.5, 7]}


def test_an_answer_in_gzip_that_nobody_asked_for_is_read() -> None:
    body = gzip.compress(b'{"v": 1}')
    with HttpsServer({"/x": Reply(body=body, headers={"Content-Encoding": "gzip"})}) as server:
        assert visit([target(server.endpoint)], read_x) == [{"v": 1}]


def test_an_answer_that_is_not_http_is_malformed() -> None:
    import threading

    def babble(listener: socket.socket) -> None:
        connection, _address = listener.accept()
        with connection:
            connection.recv(1000)
            connection.sendall(b"SSH-2.0-OpenSSH_9.2\r\n\r\n")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=babble, args=(listener,))
        thread.start()
        endpoint = f"http://127.0.0.1:{listener.getsockname()[1]}"
        error = only(visit([target(endpoint)], read_x, QUICK))
        thread.join()
    assert error.reason == "malformed"


def test_what_work_raises_as_an_error_of_ours_is_the_target_s() -> None:
    async def refuse(client: Client, target: Target) -> None:
        raise {"input": InvalidInput("no such thing"), "os": OSError(5, "I/O error")}[target.name]

    results = visit([target("http://h", "input"), target("http://h", "os")], refuse)
    assert [getattr(result, "reason", None) for result in results] == ["malformed", "unreachable"]
    assert getattr(results[0], "detail", None) == "no such thing"


DEFECTS = [
    KeyError("x"),
    RecursionError(),
    OverflowError("y"),
    UnicodeDecodeError("a", b"", 0, 0, ""),
]


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: type(defect).__name__)
def test_any_exception_of_one_target_is_its_error_and_no_other_s(defect: Exception) -> None:
    async def fail(client: Client, target: Target) -> str:
        if target.name == "bad":
            raise defect
        return target.name

    targets = [target("http://h", "a"), target("http://i", "bad"), target("http://j", "c")]
    first, error, last = visit(targets, fail)
    assert (first, last) == ("a", "c")
    assert isinstance(error, TargetError)
    assert error.reason == "malformed"
    assert type(defect).__name__ in error.detail


def test_a_missing_library_ends_the_visit() -> None:
    async def fail(client: Client, target: Target) -> None:
        raise MissingLibrary("aiohttp", "absent")

    with pytest.raises(MissingLibrary):
        visit([target("http://h", "a"), target("http://h", "b")], fail)


def test_connections_are_kept_for_a_target_and_closed_after_it() -> None:
    async def thrice(client: Client, target: Target) -> None:
        for _index in range(3):
            await client.get_json("/x")

    with HttpsServer({"/x": {}}) as server:
        visit([target(server.endpoint)], thrice)
        assert len(server.seen.peers) == 1


def test_a_visit_that_cannot_start_says_which_library_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(visits, "aiohttp", LazyModule("absent_library", "aiohttp"))
    with pytest.raises(MissingLibrary, match="The Python library aiohttp is needed here"):
        visit([target("https://127.0.0.1")], read_x)
