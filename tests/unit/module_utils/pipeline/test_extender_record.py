# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The publication of a run for extenders, against an API over a real socket."""

from __future__ import annotations

import typing as t

from ansible_collections.wattwise.kube.plugins.module_utils.base.context import Context
from ansible_collections.wattwise.kube.plugins.module_utils.extender import publication
from ansible_collections.wattwise.kube.plugins.module_utils.pipeline.reconciliation import (
    reconcile_fleet,
)
from support.binding_api import Json, found, pod
from support.scripted_api import Asked, Reply, status_reply
from support.small_fleet import Fleet

PLACING = ["snapshot", "read", "merge", "predict", "place"]
CONFIG_MAPS = "/api/v1/namespaces/watts/configmaps"


class Publishing(Fleet):
    """The fleet, with the ConfigMap that its runs publish."""

    def __init__(self) -> None:
        super().__init__()
        for one in self.cluster.nodes.values():
            one["status"]["capacity"] = one["status"]["allocatable"]
        self.published: Json | None = None
        self.writes: list[str] = []
        self.is_forbidden = False

    def answer(self, asked: Asked) -> Reply | None:
        if not asked.path.startswith(CONFIG_MAPS):
            return None
        if asked.method != "GET":
            if self.is_forbidden:
                return status_reply(403, "no permission")
            self.published = asked.body
            self.writes.append(asked.method)
        return found(self.published)

    def run(self, context: Context = Context(), **options: t.Any) -> Json:
        curves = {"power_curves": [{"idle": 100.0, "max": 200.0}]}
        given = {"steps": PLACING, "publish_namespace": "watts", "predict": curves, **options}
        with self.cluster.serve() as api:
            return reconcile_fleet({"host": api.url, **given}, context)


def test_a_run_publishes_its_curves_and_its_plan_and_repeats_neither() -> None:
    fleet = Publishing()
    fleet.cluster.add(pod("a"))
    assert fleet.run()["summary"]["placed"] == 1
    assert fleet.published is not None
    assert fleet.published["metadata"]["labels"] == {publication.LABEL: "publication"}
    read = publication.read(fleet.published)
    assert read.curves.keys() == {"n1", "n2"}
    [(key, planned)] = read.planned.items()
    assert key == ("shop", "a") and planned.node in read.curves
    fleet.run()
    assert fleet.writes == ["POST"]
    fleet.run(place={"allow_power_off": True})
    assert fleet.writes == ["POST", "PUT"]
    assert publication.read(fleet.published).rules.allow_power_off


def test_a_run_publishes_its_limits_and_repeats_none_of_them() -> None:
    fleet = Publishing()
    for one in fleet.cluster.nodes.values():
        one["metadata"]["labels"] = {"wattwise.github.io/rack": "r1"}
    limits = {"rack_watts": {"r1": 5000}, "node_watts": {"*": 50}}
    result = fleet.run(limits=limits)
    read = publication.read(fleet.published or {})
    assert [(one.kind, one.nodes, one.limit_watts) for one in read.domains] == [
        ("node", ("n1",), 50.0),
        ("node", ("n2",), 50.0),
        ("rack", ("n1", "n2"), 5000.0),
    ]
    assert read.closed == dict.fromkeys(("n1", "n2"), "node(s) above their power limit of 50 W")
    assert [one["kind"] for one in result["summary"]["limits"]] == ["rack"]
    assert "nodes" not in result["summary"]["limits"][0]
    fleet.run(limits=limits)
    assert fleet.writes == ["POST"]


def test_check_mode_publishes_nothing_and_a_refusal_is_a_warning() -> None:
    fleet, told = Publishing(), list[str]()
    fleet.run(Context(check_mode=True))
    assert fleet.writes == []
    fleet.is_forbidden = True
    assert "curves" in fleet.run(Context(warn=told.append))["summary"]
    assert any("not published for the extender" in text for text in told), told


def test_a_spoilt_config_map_is_replaced() -> None:
    fleet = Publishing()
    fleet.published = {"binaryData": {publication.KEY: "odd"}}
    fleet.run()
    assert fleet.writes == ["PUT"]
    assert publication.read(fleet.published).curves.keys() == {"n1", "n2"}
