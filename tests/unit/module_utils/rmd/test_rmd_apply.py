# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""rmd_workload's function on simulated daemons, over HTTP and TLS."""

from __future__ import annotations

import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from ansible_collections.wattwise.kube.plugins.module_utils.base.context import Context
from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import (
    InvalidInput,
    WattwiseError,
)
from ansible_collections.wattwise.kube.plugins.module_utils.rmd.daemon.apply import apply_workloads
from lab import pki
from lab.rmd.host import Configuration, Host
from lab.rmd.resctrl import ROOT
from support.certificates import self_signed
from support.https_server import HttpsServer, Reply
from support.rmd import BROADWELL, RmdDaemons, rmd_daemons

CACHE = {"max": 2, "min": 2}
TLS = Configuration(debug=False)
CONFIGURATIONS = {
    "old": Configuration(pstate=True),
    "new": Configuration(wire="0.3"),
    "bandwidth": Configuration(wire="0.3"),
    "plain": Configuration(),
    "narrow": Configuration(guarantee=19, besteffort=0, shared=0),
    "secure": TLS,
    "secure-new": TLS.with_(wire="0.3"),
    "pam": TLS.with_(client_auth="no", users={"admin": "secret", "user": "secret"}),
}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RmdDaemons]:
    folder = tmp_path_factory.mktemp("rmd")
    hosts = {"bandwidth": Host(BROADWELL.caches, mba=True)}
    with rmd_daemons(folder, CONFIGURATIONS, hosts=hosts) as daemons:
        yield daemons


@pytest.fixture
def daemons(running: RmdDaemons) -> Iterator[RmdDaemons]:
    yield running
    running.mend()
    for name in running.endpoints:
        running.fleet.stations[name].requests.clear()
        groups = running[name].hardware.resctrl.groups
        for group in set(groups) - {ROOT}:
            running[name].hardware.resctrl.remove(group)
        running.restart(name)


def workload(
    name: str = "a", core_ids: t.Sequence[str] = ("1", "2"), **members: t.Any
) -> dict[str, t.Any]:
    return {"name": name, "core_ids": list(core_ids), "cache": CACHE, **members}


def apply(
    daemons: RmdDaemons,
    names: str,
    *workloads: dict[str, t.Any],
    check: bool = False,
    **options: t.Any,
) -> dict[str, t.Any]:
    targets = [{"name": name, "endpoint": daemons.endpoint(name)} for name in names.split()]
    parameters = {"targets": targets, "workloads": list(workloads), **daemons.tls, **options}
    return apply_workloads(parameters, Context(check_mode=check))


def stored(daemons: RmdDaemons, name: str) -> dict[str, dict[str, t.Any]]:
    daemon = daemons[name]
    wire = daemon.configuration.wire
    return {item.uuid: item.document(wire) for item in daemon.workloads.values()}


@pytest.mark.parametrize("name", ["old", "new", "secure", "secure-new"])
def test_a_workload_comes_changes_and_goes(daemons: RmdDaemons, name: str) -> None:
    made = apply(daemons, name, workload())
    [result] = made["results"]
    assert (made["changed"], made["errors"]) == (True, [])
    assert (result["name"], result["id"], result["status"]) == (name, "1", "Successful")
    assert result["response"] == "Success: 201"
    before = daemons.writes()
    again = apply(daemons, name, workload(core_ids=["1-2"]))
    assert (again["changed"], again["results"][0]["response"]) == (False, "Success: 200")
    assert again["results"][0]["cos_name"] == result["cos_name"]
    assert daemons.writes() == before
    grown = apply(daemons, name, workload(cache={"max": 4, "min": 2}))
    assert (grown["changed"], grown["results"][0]["action"]) == (True, "changed")
    moved = apply(daemons, name, workload(core_ids=["3"], cache={"max": 4, "min": 2}))
    assert (moved["results"][0]["action"], moved["results"][0]["id"]) == ("replaced", "2")
    gone = apply(daemons, name, workload(), state="absent")
    assert (gone["changed"], gone["results"][0]["action"]) == (True, "deleted")
    assert stored(daemons, name) == {}
    assert apply(daemons, name, workload(), state="absent")["changed"] is False
    assert set(daemons[name].hardware.resctrl.groups) == {ROOT}


def test_the_group_is_named_by_the_list_as_it_was_written(daemons: RmdDaemons) -> None:
    made = apply(daemons, "old", workload(core_ids=["1-3", "6"]))
    assert made["results"][0]["cos_name"] == "1-3_6-guarantee"


def test_check_mode_tells_and_writes_nothing(daemons: RmdDaemons) -> None:
    apply(daemons, "old", workload("b", ["5"]))
    before = daemons.writes()
    shown = apply(
        daemons, "old", workload(), workload("b", ["5"], cache={"max": 4, "min": 4}), check=True
    )
    assert [item["action"] for item in shown["results"]] == ["created", "changed"]
    assert shown["changed"] is True
    [diff] = shown["diff"]
    assert diff == {
        "before_header": "workloads (before)",
        "after_header": "workloads (after)",
        "before": {"old: a": "", "old: b": {"core_ids": ["5"], "cache": CACHE}},
        "after": {
            "old: a": {"core_ids": ["1", "2"], "cache": CACHE},
            "old: b": {"core_ids": ["5"], "cache": {"max": 4, "min": 4}},
        },
    }
    assert daemons.writes() == before


def test_a_policy_overrides_and_is_not_written_twice(daemons: RmdDaemons) -> None:
    apply(daemons, "plain", workload(policy="silver"))
    assert stored(daemons, "plain")["a"]["cache"] == {"max": 2, "min": 1}
    assert apply(daemons, "plain", workload(policy="silver"))["changed"] is False
    assert apply(daemons, "plain", workload(policy="gold"))["changed"] is True
    assert apply(daemons, "plain", workload())["results"][0]["action"] == "replaced"
    assert "policy" not in stored(daemons, "plain")["a"]


def test_p_state_is_compared_as_a_number(daemons: RmdDaemons) -> None:
    pstate = {"ratio": "3.0", "monitoring": "on"}
    apply(daemons, "old", workload(pstate=pstate))
    assert stored(daemons, "old")["a"]["pstate"] == {"ratio": 3, "monitoring": "on"}
    assert (
        apply(daemons, "old", workload(pstate={"ratio": 3, "monitoring": "ON"}))["changed"] is False
    )
    apply(daemons, "old", workload())
    assert stored(daemons, "old")["a"]["pstate"] == {}


def test_bandwidth_in_v03(daemons: RmdDaemons) -> None:
    apply(daemons, "bandwidth", workload(mba={"percentage": 50}))
    assert stored(daemons, "bandwidth")["a"]["rdt"]["mba"] == {"percentage": 50}
    apply(daemons, "bandwidth", workload())
    assert stored(daemons, "bandwidth")["a"]["rdt"]["mba"] == {"percentage": 100}
    assert apply(daemons, "bandwidth", workload())["changed"] is False
    [error] = apply(daemons, "old", workload(mba={"percentage": 50}))["errors"]
    assert "v0.2, which knows no memory bandwidth" in error["detail"]


def test_v03_frees_every_cpu_of_a_range_again(daemons: RmdDaemons) -> None:
    apply(daemons, "new", workload(core_ids=["1-3"]))
    apply(daemons, "new", workload(core_ids=["1-3"]), state="absent")
    groups = daemons["new"].hardware.resctrl.groups
    assert set(groups) == {ROOT}


def test_names_of_other_namespaces_do_not_collide(daemons: RmdDaemons) -> None:
    apply(daemons, "old", workload(), workload(namespace="team", core_ids=["4"]))
    assert set(stored(daemons, "old")) == {"a", "team/a"}
    apply(daemons, "old", workload(namespace="team", core_ids=["4"]), state="absent")
    assert set(stored(daemons, "old")) == {"a"}


def test_foreign_workloads_are_never_touched(daemons: RmdDaemons) -> None:
    apply(daemons, "old", workload("foreign", ["1"]))
    before = stored(daemons, "old")
    result = apply(daemons, "old", workload("a", ["1", "2"]))
    assert stored(daemons, "old") == before
    assert result["errors"][0]["reason"] == "conflict"
    assert "CPU 1 belongs to the workload 'foreign' (id 1)" in result["errors"][0]["detail"]
    assert result["changed"] is False


def test_workloads_swap_their_cpus(daemons: RmdDaemons) -> None:
    apply(daemons, "old", workload("a", ["1"]), workload("b", ["2"]))
    result = apply(daemons, "old", workload("a", ["2"]), workload("b", ["1"]))
    assert (result["errors"], result["changed"]) == ([], True)
    assert {key: item["core_ids"] for key, item in stored(daemons, "old").items()} == {
        "a": ["2"], "b": ["1"],
    }  # fmt: skip


def test_what_shrinks_makes_room_for_what_grows(daemons: RmdDaemons) -> None:
    apply(daemons, "old", workload("a", ["1"]), workload("b", ["2"], cache={"max": 8, "min": 8}))
    result = apply(
        daemons, "old", workload("a", ["1"], cache={"max": 6, "min": 6}), workload("b", ["2"])
    )
    assert result["errors"] == []


def test_a_change_that_fails_is_restored_and_said(daemons: RmdDaemons) -> None:
    apply(daemons, "old", workload())
    result = apply(daemons, "old", workload(cache={"max": 12, "min": 12}))
    assert result["changed"] is False
    assert result["results"][0]["response"] == "Fail: Not enough cache left on cache_id 0"
    detail = result["errors"][0]["detail"]
    # The daemon had released the workload's own ways when it refused.
    assert "free ways of this cache: besteffort 11-17 (longest run 7), guaranteed 1-10 (" in detail
    assert detail.endswith("the previous workload was restored (id 2)")
    assert stored(daemons, "old")["a"]["cache"] == CACHE
    assert daemons["old"].hardware.resctrl.groups["1_2-guarantee"].cpus == {1, 2}


@pytest.mark.parametrize("name", ["old", "new"])
def test_a_refusal_names_the_ways_that_the_run_has_left(daemons: RmdDaemons, name: str) -> None:
    big, more = ({"max": ways, "min": ways} for ways in (8, 4))
    result = apply(daemons, name, workload("a", ["1"], cache=big), workload("b", ["2"], cache=more))
    [error] = result["errors"]
    assert error["detail"].startswith("workload b: ")
    assert "guaranteed 1-2 (longest run 2)" in error["detail"]


@pytest.mark.parametrize("name", ["old", "new"])
def test_a_change_to_an_unknown_policy_is_restored(daemons: RmdDaemons, name: str) -> None:
    """The daemon notices only after it has released the workload's ways."""
    apply(daemons, name, workload())
    result = apply(daemons, name, workload(cache=None, policy="platinum"))
    assert result["changed"] is False
    assert "the previous workload was restored" in result["errors"][0]["detail"]
    kept = stored(daemons, name)["a"]
    assert kept["cos_name"] in daemons[name].hardware.resctrl.groups


def test_a_replacement_that_fails_is_restored_and_said(daemons: RmdDaemons) -> None:
    apply(daemons, "old", workload())
    wanted = workload(core_ids=["3"], cache={"max": 12, "min": 12})
    result = apply(daemons, "old", wanted)
    assert "was restored" in result["errors"][0]["detail"]
    assert stored(daemons, "old")["a"]["core_ids"] == ["1", "2"]


def test_capacity_is_asked_for_before_anything_is_written(daemons: RmdDaemons) -> None:
    big = {"max": 8, "min": 8}
    apply(daemons, "old", workload("b", ["5"]), workload("c", ["6"]))
    before = stored(daemons, "old")
    result = apply(daemons, "old", workload(cache=big), require_capacity=True)
    assert "nothing was sent: Not enough cache left on cache_id 0" in result["errors"][0]["detail"]
    assert stored(daemons, "old") == before
    elsewhere = apply(daemons, "old", workload(core_ids=["22"], cache=big), require_capacity=True)
    assert (elsewhere["errors"], elsewhere["changed"]) == ([], True)
    policy = apply(daemons, "new", workload(policy="gold"), require_capacity=True)
    assert policy["errors"] == []


def test_a_lost_database_is_made_good(daemons: RmdDaemons) -> None:
    apply(daemons, "old new", workload(), workload("b", ["3"]))
    daemons.restart("old", loses_database=True)
    daemons.restart("new", loses_database=True)
    result = apply(daemons, "old new", workload(), workload("b", ["3"]))
    assert (result["errors"], result["changed"]) == ([], True)
    for name in ("old", "new"):
        assert set(stored(daemons, name)) == {"a", "b"}
        assert len(daemons[name].hardware.resctrl.groups) == 3


# --- bad input ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "given", "text"),
    [
        ("plain", {"core_ids": ["1", "44"]}, "the machine has no CPU 44 (it has 0-43)"),
        ("plain", {"core_ids": ["900"]}, "the machine has no CPU 900"),
        ("plain", {"cache": {"max": 11, "min": 11}}, "longest run 10"),
        ("narrow", {"cache": {"max": 2, "min": 1}}, "has no ways in the machine's rmd.toml"),
        ("plain", {"policy": "platinum"}, "rmd_info with gather: [policies]"),
        ("plain", {"pstate": {"ratio": 1.5}}, "without the P-state plugin"),
        ("new", {"pstate": {"ratio": 1.5}}, "without the P-state plugin"),
        ("new", {"mba": {"percentage": 50}}, "no memory bandwidth allocation"),
        ("bandwidth", {"mba": {"mbps": 50}}, "in the other unit"),
    ],
)
def test_what_a_daemon_refuses_is_explained(
    daemons: RmdDaemons, name: str, given: dict[str, t.Any], text: str
) -> None:
    result = apply(daemons, name, workload(**given))
    [error] = result["errors"]
    assert text in error["detail"]
    assert result["results"][0]["response"].startswith("Fail: ")
    assert (result["changed"], stored(daemons, name)) == (False, {})


def test_classes_of_service_that_others_hold(daemons: RmdDaemons) -> None:
    resctrl = daemons["plain"].hardware.resctrl
    for number in range(15):
        resctrl.write(f"libvirt-{number}", dict.fromkeys(BROADWELL.caches, 0xFFFFF), (), ())
    [error] = apply(daemons, "plain", workload())["errors"]
    assert "no class of service is left" in error["detail"]


def test_what_a_daemon_does_not_tell_blocks_no_other_workload(daemons: RmdDaemons) -> None:
    resctrl = daemons["plain"].hardware.resctrl
    apply(daemons, "plain", workload())
    for number in range(14):
        resctrl.write(f"libvirt-{number}", dict.fromkeys(BROADWELL.caches, 0xFFFFF), (), ())
    everything = {"name": "all", "all_cores": True, "cache": CACHE}
    result = apply(daemons, "plain", everything, workload())
    assert [item["action"] for item in result["results"]] == ["failed", "unchanged"]
    [error] = result["errors"]
    assert error["detail"].startswith("workload all: it is for all CPUs, and the daemon does not")


def test_an_exhausted_pool(daemons: RmdDaemons) -> None:
    daemons.break_it("plain", "rmd-pool-exhausted")
    [error] = apply(daemons, "plain", workload())["errors"]
    assert "guaranteed none (longest run 0)" in error["detail"]


def test_one_bad_daemon_stops_no_other(daemons: RmdDaemons) -> None:
    daemons.break_it("old", "rmd-dead")
    daemons.break_it("new", "rmd-garbage")
    daemons.break_it("plain", "rmd-slow", seconds=2)
    apply(daemons, "new", workload())
    result = apply(daemons, "old new plain bandwidth", workload(), timeout=0.5)
    assert {error["name"]: error["reason"] for error in result["errors"]} == {
        "old": "unreachable", "new": "malformed", "plain": "timeout",
    }  # fmt: skip
    assert [item["name"] for item in result["results"]] == ["bandwidth"]
    with pytest.raises(WattwiseError, match="Only 1 of 4 targets succeeded") as raised:
        apply(daemons, "old new plain bandwidth", workload(), timeout=0.5, on_error="fail")
    assert raised.value.fields["results"][0]["name"] == "bandwidth"


def test_a_silent_daemon_is_a_timeout(daemons: RmdDaemons) -> None:
    daemons.break_it("secure", "rmd-dead", silent=True)
    [error] = apply(daemons, "secure", workload(), timeout=0.3)["errors"]
    assert error["reason"] in ("timeout", "unreachable")


def test_what_is_no_rmd_is_malformed(daemons: RmdDaemons) -> None:
    documents: dict[str, t.Any] = {"/v1/workloads": {"not": "a list"}}
    with HttpsServer(documents, certificate=None) as server:
        target = [{"name": "x", "endpoint": server.endpoint}]
        [error] = apply_workloads({"targets": target, "workload": workload()})["errors"]
    assert (error["reason"], "is not a list of workloads" in error["detail"]) == ("malformed", True)


def test_a_client_that_may_only_look(daemons: RmdDaemons) -> None:
    user = daemons.files.user
    options: dict[str, t.Any] = {"client_cert": str(user.certificate), "client_key": str(user.key)}
    result = apply(daemons, "secure", workload(), **options)
    [error] = result["errors"]
    assert error["reason"] == "forbidden"
    assert "an administrator's" in error["detail"]
    # It is not an answer about the workload, for which a pod might be ended.
    assert result["results"][0]["response"].startswith("Failed: ")


def test_a_wrong_client_certificate(daemons: RmdDaemons, tmp_path: Path) -> None:
    other = pki.issue(pki.create_authority(tmp_path), "Alice", [], [], tmp_path, client=True)
    options: dict[str, t.Any] = {
        "client_cert": str(other.certificate),
        "client_key": str(other.key),
    }
    [error] = apply(daemons, "secure", workload(), **options)["errors"]
    assert error["reason"] == "tls"
    assert "does not accept the client's certificate" in error["detail"]
    [error] = apply(daemons, "secure", workload(), client_cert=None, client_key=None)["errors"]
    assert error["reason"] == "tls"
    assert stored(daemons, "secure") == {}


def test_user_name_and_password_where_a_daemon_asks_for_them(daemons: RmdDaemons) -> None:
    account: dict[str, t.Any] = {
        "client_cert": None,
        "client_key": None,
        "username": "admin",
        "password": "secret",
    }
    assert apply(daemons, "pam", workload(), **account)["errors"] == []
    assert set(stored(daemons, "pam")) == {"a"}
    cases: list[tuple[dict[str, t.Any], str, str]] = [
        ({"password": "wrong"}, "unauthorized", "Authentication failure"),
        ({"username": "user"}, "forbidden", 'User "user" is not authorized'),
        ({"username": None, "password": None}, "unauthorized", "or username and password"),
    ]
    for changes, reason, words in cases:
        result = apply(daemons, "pam", workload(core_ids=["3"]), **{**account, **changes})
        [error] = result["errors"]
        assert (error["reason"], words in error["detail"]) == (reason, True), error
    assert stored(daemons, "pam")["a"]["core_ids"] == ["1", "2"]


def test_a_certificate_for_another_name(daemons: RmdDaemons) -> None:
    [error] = apply(daemons, "secure", workload(), tls_server_name="")["errors"]
    assert error["reason"] == "tls"


def test_a_short_key_is_refused_and_never_becomes_plain_http(
    daemons: RmdDaemons, tmp_path: Path
) -> None:
    key = rsa.generate_private_key(public_exponent=65537, key_size=1024)
    certificate, key_file = tmp_path / "cert.pem", tmp_path / "key.pem"
    certificate.write_text(self_signed(key=key).pem)
    key_file.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    options: dict[str, t.Any] = {"client_cert": str(certificate), "client_key": str(key_file)}
    with pytest.raises(InvalidInput, match="1024 bits, fewer than 2048"):
        apply(daemons, "secure", workload(), **options)
    assert not daemons.fleet.stations["secure"].requests


@pytest.mark.parametrize("names", ["", "# Főtanúsítvány – hall\n"])
def test_a_long_rsa_key_is_accepted(daemons: RmdDaemons, tmp_path: Path, names: str) -> None:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    certificate, key_file = tmp_path / "cert.pem", tmp_path / "key.pem"
    certificate.write_text(f"{names}{self_signed(key=key).pem}{names}", encoding="utf-8")
    key_file.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    options: dict[str, t.Any] = {"client_cert": str(certificate), "client_key": str(key_file)}
    [error] = apply(daemons, "secure", workload(), **options)["errors"]
    assert "does not accept the client's certificate" in error["detail"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"client_cert": "/nowhere.pem"}, "Cannot read the client certificate /nowhere.pem"),
        ({"workloads": None}, "No workload is given for secure"),
        ({"workloads": [workload(), workload()]}, "two workloads have one name"),
        ({"timeout": 0}, "give seconds above 0"),
        ({"workloads": [workload(cache={"max": 2, "min": 0})]}, "is not a request to RMD"),
    ],
)
def test_what_is_wrong_for_all_fails_at_once(
    daemons: RmdDaemons, options: dict[str, t.Any], message: str
) -> None:
    with pytest.raises(InvalidInput, match=message):
        apply(daemons, "secure", **{"workloads": [workload()], **options})


def test_targets_may_have_workloads_of_their_own(daemons: RmdDaemons) -> None:
    targets = [
        {
            "name": name,
            "endpoint": daemons.endpoint(name),
            "workloads": [workload(f"of-{name}", ["7"])],
        }
        for name in ("old", "new")
    ]
    result = apply_workloads({"targets": targets, "workload": workload()})
    assert result["errors"] == []
    assert set(stored(daemons, "old")) == {"a", "of-old"}
    assert set(stored(daemons, "new")) == {"a", "of-new"}


# --- answers that get lost, and daemons that change under our hands -------------------------------

MADE = {
    "id": "1", "uuid": "a", "core_ids": ["1", "2"], "status": "Successful", "origin": "REST",
    "cos_name": "1_2-guarantee", "cache": CACHE, "pstate": {},
}  # fmt: skip
POLICIES = {"gold": {"cache": {"max": "2", "min": "2"}}}


def scripted(
    *replies: Reply,
    one: Reply | None = None,
    workloads: t.Sequence[dict[str, t.Any]] = (),
) -> dict[str, t.Any]:
    """apply_workloads on a server with these successive answers to /v1/workloads.

    `one` is its answer to /v1/workloads/1.
    """
    documents: dict[str, t.Any] = {
        "/v1/workloads": list(replies), "/v1/policy": POLICIES, "/v1/cache/l3": Reply(400, b""),
        "/v1/workloads/1": one or Reply(404, b"404: Could not found workload"),
    }  # fmt: skip
    with HttpsServer(documents, certificate=None) as server:
        targets = [{"name": "n", "endpoint": server.endpoint}]
        return apply_workloads({"targets": targets, "workloads": list(workloads) or [workload()]})


def test_a_write_whose_answer_was_lost_is_looked_for_and_not_repeated() -> None:
    result = scripted(Reply(body=[]), Reply(drop=True), Reply(body=[MADE]))
    assert (result["errors"], result["changed"]) == ([], True)
    assert result["results"][0]["id"] == "1"


def test_a_cpu_that_was_taken_meanwhile_is_named() -> None:
    """v0.2 shows CPUs 1 and 2 as 6, a mask that upstream's README does not explain."""
    words = (
        b"Failed to validate workload. Reason: Workload validation in database failed."
        b" Details: CPU list 6 has been assigned\n"
    )
    [error] = scripted(Reply(body=[]), Reply(400, words))["errors"]
    assert "'6' is a hexadecimal mask: CPU 1-2 has a workload" in error["detail"]


def test_a_daemon_that_is_lost_on_the_way_fails_the_rest_and_keeps_what_was_done() -> None:
    result = scripted(
        Reply(body=[]), Reply(201, MADE), Reply(drop=True), Reply(body=[MADE]),
        workloads=[workload(), workload("b", ["3"]), workload("c", ["4"])],
    )  # fmt: skip
    assert [item["action"] for item in result["results"]] == ["created", "failed", "failed"]
    assert {error["reason"] for error in result["errors"]} == {"unreachable"}
    assert result["changed"] is True


def test_a_workload_that_went_meanwhile_is_replaced_all_the_same() -> None:
    result = scripted(Reply(body=[{**MADE, "core_ids": ["9"]}]), Reply(201, MADE))
    assert (result["errors"], result["results"][0]["action"]) == ([], "replaced")


def test_a_refusal_with_status_200_is_a_refusal() -> None:
    words = b"200: You only have permission to modify REST origin workloads"
    other = {**MADE, "cache": {"max": 4, "min": 4}}
    result = scripted(Reply(body=[other]), one=Reply(200, words))
    assert "You only have permission" in result["errors"][0]["detail"]
    assert result["changed"] is False
    moved = scripted(Reply(body=[{**MADE, "core_ids": ["9"]}]), one=Reply(200, words))
    assert "You only have permission" in moved["errors"][0]["detail"]


def test_what_could_not_be_restored_is_said() -> None:
    full = Reply(500, b"Not enough cache left on cache_id 0")
    other = {**MADE, "core_ids": ["9"]}
    result = scripted(Reply(body=[other]), full, full, one=Reply(200, b""))
    assert "the previous workload could not be restored" in result["errors"][0]["detail"]
    assert (result["changed"], result["results"][0]["id"]) == (True, None)


def test_what_openstack_made_is_left_alone(daemons: RmdDaemons) -> None:
    apply(daemons, "plain", workload())
    held = daemons["plain"].workloads
    held["1"] = held["1"].with_(origin="OPENSTACK")
    for state in ("present", "absent"):
        result = apply(daemons, "plain", workload(), state=state)
        assert "made by OPENSTACK" in result["errors"][0]["detail"]
        assert (result["changed"], "1" in held) == (False, True)


def test_a_score_that_cannot_be_had_is_an_error_of_that_workload(daemons: RmdDaemons) -> None:
    user = daemons.files.user
    options: dict[str, t.Any] = {"client_cert": str(user.certificate), "client_key": str(user.key)}
    result = apply(daemons, "secure", workload(), require_capacity=True, **options)
    assert result["errors"][0]["reason"] == "forbidden"
    pstate = {"name": "a", "core_ids": ["1"], "pstate": {"ratio": 1.5}}
    assert apply(daemons, "old", pstate, require_capacity=True)["errors"] == []


def test_a_daemon_whose_version_cannot_be_told() -> None:
    with HttpsServer(
        {"/v1/workloads": Reply(body=[]), "/v1/policy": {}}, certificate=None
    ) as server:
        targets = [{"name": "n", "endpoint": server.endpoint}]
        [error] = apply_workloads({"targets": targets, "workload": workload()})["errors"]
    assert "set wire" in error["detail"]
