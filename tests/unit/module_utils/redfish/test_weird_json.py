# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whatever JSON a BMC answers, the worst result is a TargetFailure; list order does not matter."""

from __future__ import annotations

import asyncio
import math
import random
import typing as t

from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import TargetFailure
from ansible_collections.wattwise.kube.plugins.module_utils.base.fields.lenient import number
from ansible_collections.wattwise.kube.plugins.module_utils.fleet.visits import Answer, Client
from ansible_collections.wattwise.kube.plugins.module_utils.nodeconfig.models import Model
from ansible_collections.wattwise.kube.plugins.module_utils.redfish import sensors, words
from ansible_collections.wattwise.kube.plugins.module_utils.redfish.links import (
    identity,
    natural_order,
)
from ansible_collections.wattwise.kube.plugins.module_utils.redfish.power import Power
from ansible_collections.wattwise.kube.plugins.module_utils.redfish.tree import Tree
from ansible_collections.wattwise.kube.plugins.module_utils.redfish.walk import KnownSensors, Walk
from support.redfish_trees import ROOT, SERVER, one_server, ref

NAMES = st.sampled_from(
    [
        *("Members", "Members@odata.nextLink", "@odata.id", "Links", "Chassis", "Systems"),
        *("ComputerSystems", "ContainedBy", "ChassisType", "PowerState", "Manufacturer", "Vendor"),
        *("Thermal", "Temperatures", "ReadingCelsius", "PhysicalContext", "Name", "MemberId"),
        *("Sensors", "Reading", "ReadingType", "ReadingUnits", "Status", "State", "RelatedItem"),
        *("ThermalSubsystem", "ThermalMetrics", "TemperatureSummaryCelsius", "Intake", "Ambient"),
        *("TemperatureReadingsCelsius", "DeviceName", "DataSourceUri", "EnvironmentMetrics"),
        *("Power", "PowerWatts", "PowerControl", "PowerConsumedWatts", "PowerSupplies", "Id"),
        *("PowerInputWatts", "ProtocolFeaturesSupported", "ExpandQuery", "NoLinks", "error"),
    ]
)
PLACES = [
    *one_server(),
    *(f"{SERVER}/{name}" for name in ("Thermal", "Power", "Sensors", "Sensors/A", "Other")),
    *(f"{SERVER}/{name}" for name in ("ThermalSubsystem", "EnvironmentMetrics")),
    f"{SERVER}/ThermalSubsystem/ThermalMetrics",
    f"{ROOT}/Chassis/1",
]
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.sampled_from([*PLACES, "Intake", "Inlet", "Cel", "On", "Absent", "RackMount", "Card", "22"]),
    st.text(max_size=8),
)
JSON = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(NAMES, inner, max_size=5),
        st.sampled_from(PLACES).map(ref),
    ),
    max_leaves=12,
)
OBJECTS = st.dictionaries(NAMES, JSON, max_size=6)


class Answers:
    """A client that answers from a dictionary, without HTTP."""

    def __init__(self, documents: t.Mapping[str, t.Any]) -> None:
        self.documents = documents
        self.asked = 0

    async def get_json(self, link: str, *, limit: float | None = None) -> Answer:
        self.asked += 1
        place = identity(link.partition("?")[0])
        if place not in self.documents:
            raise TargetFailure("not_found", "absent")
        return Answer(200, {}, self.documents[place])


def walk(documents: t.Mapping[str, t.Any], known: KnownSensors) -> int:
    """Read both quantities; return the number of requests."""
    answers = Answers(documents)
    one = Walk(Tree(t.cast(Client, answers)), known)

    async def both() -> None:
        for reading in (one.read_inlet, one.read_power):
            try:
                found = await reading()
            except TargetFailure as failure:
                assert failure.detail
            else:
                watts_or_celsius = found.watts if isinstance(found, Power) else celsius_of(found)
                assert math.isfinite(watts_or_celsius)

    asyncio.run(both())
    return answers.asked


def celsius_of(choice: sensors.Choice) -> float:
    assert choice.temperature.celsius is not None
    assert sensors.COLDEST_CELSIUS <= choice.temperature.celsius <= sensors.HOTTEST_CELSIUS
    return choice.temperature.celsius


@settings(deadline=None)
@given(
    st.dictionaries(st.sampled_from(PLACES), st.one_of(OBJECTS, JSON), max_size=8), st.booleans()
)
def test_any_json_in_a_tree_is_a_reading_or_a_failure(
    broken: dict[str, t.Any], is_known: bool
) -> None:
    known = (
        KnownSensors(f"{SERVER}/Thermal", "Inlet", f"{SERVER}/Power")
        if is_known
        else KnownSensors()
    )
    assert walk({**one_server(), **broken}, known) < 100


@given(st.lists(OBJECTS, max_size=6), st.randoms(use_true_random=False))
def test_the_choice_does_not_depend_on_the_order_of_a_list(
    entries: list[dict[str, t.Any]], chance: random.Random
) -> None:
    shuffled = chance.sample(entries, len(entries))
    first = sensors.of_thermal("/t", {"Temperatures": entries})
    second = sensors.of_thermal("/t", {"Temperatures": shuffled})
    levels = (*sensors.ALL_LEVELS, *sensors.ROOM_LEVELS)
    one, other = sensors.choose(levels, first), sensors.choose(levels, second)
    assert (one and one.temperature) == (other and other.temperature)


LIKELY = st.sampled_from(["Inlet", "Inlet_2", "Inlet_10", "Ambient", "Front", "PSU1", "CPU", "X"])
CONTEXTS = st.sampled_from([None, "Intake", "SystemBoard", "Room", "PowerSupply"])


@given(
    st.lists(st.tuples(LIKELY, CONTEXTS, st.integers(-30, 80)), max_size=8),
    st.randoms(use_true_random=False),
)
def test_the_choice_among_likely_sensors_does_not_depend_on_their_order(
    drawn: list[tuple[str, str | None, int]], chance: random.Random
) -> None:
    entries = [
        {"Name": name, "PhysicalContext": context, "ReadingCelsius": celsius, "MemberId": str(n)}
        for n, (name, context, celsius) in enumerate(drawn)
    ]
    shuffled = chance.sample(entries, len(entries))
    first = sensors.choose(sensors.ALL_LEVELS, sensors.of_thermal("/t", {"Temperatures": entries}))
    second = sensors.choose(
        sensors.ALL_LEVELS, sensors.of_thermal("/t", {"Temperatures": shuffled})
    )
    assert first == second


@given(JSON)
def test_a_number_is_finite_or_nothing(value: t.Any) -> None:
    found = number(value)
    assert found is None or math.isfinite(found)


@given(st.text())
def test_any_name_can_be_judged(name: str) -> None:
    assert words.air_rank(name) in (None, 0, 1, 2, 3)
    assert isinstance(words.is_elsewhere(name), bool)
    assert isinstance(words.is_other_quantity(name), bool)


@given(st.lists(st.text(st.sampled_from("ab_01²٣9"), max_size=6)))
def test_any_names_can_be_sorted(names: list[str]) -> None:
    assert len(sorted(names, key=natural_order)) == len(names)


@given(st.text(min_size=1), st.text())
def test_any_model_has_an_endpoint_without_blanks(name: str, version: str) -> None:
    endpoint = Model.of(name, "http://h/", "V2InferenceProtocol", version).endpoint
    assert endpoint.startswith("http://h/v2/models/")
    assert endpoint.endswith("/infer")
    assert "//infer" not in endpoint
    assert not set(endpoint) & set(" \n\t")
