# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import datetime
import json
import typing as t
from pathlib import Path

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.base import documents
from ansible_collections.wattwise.kube.plugins.module_utils.base.context import Context
from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import (
    InvalidInput,
    TargetError,
    WattwiseError,
)
from ansible_collections.wattwise.kube.plugins.module_utils.nodeconfig.readings import (
    Answers,
    Readings,
)
from ansible_collections.wattwise.kube.plugins.module_utils.nodeconfig.targets import of_snapshot
from ansible_collections.wattwise.kube.plugins.module_utils.observe import observation
from support import observing
from support.snapshots import with_targets

NOON = datetime.datetime(2026, 1, 31, 12, tzinfo=datetime.UTC)
Json = dict[str, t.Any]
FAKE = {"type": "Fake", "endpoint": "https://fake"}


def later(seconds: float) -> Context:
    return Context(now=lambda: NOON + datetime.timedelta(seconds=seconds))


def node_config(node: str, annotations: Json | None = None, status: Json | None = None) -> Json:
    return {
        "apiVersion": "wao.bitmedia.co.jp/v1beta1",
        "kind": "NodeConfig",
        "metadata": {
            "name": f"t-{node}",
            "namespace": "wao-system",
            "annotations": annotations or {},
            "creationTimestamp": "2026-01-01T00:00:00Z",
        },
        "spec": {
            "nodeName": node,
            "metricsCollector": {part: dict(FAKE) for part in ("inletTemp", "deltaP")},
            "predictor": {"powerConsumption": dict(FAKE)},
        },
        "status": status or {},
    }


@pytest.fixture
def run(tmp_path: Path) -> Path:
    snapshot(tmp_path, node_config("n1"), node_config("n2"))
    return tmp_path


def snapshot(folder: Path, *configs: Json) -> None:
    nodes = [{"metadata": {"name": config["spec"]["nodeName"]}} for config in configs]
    body = {"cluster": {}, "nodes": nodes, "node_configs": list(configs)}
    documents.write(str(folder / "snapshot.json"), "snapshot", with_targets(body))


def thermal(**celsius: float | None) -> Json:
    readings = [
        {"name": node, "inlet_celsius": value, "power_watts": 100.0 if value else None}
        for node, value in celsius.items()
    ]
    return {"readings": readings, "errors": []}


def pressure(**pascals: float) -> Json:
    return {"readings": [{"name": key, "pascals": value} for key, value in pascals.items()]}


def failure(node: str, reason: str = "timeout", detail: str = "too slow") -> Json:
    return {"name": node, "endpoint": "https://b", "reason": reason, "detail": detail}


def observe(folder: Path, context: Context | None = None, **parameters: t.Any) -> Json:
    return observing.observe(folder, context or later(0), **parameters)


def statuses(folder: Path) -> dict[str, Json]:
    body = documents.load(str(folder / "statuses.json"), "node_configs")
    return {item["metadata"]["name"]: item["status"] for item in body["statuses"]}


def test_results_of_two_gateways_become_one_document(run: Path) -> None:
    result = observe(
        run, thermal=[thermal(n1=21.5), thermal(n2=24.0)], pressure=[pressure(n1=3.0, n2=-1.0)]
    )
    document = documents.load(str(run / "readings.json"), "readings")
    assert document["readings"] == result["readings"]
    assert result["readings"]["n2"]["inlet_celsius"] == 24.0
    assert result["readings"]["n2"]["delta_p_pascal"] == -1.0
    assert result["summary"] == {
        "configured": 2,
        "fresh": 2,
        "stale": 0,
        "failed": 0,
        "hottest_node": "n2",
        "hottest_inlet_celsius": 24.0,
        "measured_nodes": 2,
        "measured_watts": 200.0,
    }
    assert not result["changed"]


def test_a_dead_gateway_is_named_for_its_nodes_and_the_others_are_read(run: Path) -> None:
    dead = {"unreachable": True, "msg": "ssh: connect to host gw2 port 22: refused"}
    result = observe(run, thermal=[thermal(n1=21.5), dead], pressure=[pressure(n1=3.0), dead])
    assert result["readings"]["n1"]["inlet_celsius"] == 21.5
    assert result["readings"]["n2"]["inlet_celsius"] is None
    [error] = result["errors"]
    assert (error["name"], error["reason"]) == ("n2", "unreachable")
    assert "gw2 port 22" in error["detail"]


def test_a_missing_value_is_the_last_one_while_that_is_young_and_never_zero(run: Path) -> None:
    observe(run, thermal=[thermal(n1=21.5)], pressure=[pressure(n1=3.0)])
    errors = {"readings": [], "errors": [failure("n1")]}
    soon = observe(run, later(200), thermal=[errors], pressure=[pressure(n1=4.0)], max_age=300)
    assert soon["readings"]["n1"] == {
        "inlet_celsius": 21.5,
        "delta_p_pascal": 4.0,
        "power_watts": 100.0,
        "time": "2026-01-31T12:00:00Z",
        "times": {
            "inlet_celsius": "2026-01-31T12:00:00Z",
            "delta_p_pascal": "2026-01-31T12:03:20Z",
            "power_watts": "2026-01-31T12:00:00Z",
        },
        "source": {"inlet_celsius": "last", "delta_p_pascal": "read", "power_watts": "last"},
        "stale": True,
    }
    # Passing on a last value does not make it younger.
    too_late = observe(run, later(301), thermal=[errors], pressure=[pressure(n1=4.0)], max_age=300)
    assert too_late["readings"]["n1"]["inlet_celsius"] is None
    assert too_late["readings"]["n1"]["source"] == {"delta_p_pascal": "read"}


def test_the_fallback_of_a_node_config_is_the_last_choice_and_is_not_kept(tmp_path: Path) -> None:
    annotations = {"wattwise.github.io/fallback-inlet-celsius": "25"}
    snapshot(tmp_path, node_config("n1", annotations))
    first = observe(tmp_path, pressure=[pressure(n1=3.0)])
    assert first["readings"]["n1"]["inlet_celsius"] == 25.0
    assert first["readings"]["n1"]["source"]["inlet_celsius"] == "fallback"
    second = observe(tmp_path, later(10), pressure=[pressure(n1=3.0)])
    assert second["readings"]["n1"]["source"]["inlet_celsius"] == "fallback"


@pytest.mark.parametrize("text", ["warm", "nan", "-inf", "1e9", "٣", "9" * 400, ""])
def test_a_fallback_that_is_no_number_is_a_finding_of_its_node_config(
    tmp_path: Path, text: str
) -> None:
    bad = node_config("n1", {"wattwise.github.io/fallback-inlet-celsius": text})
    good = node_config("n2", {"wattwise.github.io/fallback-inlet-celsius": "25"})
    snapshot(tmp_path, bad, good)
    warned: list[str] = []
    result = observe(tmp_path, Context(now=lambda: NOON, warn=warned.append))
    assert result["readings"]["n1"]["inlet_celsius"] is None
    assert result["readings"]["n2"]["inlet_celsius"] == 25.0
    [finding] = result["findings"]
    assert (finding["kind"], finding["name"]) == ("NodeConfig", "t-n1")
    assert finding["field"] == "metadata.annotations[wattwise.github.io/fallback-inlet-celsius]"
    assert "is not a number such as 24.5" in finding["problem"]
    assert len(warned) == 1 and "t-n1" in warned[0]


def test_what_a_bmc_says_fits_into_the_status_or_is_left_out(run: Path) -> None:
    sensors = {
        "name": "n1",
        "inlet_uri": "/redfish/v1/Chassis/1/Sensors/1",
        "inlet_name": "x" * 40_000,
        "power_uri": "/" + "p" * 40_000,
        "vendor": "\x1b[2J",
    }
    given = {**thermal(n1=20.0, n2=21.0), "sensors": [sensors]}
    observe(run, thermal=[given], pressure=[pressure(n1=3.0, n2=4.0)])
    first, second = documents.load(str(run / "statuses.json"), "node_configs")["statuses"]
    assert first["status"]["sensors"] == {
        "inletTemp": {"uri": "/redfish/v1/Chassis/1/Sensors/1", "name": ""}
    }
    assert second["status"]["readings"]["inletTemp"]["celsius"] == 21.0


STATUSES: dict[str, t.Any] = {
    "a text": "x",
    "a list": [1],
    "a time in year 9999": {
        "readings": {"inletTemp": {"celsius": 21.0, "time": "9999-12-31T23:59:59-12:00"}},
        "authentication": {"failures": 3, "lastAttempt": "9999-12-31T23:59:59Z"},
    },
    "wrong types": {
        "readings": {"inletTemp": {"celsius": [], "time": 7}, "deltaP": "x", "power": None},
        "sensors": [1],
        "authentication": "x",
        "conditions": [None, {"type": []}, 7],
    },
}


@pytest.mark.parametrize("case", STATUSES)
def test_a_status_of_anything_hinders_no_new_one(tmp_path: Path, case: str) -> None:
    config = node_config("n1")
    config["status"] = STATUSES[case]
    snapshot(tmp_path, config, node_config("n2"))
    refused = {"name": "n1", "failures": 1, "last_attempt": "2026-01-31T12:00:00Z"}
    results = {**thermal(n1=21.0, n2=20.0), "authentication": [refused]}
    result = observe(tmp_path, thermal=[results], pressure=[pressure(n1=1.0, n2=1.0)])
    assert {finding["name"] for finding in result["findings"]} == {"t-n1"}
    assert {finding["field"].split(".")[0] for finding in result["findings"]} == {"status"}
    assert stored_after(tmp_path)["authentication"]["failures"] == 1
    assert stored_after(tmp_path)["readings"]["inletTemp"]["celsius"] == 21.0


def test_statuses_come_first_whatever_fails_afterwards(run: Path) -> None:
    refused = {"name": "n1", "failures": 1, "last_attempt": "2026-01-31T12:00:00Z"}
    thermal_result = {"readings": [], "errors": [], "authentication": [refused]}
    with pytest.raises(InvalidInput, match="check that the folder exists"):
        observe(run, thermal=[thermal_result], textfile=str(run / "none" / "x.prom"))
    assert stored_after(run)["authentication"]["failures"] == 1


def test_a_refusal_that_the_reading_of_models_met_reaches_the_status_too(run: Path) -> None:
    refused = {"name": "n1", "failures": 1, "last_attempt": "2026-01-31T12:00:00Z"}
    models = {"models": [], "errors": [], "authentication": [refused]}
    observe(run, thermal=[thermal(n1=20.0)], pressure=[{"msg": "failed"}], models=[models])
    assert stored_after(run)["authentication"]["failures"] == 1


def test_a_value_that_was_kept_is_fresh_and_keeps_its_time(run: Path) -> None:
    kept = thermal(n1=21.5)
    kept["readings"][0]["kept"] = {"inlet_celsius": "2026-01-31T11:59:50Z"}
    result = observe(run, thermal=[kept], pressure=[pressure(n1=3.0)])
    reading = result["readings"]["n1"]
    assert reading["source"] == {
        "inlet_celsius": "kept",
        "delta_p_pascal": "read",
        "power_watts": "read",
    }
    assert reading["times"]["inlet_celsius"] == "2026-01-31T11:59:50Z"
    assert not reading["stale"]
    assert (result["summary"]["fresh"], result["errors"]) == (1, [])
    assert stored_after(run)["conditions"][0]["status"] == "True"
    assert "inletTemp" not in stored_after(run)["readings"]


@pytest.mark.parametrize("told", [True, False])
def test_a_machine_that_failed_and_is_not_asked_again_still_fails(
    tmp_path: Path, told: bool
) -> None:
    """Like runs for pending pods, which use recent values of the last run unchanged."""
    before = {"inlet_celsius": 21.5, "power_watts": 100.0}
    noon, fine = "2026-01-31T12:00:00Z", pressure(n1=3.0)
    config = node_config("n1")
    last: Readings = {}
    errors: t.Sequence[TargetError] = ()

    def merged(seconds: float, answer: Json) -> observation.Observation:
        body = {"nodes": [{"metadata": {"name": "n1"}}], "node_configs": [config]}
        found = observation.merge(
            of_snapshot(with_targets({"cluster": {}, **body})),
            observation.Polls(
                [Answers.from_result(answer, observation.THERMAL_RESULT, later(seconds).now())],
                [Answers.from_result(fine, observation.PRESSURE_RESULT, later(seconds).now())],
            ),
            observation.LastObservation(last, errors if told else ()),
            max_age=300.0,
            now=later(seconds).now(),
        )
        for one in found.statuses:
            config["status"] = one["status"]
        return found

    last = merged(0, thermal(n1=21.5)).readings
    failed = merged(20, {"readings": [], "errors": [failure("n1")]})
    last, errors = failed.readings, failed.errors
    assert config["status"]["conditions"][0]["reason"] == "Timeout"
    kept = {"name": "n1", **before, "kept": dict.fromkeys(before, noon)}
    again = merged(30, {"readings": [kept], "errors": []})
    assert (again.errors == failed.errors, again.statuses == []) == (told, told)
    assert (again.summary["failed"], again.summary["fresh"]) == ((1, 0) if told else (0, 1))
    read = merged(40, thermal(n1=21.5))
    assert (read.errors, read.summary["fresh"]) == ([], 1)


def ready(folder: Path, node: str = "n1") -> tuple[str, str]:
    condition = stored_after(folder, node)["conditions"][0]
    return condition["status"], condition["message"]


def test_a_node_without_a_pressure_source_is_ready_without_pressure(tmp_path: Path) -> None:
    config = node_config("n1")
    del config["spec"]["metricsCollector"]["deltaP"]
    snapshot(tmp_path, config, node_config("n2"))
    result = observe(tmp_path, thermal=[thermal(n1=21.5, n2=21.5)], min_success=0.5)
    assert (result["summary"]["configured"], result["summary"]["fresh"]) == (2, 1)
    assert ready(tmp_path) == ("True", "Inlet temperature was read.")
    assert ready(tmp_path, "n2") == ("False", "Not read.")


@pytest.mark.parametrize("has_model", [False, True])
def test_watts_stand_for_a_missing_inlet_sensor_unless_a_power_model_wants_it(
    tmp_path: Path, has_model: bool
) -> None:
    config = node_config("n1")
    del config["spec"]["metricsCollector"]["deltaP"]
    if not has_model:
        del config["spec"]["predictor"]
    snapshot(tmp_path, config)
    only_watts = {"name": "n1", "inlet_celsius": None, "power_watts": 120.0}
    answer = {"readings": [only_watts], "errors": [failure("n1", "no_sensor", "no inlet")]}
    result = observe(tmp_path, thermal=[answer])
    assert result["summary"]["fresh"] == (0 if has_model else 1)
    assert [error["reason"] for error in result["errors"]] == ["no_sensor"]
    expected = ("False", "no inlet") if has_model else ("True", "Power was read.")
    assert ready(tmp_path) == expected


def test_the_identity_of_a_server_stays_in_status_and_document(run: Path) -> None:
    system = {"manufacturer": "Dell Inc.", "model": "R650", "processor": "Xeon", "cores": 64}
    odd = {"manufacturer": "x" * 300, "model": 7, "sockets": 0, "cores": 8}
    sensors = [{"name": "n1", "system": system}, {"name": "n2", "system": odd}]
    both = {**thermal(n1=20.0, n2=20.0), "sensors": sensors}
    first = observe(run, thermal=[both], pressure=[pressure(n1=3.0, n2=3.0)])
    assert first["readings"]["n1"]["system"] == system
    assert stored_after(run)["sensors"]["system"] == system
    assert stored_after(run, "n2")["sensors"]["system"] == {"cores": 8}
    # Known sensors are read at once, and no further request reads the identity.
    stored = {"n1": stored_after(run)}
    snapshot(run, node_config("n1", status=stored["n1"]), node_config("n2"))
    again = observe(run, later(400), thermal=[thermal(n1=20.0)], pressure=[pressure(n1=3.0)])
    assert again["readings"]["n1"]["system"] == system
    assert again["readings"]["n2"]["system"] == odd
    assert stored_after(run)["sensors"]["system"] == system


def test_an_unreadable_last_document_is_as_good_as_none(run: Path) -> None:
    (run / "readings.json").write_text("{")
    assert observe(run, thermal=[thermal(n1=20.0)])["readings"]["n1"]["stale"] is False


def test_below_min_success_it_fails_after_everything_is_written(run: Path) -> None:
    errors = {"readings": [], "errors": [failure("n1"), failure("n2", "tls", "not trusted")]}
    with pytest.raises(WattwiseError, match=r"Only 0 of 2 nodes .*\(0\.5\).*: too slow") as caught:
        observe(run, thermal=[errors], min_success=0.5)
    assert len(caught.value.fields["errors"]) == 2
    assert statuses(run)["t-n2"]["conditions"][0] == {
        "type": "Ready",
        "status": "False",
        "reason": "Tls",
        "message": "not trusted",
    }


def stored_after(folder: Path, node: str = "n1") -> Json:
    return statuses(folder)[f"t-{node}"]


def test_a_status_is_written_when_a_reading_moved_or_is_old_and_not_else(tmp_path: Path) -> None:
    snapshot(tmp_path, node_config("n1"))
    observe(tmp_path, thermal=[thermal(n1=21.0)], pressure=[pressure(n1=3.0)])
    written = stored_after(tmp_path)
    assert written["readings"]["inletTemp"] == {"celsius": 21.0, "time": "2026-01-31T12:00:00Z"}
    snapshot(tmp_path, node_config("n1", status=written))

    def count(celsius: float, seconds: float, pascals: float = 3.0) -> int:
        result = observe(
            tmp_path,
            later(seconds),
            thermal=[thermal(n1=celsius)],
            pressure=[pressure(n1=pascals)],
        )
        return int(result["statuses"])

    assert count(21.4, 60) == 0
    assert count(21.5, 60) == 1
    assert count(21.0, 60, pascals=4.0) == 1
    assert count(21.0, 149) == 0
    assert count(21.0, 301) == 1


def test_old_readings_of_a_fleet_are_rewritten_in_several_runs(tmp_path: Path) -> None:
    nodes = [f"n{number}" for number in range(100)]
    snapshot(tmp_path, *(node_config(node) for node in nodes))

    def written(seconds: float) -> int:
        warm = thermal(**dict.fromkeys(nodes, 21.0))
        result = observe(
            tmp_path,
            later(seconds),
            thermal=[warm],
            pressure=[pressure(**dict.fromkeys(nodes, 3.0))],
        )
        return int(result["statuses"])

    written(0)
    stored = {node: stored_after(tmp_path, node) for node in nodes}
    snapshot(tmp_path, *(node_config(node, status=stored[node]) for node in nodes))
    assert 0 < written(180) < 35 < written(240) < 75 < written(301) == 100


def test_a_node_that_fails_keeps_its_last_reading_in_status_and_is_not_ready(
    tmp_path: Path,
) -> None:
    snapshot(tmp_path, node_config("n1"))
    observe(tmp_path, thermal=[thermal(n1=21.0)], pressure=[pressure(n1=3.0)])
    written = stored_after(tmp_path)
    snapshot(tmp_path, node_config("n1", status=written))
    errors = {"readings": [], "errors": [failure("n1", "no_sensor", "no inlet")]}
    observe(tmp_path, later(60), thermal=[errors], pressure=[pressure(n1=3.0)])
    status = stored_after(tmp_path)
    assert status["conditions"][0]["reason"] == "NoSensor"
    assert status["readings"]["inletTemp"] == written["readings"]["inletTemp"]


def test_sensors_and_authentication_go_to_the_status(tmp_path: Path) -> None:
    snapshot(tmp_path, node_config("n1"))
    result = thermal(n1=21.0)
    result["sensors"] = [
        {
            "name": "n1",
            "inlet_uri": "/r/1",
            "inlet_name": "Inlet",
            "power_uri": "/r/2",
            "vendor": "X",
        }
    ]
    result["authentication"] = [
        {"name": "n1", "failures": 2, "last_attempt": "2026-01-31T12:00:00Z"}
    ]
    observe(tmp_path, thermal=[result], pressure=[pressure(n1=1.0)])
    status = stored_after(tmp_path)
    assert status["sensors"] == {
        "inletTemp": {"uri": "/r/1", "name": "Inlet"},
        "power": {"uri": "/r/2"},
        "vendor": "X",
    }
    assert status["authentication"]["failures"] == 2


def test_refusals_are_remembered_while_nobody_asks(tmp_path: Path) -> None:
    refused = {"failures": 2, "lastAttempt": "2026-01-31T11:59:00Z", "secretResourceVersion": "7"}
    snapshot(tmp_path, node_config("n1", status={"authentication": refused}))
    observe(tmp_path, thermal=[{"msg": "gone"}], pressure=[pressure(n1=1.0)])
    assert stored_after(tmp_path)["authentication"] == refused
    accepted = {**thermal(n1=20.0), "authentication": [{"name": "n1", "failures": 0}]}
    observe(tmp_path, thermal=[accepted], pressure=[pressure(n1=1.0)])
    assert "authentication" not in stored_after(tmp_path)


def test_the_models_of_all_gateways_are_kept(run: Path) -> None:
    models = [{"models": [{"name": "n1"}], "errors": []}, {"models": [{"name": "n2"}]}]
    observe(run, models=models)
    assert json.loads((run / "models.json").read_text())["models"] == [
        {"name": "n1"},
        {"name": "n2"},
    ]


def test_a_count_of_ways_beyond_any_float_leaves_the_other_caches_in_the_metrics() -> None:
    def state(node: str, free: int) -> Json:
        pool = {"freeWays": free, "longestFreeRun": 3}
        status = {"caches": [{"cacheId": 0, "guaranteed": pool}]}
        return {"metadata": {"name": node}, "spec": {"node": node}, "status": status}

    merged = observation.Observation(NOON, {}, {}, (), (), (), (), {})
    text = merged.metrics({}, [state("n1", 10**400), state("n2", 4)])
    assert 'wattwise_cache_free_ways{node="n2",cache="0"} 4' in text
    assert 'node="n1"' not in text


def test_the_textfile_is_in_prometheus_format_with_ages_and_errors(run: Path) -> None:
    path = run / "wattwise.prom"
    observe(run, thermal=[thermal(n1=21.5)], pressure=[pressure(n1=3.0)])
    errors = {"readings": [], "errors": [failure("n1"), failure("n2", "tls")]}
    observe(run, later(30), thermal=[errors], pressure=[], textfile=str(path))
    text = path.read_text()
    assert '# TYPE inlet_temp_celsius gauge\ninlet_temp_celsius{node="n1"} 21.5\n' in text
    assert 'delta_p_pascal{node="n1"} 3\n' in text
    assert 'node_power_watts{node="n1"} 100\n' in text
    assert 'wattwise_reading_age_seconds{node="n1",quantity="inlet_temp_celsius"} 30\n' in text
    assert 'wattwise_endpoint_failing{node="n2",endpoint="bmc",reason="tls"} 1\n' in text
    assert 'wattwise_node_read{node="n2"} 0\n' in text
    assert "wattwise_observation_timestamp_seconds 1769860830\n" in text
    named = {line.partition("{")[0] for line in text.splitlines() if 'node="n2"' in line}
    assert named == {"wattwise_endpoint_failing", "wattwise_node_read"}
    assert path.stat().st_mode & 0o777 == 0o644
    with pytest.raises(InvalidInput, match="check that the folder exists"):
        observe(run, textfile=str(run / "none" / "x.prom"))


def metrics(folder: Path, context: Context, **parameters: t.Any) -> str:
    path = folder / "wattwise.prom"
    given = {"thermal": [thermal(n1=21.5)], "pressure": [pressure(n1=3.0)]}
    observe(folder, context, textfile=str(path), **given, **parameters)
    return path.read_text()


def test_an_error_of_the_pressure_server_is_not_one_of_the_bmc(run: Path) -> None:
    path = run / "wattwise.prom"
    failed: Json = {"readings": [], "errors": [failure("n1")]}
    observe(run, thermal=[thermal(n1=21.5)], pressure=[failed], textfile=str(path))
    text = path.read_text()
    assert 'wattwise_endpoint_failing{node="n1",endpoint="pressure",reason="timeout"} 1\n' in text
    assert 'endpoint="bmc"' not in text


def test_labels_are_on_every_sample_and_cannot_take_the_place_of_others(run: Path) -> None:
    text = metrics(run, later(0), textfile_labels={"cluster": 'hall "1"'})
    samples = [line for line in text.splitlines() if not line.startswith("#")]
    assert samples
    assert all('cluster="hall \\"1\\""} ' in line for line in samples)
    for labels in ({"node": "x"}, {"a-b": "x"}, {"__name__": "x"}):
        with pytest.raises(InvalidInput, match="cannot be a label; write letters"):
            metrics(run, later(0), textfile_labels=labels)
    with pytest.raises(InvalidInput, match="the value of hall must be a text"):
        metrics(run, later(0), textfile_labels={"hall": 1})


def test_node_configs_of_nodes_that_are_gone_are_left_out(tmp_path: Path) -> None:
    body = {"cluster": {}, "nodes": [], "node_configs": [node_config("n1")]}
    documents.write(str(tmp_path / "snapshot.json"), "snapshot", with_targets(body))
    result = observe(tmp_path, thermal=[thermal(n1=20.0)], min_success=1.0)
    assert result["summary"]["configured"] == 0


def test_without_a_last_document_values_come_from_the_status_and_are_no_younger(
    tmp_path: Path,
) -> None:
    status = {
        "readings": {
            "inletTemp": {"celsius": 21.0, "time": "2026-01-31T11:58:00Z"},
            "deltaP": {"pascals": 4.0, "time": "2026-01-31T11:50:00Z"},
        }
    }
    snapshot(tmp_path, node_config("n1", status=status))
    reading = observe(tmp_path, thermal=[{"errors": [failure("n1")]}])["readings"]["n1"]
    assert (reading["inlet_celsius"], reading["source"]) == (21.0, {"inlet_celsius": "last"})
    assert reading["times"] == {"inlet_celsius": "2026-01-31T11:58:00Z"}
    # Ten minutes are more than max_age allows.
    assert reading["delta_p_pascal"] is None
