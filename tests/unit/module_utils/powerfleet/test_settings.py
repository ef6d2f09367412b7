# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A fleet's spec has the roles' options with the same defaults, and reaches every step."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import InvalidInput
from ansible_collections.wattwise.kube.plugins.module_utils.extender import publication
from ansible_collections.wattwise.kube.plugins.module_utils.pipeline.options import GROUPS, complete
from ansible_collections.wattwise.kube.plugins.module_utils.powerfleet.reconciliation import SPEC
from ansible_collections.wattwise.kube.plugins.module_utils.powerfleet.resource import (
    RESOURCE_KIND,
    PowerFleet,
)
from ansible_collections.wattwise.kube.plugins.module_utils.powerfleet.settings import (
    fleet_options,
    publication_of,
    record_of,
    rmd_options,
    steps_of,
    undoing_options,
)
from ansible_collections.wattwise.kube.plugins.module_utils.powerfleet.triggers import Trigger
from ansible_collections.wattwise.kube.plugins.module_utils.rmd import reconciliation as rmd
from support.power_fleets import fleet, manifest, parsed, schema

Json = dict[str, t.Any]

ROOT = Path(__file__).resolve().parents[4]
WHOLE, EVENT = Trigger("interval"), Trigger("pods", frozenset({"pods"}))
# Part of the spec → role. If a role has a number of seconds, the spec has its unit.
PARTS = {
    "observe": "observe",
    "metering": "observe",
    "placement": "placement",
    "devices": "devices",
    "rmd": "rmd_workloads",
    "sleep": "sleep",
    "limits": "placement",
    "prices": "placement",
}
# Parts whose variables have a longer prefix than their role.
PREFIXES = {
    "metering": "observe_metering_",
    "limits": "placement_limits_",
    "prices": "placement_prices_",
}
# Variables whose names in the spec are others.
RENAMED = {"select": "nodeSelector"}
SECRETS = "a spec holds no secret; NodeConfigs name theirs, and the module has its own"
FILES = "the run folder of the fleet has a place for it"
SHARED = "all runs of a cluster share it, so it is an option of the module"
INVENTORY = "it is about files that an inventory names"
APPROVALS = "an operator binds what it plans, and nobody approves its plans"


def defaults(role: str) -> Json:
    text = (ROOT / "roles" / role / "defaults" / "main.yml").read_text(encoding="utf-8")
    return t.cast("Json", yaml.safe_load(text))


# Variables of roles that no spec has, and the reasons.
LEFT_OUT: dict[str, str] = {
    "observe_credentials": SECRETS,
    "observe_default_credential_namespaces": SECRETS,
    "observe_refresh": "a fleet is looked at again and again",
    "observe_textfile": FILES,
    "observe_run_dir": FILES,
    "observe_metering_credential": SECRETS,
    "observe_metering_client_cert": SECRETS,
    "observe_metering_client_key": SECRETS,
    "observe_metering_textfile": FILES,
    **dict.fromkeys(
        (name for role in ("placement", "sleep") for name in defaults(role) if "_store" in name),
        APPROVALS,
    ),
    "placement_credentials": SECRETS,
    "placement_textfile": FILES,
    "placement_power_curves": "NodeConfigs and their templates state theirs by an annotation",
    "placement_run_dir": FILES,
    "placement_prices_path": FILES,
    "placement_prices_credential": SECRETS,
    "placement_lease_namespace": SHARED,
    "placement_lease_timeout": SHARED,
    "placement_record_namespace": SHARED,
    "placement_publish_namespace": SHARED,
    "devices_objects": INVENTORY,
    "devices_src": INVENTORY,
    "devices_node": INVENTORY,
    "devices_on_error": INVENTORY,
    "devices_verbose": INVENTORY,
    "devices_device_power": "placement.devicePower is for both",
    "devices_scheduler_name": "placement.schedulerName is for both",
    "devices_volume_timeout": "placement.volumeTimeoutSeconds is for both",
    "devices_run_dir": FILES,
    "devices_reconcile": "devices.enabled stands for it",
    "devices_plan": FILES,
    "devices_lease_namespace": SHARED,
    "devices_lease_timeout": SHARED,
    "rmd_workloads_endpoints": "the daemons of the cluster are found by their pods",
    "rmd_workloads_ca_path": SECRETS,
    "rmd_workloads_client_cert": SECRETS,
    "rmd_workloads_client_key": SECRETS,
    "rmd_workloads_username": SECRETS,
    "rmd_workloads_password": SECRETS,
    "rmd_workloads_prune_max": "no run may remove most of what is there",
    "rmd_workloads_force": "beside rmd-operator nothing is written",
    "rmd_workloads_run_dir": FILES,
    "sleep_interval_seconds": "the interval of the fleet stands for it",
    "sleep_eviction_joules": "prices of evictions are those of the cluster, not of a fleet",
    "sleep_wait_timeout": "the next run continues, and a request never waits for a boot",
}
# Differing defaults: (that of the role, that of the spec), with the reason beside them.
OTHER_DEFAULTS: dict[str, tuple[t.Any, t.Any]] = {
    # A failing machine is reported in the status; placement on the others continues all the same.
    "observe_min_success": (0.5, 0),
    # A definition can restrict the names in a list, but not those of a mapping.
    "observe_metering_labels": ({}, []),
}


def prefix(part: str) -> str:
    return PREFIXES.get(part, f"{PARTS[part]}_")


def variables(part: str) -> Json:
    """The role's defaults that belong to the part, by name without the common prefix."""
    return {
        name.removeprefix(prefix(part)): default
        for name, default in defaults(PARTS[part]).items()
        if name.startswith(prefix(part))
        and name not in LEFT_OUT
        and (part in PREFIXES or not name.startswith(tuple(PREFIXES.values())))
    }


def in_spec(variable: str, names: t.Collection[str]) -> str:
    """The name in the spec: camelCase, with the unit if the spec has one."""
    if variable in RENAMED:
        return RENAMED[variable]
    first, *others = variable.split("_")
    name = first + "".join(part.capitalize() for part in others)
    return name if name in names else f"{name}Seconds"


@pytest.mark.parametrize("part", PARTS)
def test_the_spec_has_each_variable_of_the_role_with_its_default(part: str) -> None:
    members = schema()["properties"][part]["properties"]
    seen = {"enabled"} & members.keys()
    for variable, default in variables(part).items():
        name = in_spec(variable, members)
        assert name in members, f"{variable} is neither in the spec nor left out with a reason"
        seen.add(name)
        of_role = f"{prefix(part)}{variable}"
        role_default, expected = OTHER_DEFAULTS.get(of_role, (default, default))
        assert default == role_default
        if isinstance(default, str) and "{{" in default:
            expected = {"rmd-system": "rmd-system"}.get(members[name]["default"], expected)
        assert members[name].get("default", "") == expected, variable
    assert seen == members.keys()


def test_what_is_left_out_with_a_reason_exists() -> None:
    assert LEFT_OUT.keys() <= {name for role in PARTS.values() for name in defaults(role)}


def module(**given: t.Any) -> Json:
    return SPEC.complete({"namespace": "power", "name": "fleet", "run_dir": "/run/f", **given})


def test_every_option_of_the_steps_is_set() -> None:
    metering = {"caPath": "/c", "url": "https://p", "tlsServerName": "p"}
    prices = {"caPath": "/c", "url": "https://p", "query": "price"}
    given = fleet(
        observe={"caPath": "/a"}, placement={"caPath": "/b"}, metering=metering, prices=prices
    )
    options = fleet_options(given, WHOLE, module())
    own = {"read": {"refresh", "model_max_age"}, "predict": {"credentials", "power_curves"}}
    own["devices"] = {"plan"}
    own["prices"] = {"path"}
    own["sleep"] = {"eviction_joules", "wait_timeout"}
    for group, known in GROUPS.items():
        if group in ("store", "restore"):
            continue
        assert options[group].keys() == known.keys() - own.get(group, set()), group
    complete(options)


def values(of: Json, path: tuple[str, ...] = ()) -> t.Iterator[tuple[tuple[str, ...], Json]]:
    for name, member in of["properties"].items():
        if "properties" in member and name != "nodeSelector":
            yield from values(member, (*path, name))
        else:
            yield (*path, name), member


def test_the_time_to_the_next_run_is_the_interval_of_the_fleet() -> None:
    options = fleet_options(fleet(interval="2m", sleep={"mode": "on"}), WHOLE, module())
    assert options["sleep"]["interval_seconds"] == 120.0 and options["sleep"]["mode"] == "on"


def test_prices_wait_for_no_server_and_deferred_pods_for_one_more_run(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("secret\n")
    (tmp_path / "url").write_text("https://prometheus:9090/\n")
    given = module(metering_credential_dir=str(tmp_path))
    prices = {"url": "https://prometheus:9090/a", "query": "price", "marginSeconds": 600}
    spec = fleet(interval="10m", prices=prices)
    options = fleet_options(spec, EVENT, given)["prices"]
    assert (options["timeout"], options["margin_seconds"]) == (3.0, 1200.0)
    assert options["credentials"] == {"metering": {"token": "secret"}}
    elsewhere = fleet(prices={**prices, "url": "https://elsewhere:9090"})
    assert fleet_options(elsewhere, WHOLE, given)["prices"]["credentials"] is None


def another(member: Json) -> t.Any:
    """A value that is not the default."""
    default: t.Any = member.get("default")
    if member["type"] == "boolean":
        return not default
    if member["type"] in ("integer", "number"):
        return default + 1 if default < 1 else default / 2
    if member["type"] == "array":
        properties = member["items"].get("properties")
        return [dict.fromkeys(properties, "another")] if properties else ["power"]
    return next((one for one in member.get("enum", ()) if one != default), "another")


# Settings that select the steps instead of becoming an option of one.
DECIDES = {("interval",), ("suspend",), ("nodeSelector",), ("report", "enabled")}
DECIDES |= {("nodeConfigs", "enabled"), ("rmd", "enabled")}


@pytest.mark.parametrize("path", [path for path, _member in values(schema())], ids=".".join)
def test_every_value_of_the_spec_reaches_a_step(path: tuple[str, ...]) -> None:
    given = another(dict(values(schema()))[path])
    base: Json = {"placement": {"rebalance": True}}
    spec: Json = {**base} if len(path) == 1 else {**base, path[0]: {**base.get(path[0], {})}}
    if len(path) == 2:
        spec[path[0]][path[1]] = given if path != ("placement", "rebalance") else False
    options = [
        (fleet_options(one, WHOLE, module()), rmd_options(one, module()))
        for one in (fleet(**base), fleet(**spec))
    ]
    assert (options[0] != options[1]) == (path not in DECIDES)


def test_the_steps_are_those_that_are_on() -> None:
    reading = ["snapshot", "read", "merge", "statuses"]
    assert steps_of(fleet(), WHOLE) == [*reading, "predict", "place", "bind"]
    assert steps_of(fleet(placement={"enabled": False}), WHOLE) == reading
    assert steps_of(fleet(placement={"bind": False}), WHOLE) == [*reading, "predict", "place"]
    for source, trigger, meters in (
        ("prometheus", WHOLE, True),
        ("prometheus", EVENT, True),
        ("kepler", WHOLE, True),
        ("kepler", EVENT, False),
    ):
        metering = {"source": source, "url": "https://p"}
        assert ("meter" in steps_of(fleet(metering=metering), trigger)) == meters
    moving = fleet(placement={"rebalance": True, "allowEvict": True}, devices={"enabled": True})
    assert steps_of(moving, WHOLE)[-3:] == ["bind", "devices", "evict"]
    assert steps_of(moving, EVENT)[-2:] == ["bind", "devices"]


@pytest.mark.parametrize("trigger", [WHOLE, EVENT])
def test_machines_are_switched_where_some_may_sleep_or_must_be_woken(trigger: Trigger) -> None:
    for sleep, is_on in (
        ({}, False),
        ({"mode": "on"}, False),
        ({"nodeSelector": "sleeps=yes"}, True),
        ({"nodeSelector": "sleeps=yes", "mode": "on"}, True),
        ({"mode": "off"}, True),
    ):
        assert ("sleep" in steps_of(fleet(sleep=sleep), trigger)) == is_on, sleep
    # Machines that the selector left behind are woken.
    left = parsed({**manifest(), "status": {"sleep": {"asleep": 1}}})
    assert "sleep" in steps_of(left, trigger)
    # Without power models there is no decision.
    off = fleet(sleep={"nodeSelector": "sleeps=yes"}, placement={"enabled": False})
    assert "sleep" not in steps_of(off, trigger)
    # Nothing else would wake them.
    for phase in ("asleep", "quarantined"):
        stranded = parsed({**off.manifest, "status": {"sleep": {phase: 1}}})
        assert "sleep" in steps_of(stranded, trigger)
        assert fleet_options(stranded, trigger, module())["sleep"]["mode"] == "off"


def test_a_request_waits_for_no_machine_and_moves_no_pod() -> None:
    moving = fleet(placement={"rebalance": True, "allowEvict": True})
    options = fleet_options(moving, EVENT, module())
    assert options["read"]["timeout"] == 3.0 and not options["place"]["rebalance"]
    assert fleet_options(moving, WHOLE, module())["read"]["timeout"] == 10
    patient = fleet(observe={"timeoutSeconds": 1})
    assert fleet_options(patient, EVENT, module())["read"]["timeout"] == 1


def test_the_default_credential_comes_from_files_alone(tmp_path: Path) -> None:
    (tmp_path / "username").write_text("admin\n")
    (tmp_path / "password").write_text(" a secret ")
    given = {"default_credential_dir": str(tmp_path), "default_credential_namespaces": ["wao"]}
    read = fleet_options(fleet(), WHOLE, module(**given))["read"]
    assert read["credentials"] == {"default": {"username": "admin", "password": " a secret "}}
    assert read["default_credential_namespaces"] == ["wao"]
    (tmp_path / "ca.crt").mkdir()
    with pytest.raises(InvalidInput, match=r"cannot read .*/ca\.crt; mount a Secret"):
        fleet_options(fleet(), WHOLE, module(**given))
    assert fleet_options(fleet(), WHOLE, module())["read"]["credentials"] is None


def test_a_folder_that_cannot_be_read_names_the_keys_of_its_secret(tmp_path: Path) -> None:
    (tmp_path / "token").mkdir()
    given = module(metering_credential_dir=str(tmp_path))
    with pytest.raises(InvalidInput, match="keys among username, password, ca.crt, token, url"):
        fleet_options(fleet(metering={"source": "prometheus", "url": "https://p"}), WHOLE, given)


def test_the_credential_of_metering_goes_where_it_says_alone(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("secret\n")
    given = module(metering_credential_dir=str(tmp_path))

    def sent(url: str, source: str = "prometheus") -> t.Any:
        spec = fleet(metering={"source": source, "url": url})
        return fleet_options(spec, WHOLE, given)["meter"]["credentials"]

    assert sent("https://prometheus:9090/a") is None
    (tmp_path / "url").write_text("https://prometheus:9090/\n")
    assert sent("https://prometheus:9090/a") == {"metering": {"token": "secret"}}
    for url in ("https://prometheus", "http://prometheus:9090", "https://elsewhere:9090", "x"):
        assert sent(url) is None, url
    assert sent("https://prometheus:9090", "kepler") is None


def test_keplers_are_shown_the_client_certificate_of_the_metering_folder(tmp_path: Path) -> None:
    given = module(metering_credential_dir=str(tmp_path))

    def shown(**spec: t.Any) -> list[t.Any]:
        found = fleet_options(fleet(metering=spec), WHOLE, given)["meter"]
        return [found.get(name) for name in ("client_cert", "client_key", "ca_path")]

    assert shown(source="kepler") == [None, None, None]
    for name in ("tls.crt", "tls.key", "ca.crt"):
        (tmp_path / name).write_text(name)
    files = [str(tmp_path / name) for name in ("tls.crt", "tls.key", "ca.crt")]
    assert shown(source="kepler") == files
    assert shown(source="kepler", caPath="/ca.pem") == [*files[:2], "/ca.pem"]
    assert shown(source="prometheus", url="https://p")[:2] == [None, None]


def test_each_fleet_that_binds_has_a_record_of_its_own_that_goes_with_it() -> None:
    options = module(record_namespaces=["power"])
    first, second = (record_of(fleet(name), options) for name in ("one", "two"))
    assert first is not None and second is not None
    assert first.path != second.path
    [owner] = first.manifest({})["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["uid"]) == ("PowerFleet", "one", "uid-one")
    assert record_of(fleet(), module(record_namespaces=["elsewhere"])) is None
    assert record_of(fleet(placement={"bind": False}), options) is None


def test_a_fleet_that_places_publishes_for_the_extender_even_if_it_binds_nothing() -> None:
    options = module(publish_namespaces=["power"])
    found = publication_of(fleet(placement={"bind": False}), options)
    assert found is not None and found.path.endswith("configmaps/wattwise-extender-uid-fleet")
    metadata = found.manifest({})["metadata"]
    assert metadata["labels"] == {publication.LABEL: "publication"}
    assert [owner["kind"] for owner in metadata["ownerReferences"]] == ["PowerFleet"]
    assert publication_of(fleet(), module(publish_namespaces=["elsewhere"])) is None
    assert publication_of(fleet(placement={"enabled": False}), options) is None


def test_pods_with_and_without_devices_wait_equally_long_for_their_volumes() -> None:
    options = fleet_options(fleet(placement={"volumeTimeoutSeconds": 7}), WHOLE, module())
    assert [options[step]["volume_timeout"] for step in ("bind", "devices")] == [7, 7]


def test_the_client_of_daemons_comes_from_the_module_alone() -> None:
    given = module(rmd_client={"client_cert": "/cert", "username": "u", "password": "p"})
    options = rmd_options(fleet(rmd={"enabled": True}), given)
    assert options["daemons"]["client_cert"] == "/cert" and "ca_path" not in options["daemons"]
    rmd.SPEC.complete(options)


@pytest.mark.parametrize("trigger", [WHOLE, EVENT])
def test_limits_are_kept_where_the_spec_has_one_and_caps_removed_where_it_has_none(
    trigger: Trigger,
) -> None:
    for limits, is_on in (
        ({}, False),
        ({"inletCelsius": {"*": 30}}, True),
        ({"cap": "on"}, False),
        ({"rackWatts": {"r1": 4000}}, True),
        ({"fleetWatts": 9000}, True),
    ):
        assert ("limits" in steps_of(fleet(limits=limits), trigger)) == is_on, limits
    # The limit has gone, and its caps have not.
    left = parsed({**manifest(), "status": {"limits": {"capped": 1}}})
    assert "limits" in steps_of(left, trigger)
    assert fleet_options(left, trigger, module())["limits"] == {"cap": "off"}
    rack = {"rackWatts": {"r1": 4000}, "cap": "on"}
    off = fleet(limits=rack, placement={"enabled": False})
    assert "limits" not in steps_of(off, trigger)
    stranded = parsed({**off.manifest, "status": {"limits": {"capped": 1}}})
    assert "limits" in steps_of(stranded, trigger)
    assert fleet_options(stranded, trigger, module())["limits"] == {"cap": "off"}


def with_finalizer() -> PowerFleet:
    """A fleet without limits and caps in its status, which an earlier run kept from deletion."""
    given = manifest()
    finalizers = [RESOURCE_KIND.finalizer]
    return parsed({**given, "metadata": {**given["metadata"], "finalizers": finalizers}})


@pytest.mark.parametrize("trigger", [WHOLE, EVENT])
def test_a_fleet_with_the_finalizer_looks_for_caps_of_a_run_that_was_killed(
    trigger: Trigger,
) -> None:
    assert "limits" in steps_of(with_finalizer(), trigger)
    assert fleet_options(with_finalizer(), trigger, module())["limits"] == {"cap": "off"}


def test_the_run_of_a_deleted_fleet_removes_caps_where_some_may_be() -> None:
    rack = {"rackWatts": {"r1": 4000}}
    assert undoing_options(fleet(limits=rack), module())["steps"] == ["snapshot", "sleep"]
    for given in (
        fleet(limits={**rack, "cap": "on"}),
        parsed({**manifest(), "status": {"limits": {"capped": 1}}}),
        with_finalizer(),
    ):
        options = undoing_options(given, module())
        assert options["steps"] == ["snapshot", "sleep", "limits"]
        assert options["limits"] == {"cap": "off"}
