# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Records of several fleets in one ConfigMap: no write is lost, and the size is bounded."""

from __future__ import annotations

import base64
import json
import random
import typing as t
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.wattwise.kube.plugins.module_utils.base import compressed
from ansible_collections.wattwise.kube.plugins.module_utils.base.context import Context
from ansible_collections.wattwise.kube.plugins.module_utils.kube.client import Kube
from ansible_collections.wattwise.kube.plugins.module_utils.sleep.cluster import record_store
from ansible_collections.wattwise.kube.plugins.module_utils.sleep.cluster.demand_record import (
    SleepRecord,
)
from ansible_collections.wattwise.kube.plugins.module_utils.sleep.cluster.record_store import (
    RecordStore,
)
from support.scripted_api import Asked, Reply, ScriptedApi, status_reply

Json = dict[str, t.Any]
NOW = 1_800_000_000.0
DAY = "2027-01-15"


@dataclass
class Api:
    """One ConfigMap with the preconditions of the real API."""

    config_map: Json | None = None
    version: int = 0
    warnings: list[str] = field(default_factory=list)
    url: str = ""

    def script(self, asked: Asked) -> Reply:
        if asked.method == "GET":
            return Reply(self.config_map) if self.config_map else status_reply(404, "none")
        if asked.method == "POST" and self.config_map:
            return status_reply(409, "already exists")
        if asked.method == "PUT":
            if not self.config_map:
                return status_reply(404, "none")
            if asked.body["metadata"]["resourceVersion"] != str(self.version):
                return status_reply(409, "the object has been modified")
        self.version += 1
        metadata = {**asked.body["metadata"], "resourceVersion": str(self.version)}
        self.config_map = {**asked.body, "metadata": metadata}
        return Reply(self.config_map)

    def store(self, fleet: str = "playbook") -> RecordStore:
        return RecordStore(Kube.connect({"host": self.url}), "kube-system", fleet)

    def read(self, fleet: str = "playbook") -> SleepRecord:
        found, findings = self.store(fleet).read(NOW + 1)
        assert findings == []
        return found

    @property
    def context(self) -> Context:
        return Context(warn=self.warnings.append)


@pytest.fixture
def api() -> Iterator[Api]:
    found = Api()
    with ScriptedApi(found.script) as server:
        found.url = server.url
        yield found


def begun(api: Api, fleet: str = "playbook") -> tuple[RecordStore, SleepRecord]:
    store = api.store(fleet)
    return store, store.read(NOW)[0]


def test_two_fleets_that_run_at_the_same_time_keep_their_records(api: Api) -> None:
    first, one = begun(api, "PowerFleet wattwise-system/a")
    second, two = begun(api, "PowerFleet wattwise-system/b")
    one.machine("n1").fell_asleep(NOW, 115.0, 15.0)
    two.machine("n2").fell_asleep(NOW, 115.0, 15.0)
    first.write(one, NOW, api.context)
    second.write(two, NOW, api.context)
    assert set(api.read("PowerFleet wattwise-system/a").machines) == {"n1"}
    assert set(api.read("PowerFleet wattwise-system/b").machines) == {"n2"}
    assert api.config_map is not None
    assert len(api.config_map["binaryData"]) == 2


def test_a_dry_run_beside_a_real_one_loses_no_switch(api: Api) -> None:
    real, one = begun(api)
    dry, two = begun(api)
    one.machine("n1").fell_asleep(NOW, 115.0, 15.0)
    two.note_dry_run(NOW, DAY, 2, 50.0)
    real.write(one, NOW, api.context)
    dry.write(two, NOW, api.context)
    found = api.read()
    assert found.machines["n1"].asleep_since == NOW
    assert found.dry_days[DAY]["most_asleep"] == 2.0
    # The other way round, too.
    real, one = begun(api)
    dry, two = begun(api)
    one.machine("n1").woke(NOW + 0.5)
    two.note_dry_run(NOW, "2027-01-16", 1, 50.0)
    dry.write(two, NOW, api.context)
    real.write(one, NOW, api.context)
    found = api.read()
    assert (found.machines["n1"].woken, len(found.dry_days)) == (NOW + 0.5, 2)


def test_what_others_keep_in_the_config_map_stays(api: Api) -> None:
    labels = {"team": "b"}
    metadata = {"name": record_store.NAME, "labels": labels, "resourceVersion": "0"}
    api.config_map = {"metadata": metadata, "data": {"note": "ours"}}
    store, record = begun(api)
    record.machine("n1").woke(NOW)
    store.write(record, NOW, api.context)
    assert api.config_map["metadata"]["labels"] == labels
    assert api.config_map["data"] == {"note": "ours"}


def test_a_record_that_others_always_change_is_told(api: Api) -> None:
    store, record = begun(api)
    record.machine("n1").woke(NOW)
    store.write(record, NOW, api.context)
    store, record = begun(api)
    record.machine("n2").woke(NOW)
    read = store.read

    def read_old(now: float) -> t.Any:
        found = read(now)
        api.version += 1
        return found

    api.version += 1
    store.read = read_old  # type: ignore[method-assign]
    store.write(record, NOW, api.context)
    assert "was changed by others 5 times" in api.warnings[0]
    assert set(api.read().machines) == {"n1"}


def large(seed: int, count: int) -> SleepRecord:
    chance = random.Random(seed)
    record = SleepRecord(NOW - 1e6, NOW, shapes=[{"cpu": 100.0, "pods": 1.0}], is_changed=True)
    record.arrivals = sorted((NOW - chance.randrange(10**6), 0) for _ in range(count))
    record.present = {f"{chance.getrandbits(48):012x}": 0 for _ in range(count)}
    return record


def test_the_records_of_all_fleets_fit_into_the_config_map(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_store, "_MAX_CHARACTERS", 60_000)
    for number, fleet in enumerate("abc"):
        store, _record = begun(api, fleet)
        store.write(large(number, 1500), NOW, api.context)
        assert api.config_map is not None
        assert sum(map(len, api.config_map["binaryData"].values())) <= 60_000
    found = [api.read(fleet) for fleet in "abc"]
    # Every fleet keeps its younger events, and says since when they are whole.
    assert all(one.arrivals and one.arrivals[0][0] >= one.since for one in found)
    assert min(len(one.arrivals) for one in found) >= 300


def test_a_fleet_that_is_gone_leaves_its_room(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_store, "_MAX_CHARACTERS", 60_000)
    old = large(1, 1500)
    store, _record = begun(api, "old")
    store.write(old, NOW - 20 * 86400, api.context)
    store, _record = begun(api, "new")
    store.write(large(2, 2500), NOW, api.context)
    assert api.config_map is not None
    assert set(api.config_map["binaryData"]) == {"new.gz"}


@pytest.mark.parametrize("fleet", ["x" * 500, "PowerFleet a/b", "../..", "", "ü"])
def test_any_name_of_a_fleet_is_a_key(fleet: str) -> None:
    key = RecordStore(t.cast("Kube", None), "n", fleet).key
    assert len(key) <= 253 and key not in (".", "..")
    assert set(key) <= set("-._abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789")
    assert key != RecordStore(t.cast("Kube", None), "n", f"{fleet}.").key


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(st.data())
def test_a_record_that_somebody_changed_is_read_or_a_finding(data: st.DataObject) -> None:
    record = SleepRecord(NOW - 900, NOW - 300, shapes=[{"cpu": 1.0}], arrivals=[(NOW - 400, 0)])
    record.machine("n1").fell_asleep(NOW - 600, 25.0, 15.0)
    record.machine("n2").woke(NOW - 600)
    record.note_dry_run(NOW, DAY, 1, 10.0)
    body = json.loads(json.dumps(record.as_body()))
    place: t.Any = body
    path = data.draw(
        st.sampled_from([(name,) for name in body])
        | st.tuples(st.just("machines"), st.just("n1"))
        | st.tuples(
            st.just("machines"), st.just("n1"), st.sampled_from(sorted(body["machines"]["n1"]))
        )
    )
    for name in path[:-1]:
        place = place[name]
    place[path[-1]] = data.draw(_JSON)
    packed = base64.b64encode(compressed.pack(body)).decode()
    store = RecordStore(t.cast("Kube", None), "n", "fleet")
    found = store._read(data.draw(st.just(packed) | st.text(max_size=9) | _JSON), NOW)
    if isinstance(found, SleepRecord):
        if path[:2] == ("machines", "n1"):
            assert found.machines["n2"].woken == NOW - 600
        found.observe([], NOW)
        found.demand()
        found.note_dry_run(NOW, DAY, 1, 5.0)
        SleepRecord(NOW, NOW).merged_into(found)
        assert all(one.joules(NOW) >= 0 for one in found.machines.values())
    else:
        assert found.subject.kind == "ConfigMap"
