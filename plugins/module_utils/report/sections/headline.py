# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Power draw of the fleet before, predicted and measured, and the saving."""

from __future__ import annotations

import functools
import typing as t
from dataclasses import dataclass

from ...base.boundary import Finding, Subject, guarded
from ...base.units import parse_time
from ...scheduling.plan import is_comparable
from ..fleet import Fleet, Node
from ..markup import Child, Markup, element
from ..numbers import celsius, counted, listed, number, percent, watts
from ..section import Data, Detail, Section, facts, lead, note
from ..sources import Sources
from . import failing_endpoints, temperatures, waiting_pods

# Quantities of a node.
_OF_NODE = (
    *("measured_before", "predicted_before", "predicted_after", "measured_after"),
    *("baseline", "asleep"),
)


@dataclass(frozen=True)
class Saving:
    """Saved watts: ``against_added``, which the pods add under ``against``, minus our added power.

    ``basis`` is ``measured`` if both sides are, ``predicted`` if ours or both are predicted.
    """

    watts: float
    against: str
    against_added: float
    basis: str

    @property
    def percent_of_added(self) -> float | None:
        return 100 * self.watts / self.against_added if self.against_added > 0 else None

    def as_dict(self) -> dict[str, t.Any]:
        share = self.percent_of_added
        return {
            "watts": round(self.watts, 1),
            "percent_of_added": None if share is None else round(share, 1),
            "against": self.against,
            "against_added": round(self.against_added, 1),
            "basis": self.basis,
        }


@dataclass(frozen=True)
class Totals:
    """Sums in watts, None if not shown; ``left_out`` are nodes without a complete set of values."""

    watts: dict[str, t.Optional[float]]
    counted: int
    left_out: tuple[str, ...]

    @property
    def before(self) -> float | None:
        """The measured sum, else the predicted one."""
        measured = self.watts["measured_before"]
        return self.watts["predicted_before"] if measured is None else measured

    def added(self, name: str) -> float | None:
        """Power that the pods add: predicted minus predicted, or measured minus measured."""
        value, before = self.watts[name], self.before
        if name == "predicted_after":
            before = self.watts["predicted_before"]
        return None if value is None or before is None else value - before

    @property
    def our_added(self) -> float | None:
        """Measured added power of the placement, else the predicted ones."""
        measured = self.added("measured_after")
        return self.added("predicted_after") if measured is None else measured


def add_up(fleet: Fleet) -> Totals:
    """Sum every quantity over the nodes with all shown quantities.

    Sums over different nodes are not comparable. So a node counts only if all shown quantities are
    known, and a quantity is shown only if it is known for at least half of the configured nodes.
    """
    configured = [node for node in fleet.nodes if node.expected is None or node.expected]

    def known(name: str, nodes: t.Iterable[Node]) -> list[Node]:
        return [node for node in nodes if getattr(node, name) is not None]

    shown = [
        name
        for name in (_OF_NODE[:1] if fleet.state == "observed" else _OF_NODE)
        if configured and 2 * len(known(name, configured)) >= len(configured)
    ]
    complete = list(fleet.nodes) if shown else []
    for name in shown:
        complete = known(name, complete)
    sums: dict[str, t.Optional[float]] = dict.fromkeys(_OF_NODE)
    if complete:
        sums.update({name: sum(getattr(node, name) for node in complete) for name in shown})
    names = {node.name for node in complete}
    left_out = tuple(node.name for node in fleet.nodes if node.name not in names)
    return Totals(sums, len(complete), left_out)


def saving(fleet: Fleet, totals: Totals) -> Saving | None:
    """Saving of the placement by the best evidence; None without any, or if pods were not bound.

    The order of evidence is BMC readings under both schedulers, BMC readings under the other
    scheduler with our prediction, and predictions for a strategy that spreads pods as the default
    scheduler does.
    """
    if fleet.state not in ("planned", "pending", "measured") or fleet.not_bound:
        # The other scheduler placed the unbound pods too.
        return None
    added, theirs = totals.our_added, totals.added("baseline")
    if added is not None and theirs is not None:
        basis = "predicted" if totals.watts["measured_after"] is None else "measured"
        return Saving(theirs - added, "default scheduler", theirs, basis)
    plan = fleet.plan or {}
    nodes = [one["node"] for one in plan.get("placements") or ()]
    for entry in plan.get("comparison") or []:
        if entry["strategy"] == "spread" and is_comparable(
            entry, nodes, plan.get("unpriced") or ()
        ):
            theirs = entry["watts_after"] - plan["watts"]["before"]
            saved = entry["watts_after"] - plan["watts"]["after"]
            return Saving(saved, "spreading the pods", theirs, "predicted")
    return None


def _collect(fleet: Fleet) -> Data:
    totals = add_up(fleet)
    plan = fleet.plan or {}
    gone, came = _moved(fleet)
    saved = saving(fleet, totals)
    bindings = fleet.sources.bindings if fleet.bound_at is not None else None
    return {
        "state": fleet.state,
        "nodes": len(fleet.nodes),
        "placed": len(fleet.placements),
        "nodes_used": len({entry["node"] for entry in fleet.placements}),
        "not_bound": len(fleet.not_bound),
        "bound_at": bindings["time"] if bindings else None,
        "pending_until": fleet.pending_until,
        "times": _times(fleet),
        "watts": {
            name: None if value is None else round(value, 1) for name, value in totals.watts.items()
        },
        "added": {
            name: None if (value := totals.added(name)) is None else round(value, 1)
            for name in ("predicted_after", "measured_after", "baseline")
        },
        "lower_bound": (plan.get("watts") or {}).get("lower_bound"),
        "counted": totals.counted,
        "left_out": list(totals.left_out),
        "saved": None if saved is None else saved.as_dict(),
        **_others(fleet),
        "gone": gone,
        "came": came,
    }


def _others(fleet: Fleet) -> dict[str, t.Any]:
    """Data of other sections, without failed ones."""
    result: dict[str, t.Any] = {}
    for name, collect, unknown in (
        ("waiting", waiting_pods.collect, 0),
        ("failing", failing_endpoints.collect, 0),
        ("hottest", temperatures.collect, None),
    ):
        data = guarded(Subject("section", name), functools.partial(collect, fleet))
        result[name] = unknown if isinstance(data, Finding) else (data or {}).get(name, unknown)
    return result


def empty(fleet: Fleet) -> dict[str, t.Any]:
    """Data for the summary of a fleet without sums."""
    return {
        "state": "observed",
        "nodes": len(fleet.nodes),
        **dict.fromkeys(("placed", "not_bound", "nodes_used", "counted"), 0),
        "watts": {"measured_before": None},
        "added": {},
        "left_out": [],
        "saved": None,
        "pending_until": None,
        **_others(fleet),
    }


def _times(fleet: Fleet) -> dict[str, str | None]:
    """Times of the measured readings and of the plan."""
    sources = fleet.sources
    before = sources.readings if fleet.bound_at is None else sources.bound_readings
    after = sources.readings if fleet.state == "measured" else None
    documents = {
        "measured_before": before,
        "baseline": sources.baseline,
        "predicted_after": fleet.plan,
        "measured_after": after,
        "asleep": sources.asleep,
    }
    return {name: None if given is None else given["time"] for name, given in documents.items()}


def _running(snapshot: t.Mapping[str, t.Any]) -> dict[tuple[str, str], str]:
    """Node of every bound pod."""
    return {
        (pod["metadata"].get("namespace", ""), pod["metadata"]["name"]): pod["spec"]["nodeName"]
        for pod in snapshot.get("pods") or []
        if (pod.get("spec") or {}).get("nodeName")
    }


def _moved(fleet: Fleet) -> tuple[int, int]:
    """Numbers of ended pods of the plan and of new pods, after the measurement."""
    sources: Sources = fleet.sources
    if fleet.state != "measured" or sources.bindings is None:
        return 0, 0
    now = _running(sources.snapshot)
    bound = {(entry["namespace"], entry["pod"]) for entry in sources.bindings["bound"]}
    before = _running(sources.bound_snapshot or {})
    gone = len((bound | before.keys()) - now.keys())
    came = len(now.keys() - bound - before.keys()) if sources.bound_snapshot else 0
    return gone, came


_NAMES = {
    "measured_before": "Before",
    "predicted_before": "Before",
    "baseline": "Default scheduler",
    "predicted_after": "wattwise",
    "measured_after": "wattwise",
    "asleep": "Idle machines off",
}


def _render(data: Data, _detail: Detail) -> Child:
    return [
        element(
            "div",
            element("p", _status(data), class_="eyebrow"),
            element("h1", *_title(data)),
            lead(_sentence(data)),
            _facts(data),
            class_="say",
        ),
        element("div", _bars(data), _remarks(data), class_="show"),
    ]


def _status(data: Data) -> list[Child]:
    words = {
        "observed": "Observed",
        "planned": "Planned, not bound",
        "pending": "Bound, measurement pending",
        "measured": "Bound and measured",
    }
    return [element("span", words[data["state"]], class_=f"chip {data['state']}")]


def _title(data: Data) -> list[Child]:
    saved, added = data["saved"], data["added"]["predicted_after"]
    if saved is not None:
        less = saved["watts"] >= 0
        word = "saved" if less else "more than before us"
        if saved["basis"] == "predicted":
            word = "less, as predicted" if less else "more, as predicted"
        elif not less:
            word = "more"
        return [element("strong", watts(abs(saved["watts"]))), " ", word]
    if data["state"] != "observed" and added is not None:
        return [element("strong", watts(added)), " added"]
    drawn = data["watts"]["measured_before"]
    if drawn is None:
        return ["Power not known"]
    return [element("strong", watts(drawn)), " drawn"]


def _facts(data: Data) -> Markup:
    """Further key facts."""
    hottest, inlet = data["hottest"], None
    if hottest is not None:
        shown = element("b", celsius(hottest["inlet_celsius"]))
        inlet = element("li", "hottest inlet ", shown, f" at {hottest['node']}")
    counts = [(number(data[word]), word, data[word] > 0) for word in ("waiting", "failing")]
    return facts(counts, inlet)


def _sentence(data: Data) -> str:
    if data["state"] == "observed":
        nodes = counted(data["nodes"], "node")
        if 0 < data["counted"] < data["nodes"]:
            nodes = f"{number(data['counted'])} of {nodes}"
        return f"{nodes} read; no pod was placed."
    pods = counted(data["placed"], "pod")
    is_measured = data["added"]["measured_after"] is not None
    added = data["added"]["measured_after" if is_measured else "predicted_after"]
    verb = "add" if is_measured else "will add" if data["state"] == "planned" else "should add"
    text = f"{pods} {verb} {watts(added)} to the fleet."
    saved = data["saved"]
    if saved is None:
        return text
    theirs = watts(saved["against_added"])
    if saved["against"] == "default scheduler":
        text += f" Under the default scheduler they added {theirs}"
    else:
        text += f" {saved['against'].capitalize()} would add {theirs}"
    if saved["percent_of_added"] is not None:
        share = percent(abs(saved["percent_of_added"]))
        less = "is saved" if saved["basis"] == "measured" else "should be saved"
        text += f": {share} of that {less}" if saved["watts"] >= 0 else f": {share} less"
    return text + "."


def _bars(data: Data) -> Markup:
    """One bar per state on a common scale from 0, with the added power in colour."""
    values = data["watts"]
    before = "predicted_before" if values["measured_before"] is None else "measured_before"
    order = [before, "baseline", "predicted_after", "measured_after", "asleep"]
    most = max((values[name] or 0 for name in order), default=0)
    rows = [_bar(name, data, most) for name in order if _is_shown(name, data)]
    return element("dl", rows, class_="watts")


def _is_shown(name: str, data: Data) -> bool:
    if name == "measured_after":
        return data["state"] in ("measured", "pending")
    return data["watts"][name] is not None


def _bar(name: str, data: Data, most: float) -> Markup:
    value, added = data["watts"][name], data["added"].get(name)
    kind = "predicted" if name.startswith("predicted") else "measured"
    title = "Fleet" if data["state"] == "observed" else _NAMES[name]
    when = _moment(data["times"].get(name), data["times"]["measured_before"])
    label = element("dt", element("b", title), " ", element("small", kind, when))
    if value is None:
        words = f"pending: read it after {_clock(data['pending_until'])}"
        return element("div", label, element("dd", element("span", words, class_="wait")))
    style = "other" if name == "baseline" else "ours"
    parts = [("base", value - max(added or 0, 0)), (f"{style} {kind}", added or 0)]
    filled = [
        element("i", class_=f"fill {class_}", style=f"width:{100 * part / (most or 1):.2f}%")
        for class_, part in parts
        if part > 0
    ]
    plus = None if added is None else element("span", watts(added, sign=True), class_="plus")
    figures = element("span", element("b", watts(value)), " ", plus, class_="figures")
    track = element("span", filled, class_="track", aria_hidden="true")
    return element("div", label, element("dd", track, figures))


def _moment(time: str | None, day_of: str | None) -> str:
    """`` 12:05``, with the date if it differs from the day of ``day_of``."""
    if time is None:
        return ""
    day = "" if day_of is not None and time[:10] == day_of[:10] else f" {time[:10]}"
    return f"{day} {time[11:16]}"


def _clock(time: str | None) -> str:
    return "" if time is None else f"{time[11:19]} UTC"


def _remarks(data: Data) -> list[Child]:
    """Remarks on the validity of the bars."""
    remarks = []
    if data["left_out"] and data["counted"]:
        left_out = counted(len(data["left_out"]), "node")
        remarks.append(
            f"Sums over the {number(data['counted'])} nodes with all values; {left_out} left out: "
            f"{listed(data['left_out'])}."
        )
    if data["not_bound"]:
        remarks.append(
            f"{counted(data['not_bound'], 'pod')} of the plan could not be bound. Nothing here counts "
            "them, so a node with a part of its planned pods has no prediction, and other schedulers, "
            "which placed all pods, are not comparable."
        )
    baseline, plan = data["times"]["baseline"], data["times"]["predicted_after"]
    if data["watts"]["baseline"] is not None and baseline and plan and _days(baseline, plan) >= 1:
        remarks.append(
            f"The default scheduler's power was read {counted(_days(baseline, plan), 'day')} from "
            "the plan. They are comparable only for the same pods."
        )
    if data["gone"] or data["came"]:
        remarks.append(
            f"Since the plan {counted(data['gone'], 'pod')} ended and "
            f"{counted(data['came'], 'pod')} came, so measured and predicted power have different "
            "loads."
        )
    return [note(remark) for remark in remarks]


def _days(one: str, other: str) -> int:
    return abs(parse_time(one) - parse_time(other)).days


SECTION = Section("headline", "Power of the fleet", _collect, _render)
