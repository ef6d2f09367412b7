# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Options of the steps from a fleet's spec, which has camelCase names."""

from __future__ import annotations

import typing as t
from pathlib import Path

from ..base.argspec import KUBERNETES
from ..base.context import Parameters
from ..base.errors import InvalidInput
from ..base.fields.lenient import member
from ..base.json_types import Object
from ..fleet.credentials import DEFAULT_KEY
from ..fleet.urls import origin_of
from ..kube.resource import finalizer
from ..kube.resource.spec_options import taken_fields
from ..pipeline import extender_record, last_binding
from ..pipeline.config_map_record import Record
from .fields import FIELDS
from .resource import RESOURCE_KIND, PowerFleet
from .triggers import Trigger

# Keys of a Secret, mounted as files → keys of an entry of credentials.
_CREDENTIAL = {"username": "username", "password": "password", "ca.crt": "ca"}
_MAX_CREDENTIAL_LENGTH = 1_000_000
# Keys of the metering credential; its file url restricts the destination.
_METERING_CREDENTIAL = {**_CREDENTIAL, "token": "token", "url": "url"}
_METERING_KEY = "metering"
# A request is for waiting pods: a machine without a valid reading gets at most this time.
_PATIENCE_WITH_MACHINES = 3.0
_METRICS = "metrics"
METERING_FILE = "metering.prom"


def metrics_folder(run_dir: str) -> Path:
    """Folder of the metrics of a fleet's runs."""
    return Path(run_dir) / _METRICS


def steps_of(fleet: PowerFleet, trigger: Trigger) -> list[str]:
    """The steps of the run, by the names of fleet_reconciliation."""
    placement, steps = fleet.spec["placement"], ["snapshot", "read", "merge", "statuses"]
    source = fleet.spec["metering"]["source"]
    # Pods wait for a request: it queries one Prometheus, but not each Kepler.
    if source == "prometheus" or (source == "kepler" and trigger.is_whole):
        steps.append("meter")
    if placement["enabled"]:
        steps += ["predict", "place"]
        if placement["bind"]:
            steps.append("bind")
    if fleet.spec["devices"]["enabled"]:
        steps.append("devices")
    moves = placement["rebalance"] and placement["allowEvict"]
    if "bind" in steps and moves and trigger.is_whole:
        steps.append("evict")
    # A sleeping machine is woken for waiting pods, so that requests take the step, too.
    if _may_sleep(fleet) if placement["enabled"] else has_sleepers(fleet):
        steps.append("sleep")
    if (placement["enabled"] and has_limits(fleet)) or may_have_caps(fleet):
        steps.append("limits")
    return steps


def _may_sleep(fleet: PowerFleet) -> bool:
    sleep = fleet.spec["sleep"]
    return bool(sleep["nodeSelector"] or sleep["mode"] == "off" or has_sleepers(fleet))


def has_limits(fleet: PowerFleet) -> bool:
    """Whether the spec has a limit in W or of inlets."""
    limits = fleet.spec["limits"]
    names = ("fleetWatts", "rackWatts", "nodeWatts", "inletCelsius")
    return any(limits.get(name) for name in names)


def sets_caps(fleet: PowerFleet) -> bool:
    """Whether runs of the fleet may set caps."""
    is_on = fleet.spec["limits"]["cap"] == "on" and fleet.spec["placement"]["enabled"]
    return is_on and has_limits(fleet)


def has_caps(fleet: PowerFleet, status: Object | None = None) -> bool:
    """Whether a status, the stored one by default, has machines with a cap of the fleet."""
    return bool(member(fleet.status if status is None else status, "limits", "capped"))


def may_have_caps(fleet: PowerFleet) -> bool:
    """Whether a machine may have a cap: a run that is killed after it leaves only the finalizer."""
    return has_caps(fleet) or finalizer.has(fleet.manifest, RESOURCE_KIND.finalizer)


def has_sleepers(fleet: PowerFleet, status: Object | None = None) -> bool:
    """Whether a status, the stored one by default, has a machine that is not awake."""
    told = (fleet.status if status is None else status).get("sleep") or {}
    phases = ("draining", "goingOff", "asleep", "waking", "quarantined")
    return any(told.get(name) for name in phases)


def undoing_options(
    fleet: PowerFleet, options: Parameters, *, with_caps: bool = True
) -> dict[str, t.Any]:
    """The options of a run that only brings back machines, and removes all caps of the fleet."""
    given = fleet_options(fleet, Trigger("wake"), options)
    sleep = {**given["sleep"], "mode": "off", "select": ""}
    steps = ["snapshot", "sleep"]
    if with_caps and (sets_caps(fleet) or may_have_caps(fleet)):
        steps.append("limits")
    return {**given, "steps": steps, "sleep": sleep, "limits": {"cap": "off"}}


_HANDED_ON = ("lease_namespace", "lease_timeout", "run_dir", "run_process")


def fleet_options(fleet: PowerFleet, trigger: Trigger, options: Parameters) -> dict[str, t.Any]:
    """The options of fleet_reconciliation; ``options`` are those of the module."""
    spec, metrics = fleet.spec, metrics_folder(options["run_dir"])
    labels = {"power_fleet": fleet.key}
    placement = taken_fields(spec["placement"], FIELDS["place"])
    if not trigger.is_whole:
        placement["rebalance"] = False
    power = spec["placement"]["devicePower"] or None
    return {
        **{name: options[name] for name in (*KUBERNETES.options, *_HANDED_ON)},
        "steps": steps_of(fleet, trigger),
        "read": _read_options(spec["observe"], trigger, options),
        "merge": {
            **taken_fields(spec["observe"], FIELDS["merge"]),
            "heartbeat_seconds": options["heartbeat_seconds"],
            "textfile": str(metrics / "readings.prom"),
            "textfile_labels": labels,
        },
        "meter": _meter_options(fleet, trigger, options),
        "predict": taken_fields(spec["placement"], FIELDS["predict"]),
        "place": {
            **placement,
            "device_power": power,
            "textfile": str(metrics / "predicted.prom"),
            "textfile_labels": labels,
        },
        "limits": _limit_options(fleet),
        "bind": taken_fields(spec["placement"], FIELDS["bind"]),
        "devices": {
            **taken_fields(spec["devices"], FIELDS["devices"]),
            "device_power": power,
            "scheduler_name": spec["placement"]["schedulerName"],
            "volume_timeout": spec["placement"]["volumeTimeoutSeconds"],
        },
        "evict": {"timeout": float(spec["placement"]["evictionTimeoutSeconds"])},
        "sleep": _sleep_options(fleet),
        "prices": _prices_options(fleet, trigger, options),
    }


def _limit_options(fleet: PowerFleet) -> dict[str, t.Any]:
    """Caps are removed without a limit, and without placements, as no curve tells their floor."""
    taken = taken_fields(fleet.spec["limits"], FIELDS["limits"])
    is_left = may_have_caps(fleet) and not has_limits(fleet)
    is_kept = fleet.spec["placement"]["enabled"] and not is_left
    return taken if is_kept else {"cap": "off"}


def _sleep_options(fleet: PowerFleet) -> dict[str, t.Any]:
    """The reserve serves the pods until the next run, which the interval tells.

    Without placements nothing would wake a machine for pods, so that all are brought back.
    """
    taken = taken_fields(fleet.spec["sleep"], FIELDS["sleep"])
    if not fleet.spec["placement"]["enabled"]:
        taken["mode"] = "off"
    return {**taken, "interval_seconds": fleet.interval_seconds}


def record_of(fleet: PowerFleet, options: Parameters) -> Record | None:
    """The ConfigMap of the fleet's last binding; None if it binds nothing or may have none.

    Its name has the fleet's uid, so that a new fleet inherits nothing from an old one.
    """
    placement = fleet.spec["placement"]
    if not (placement["enabled"] and placement["bind"]):
        return None
    if fleet.namespace not in options["record_namespaces"]:
        return None
    return last_binding.record_of(fleet.namespace, f"-{fleet.uid}", fleet.as_object)


def publication_of(fleet: PowerFleet, options: Parameters) -> Record | None:
    """The ConfigMap of the fleet's curves and plan for extenders; None if it may have none."""
    if not fleet.spec["placement"]["enabled"]:
        return None
    if fleet.namespace not in options["publish_namespaces"]:
        return None
    return extender_record.record_of(fleet.namespace, f"-{fleet.uid}", fleet.as_object)


def rmd_options(fleet: PowerFleet, options: Parameters) -> dict[str, t.Any]:
    """The options of rmd_cluster_reconciliation."""
    given = fleet.spec["rmd"]
    return {
        **{name: options[name] for name in KUBERNETES.options},
        **taken_fields(given, FIELDS["rmd"]),
        "daemons": {
            **taken_fields(given, FIELDS["daemons"]),
            **{name: value for name, value in options["rmd_client"].items() if value is not None},
        },
        "run_dir": str(Path(options["run_dir"]) / "rmd"),
    }


def _read_options(observe: Object, trigger: Trigger, options: Parameters) -> dict[str, t.Any]:
    taken = taken_fields(observe, FIELDS["read"])
    taken["timeout"] = _timeout(observe, trigger)
    if not trigger.is_whole:
        # A model is valid as long as the readings; a newly registered one waits for a full run.
        taken["model_max_age"] = max(600.0, float(observe["maxAgeSeconds"]))
    return {
        **taken,
        "credentials": _default_credential(options["default_credential_dir"]),
        "default_credential_namespaces": options["default_credential_namespaces"],
    }


def _timeout(observe: Object, trigger: Trigger) -> float:
    seconds = float(observe["timeoutSeconds"])
    return seconds if trigger.is_whole else min(seconds, _PATIENCE_WITH_MACHINES)


def _meter_options(fleet: PowerFleet, trigger: Trigger, options: Parameters) -> dict[str, t.Any]:
    """The credential restricts its own destination, because writers of specs choose the URL."""
    taken, observe = taken_fields(fleet.spec["metering"], FIELDS["meter"]), fleet.spec["observe"]
    taken["labels"] = {one["name"]: one["value"] for one in fleet.spec["metering"]["labels"]}
    taken["textfile"] = str(metrics_folder(options["run_dir"]) / METERING_FILE)
    taken["textfile_labels"] = {"power_fleet": fleet.key}
    taken["timeout"] = _timeout(observe, trigger)
    taken["concurrency"] = observe["concurrency"]
    taken["allow_plain_http"] = observe["allowPlainHttp"]
    folder = options["metering_credential_dir"]
    taken.update(_client_certificate(folder, taken))
    url = taken.get("url") if taken["source"] == "prometheus" else None
    return {**taken, **_prometheus_credential(folder, url)}


def _prices_options(fleet: PowerFleet, trigger: Trigger, options: Parameters) -> dict[str, t.Any]:
    """Pods wait at most until the run before it is too late, which the interval tells."""
    taken, observe = taken_fields(fleet.spec["prices"], FIELDS["prices"]), fleet.spec["observe"]
    taken["margin_seconds"] = min(86400.0, taken["margin_seconds"] + fleet.interval_seconds)
    taken["timeout"] = _timeout(observe, trigger)
    taken["allow_plain_http"] = observe["allowPlainHttp"]
    folder = options["metering_credential_dir"]
    return {**taken, **_prometheus_credential(folder, taken.get("url"))}


def _prometheus_credential(folder: str | None, url: str | None) -> dict[str, t.Any]:
    """The credential of metering, for a URL at its destination alone."""
    entry = _mounted(folder, "metering_credential_dir", _METERING_CREDENTIAL)
    origin = origin_of(entry.pop("url", "").strip())
    if origin is None or origin != origin_of(url or ""):
        return {"credential": None, "credentials": None}
    return {"credential": _METERING_KEY, "credentials": {_METERING_KEY: entry}}


def _client_certificate(folder: str | None, taken: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Files of a mounted Secret for Keplers that ask for a client certificate.

    A server cannot use a certificate that it is shown, unlike a password. The authority in the
    Secret, which issued both sides' certificates, verifies the Keplers if the spec names none.
    """
    certificate = Path(folder or "") / "tls.crt"
    if not folder or taken["source"] != "kepler" or not certificate.exists():
        return {"client_cert": None, "client_key": None}
    found = {"client_cert": str(certificate), "client_key": str(certificate.with_name("tls.key"))}
    authority = certificate.with_name("ca.crt")
    if not taken.get("ca_path") and authority.exists():
        found["ca_path"] = str(authority)
    return found


def _default_credential(folder: str | None) -> dict[str, t.Any] | None:
    """The entry ``default`` of credentials, from the files of a mounted Secret."""
    if not folder:
        return None
    return {DEFAULT_KEY: _mounted(folder, "default_credential_dir", _CREDENTIAL)}


def _mounted(folder: str | None, option: str, keys: t.Mapping[str, str]) -> dict[str, str]:
    """Values of the files of a mounted Secret, by the names of ``keys``."""
    entry: dict[str, str] = {}
    if not folder:
        return entry
    for file_name, key in keys.items():
        path = Path(folder) / file_name
        try:
            # kubelet keeps the bytes of the Secret; editors add a final line break.
            entry[key] = path.read_bytes()[:_MAX_CREDENTIAL_LENGTH].decode().rstrip("\r\n")
        except FileNotFoundError:
            continue
        except (OSError, ValueError) as error:
            raise InvalidInput(
                f"{option}: cannot read {path}; mount a Secret there, with keys among "
                f"{', '.join(keys)}"
            ) from error
    return entry
