# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pictures of the guides from runs in the lab, as SVG that follows a reader's dark or light mode.

With the environment's WATTWISE_GUIDE_PICTURES, tests write the pictures into that folder.
"""

from __future__ import annotations

import math
import os
import typing as t
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from xml.etree import ElementTree

Json = Mapping[str, t.Any]

STORED = Path(__file__).resolve().parents[2] / "docs" / "images"
WIDTH = 760
# Distinguishable with every kind of colour vision (Okabe and Ito).
FILLS = {
    "first": "#0072b2",
    "second": "#009e73",
    "rest": "#7a7a7a",
    "third": "#d55e00",
    "none": "none",
}
STYLE = """<style>
text { font: 12px sans-serif; fill: #222 }
.title { font-size: 15px; font-weight: bold }
.small { font-size: 10px }
.on { fill: #fff }
.grid { stroke: #ddd }
.cell { stroke: #999 }
.back { fill: #fff }
@media (prefers-color-scheme: dark) {
text { fill: #ddd } .on { fill: #fff } .grid { stroke: #444 } .cell { stroke: #777 }
.back { fill: #161616 }
}
</style>"""


def write(name: str, svg: str) -> None:
    """Write the picture if the environment asks for it; it is well-formed in every case."""
    ElementTree.fromstring(svg)
    folder = os.environ.get("WATTWISE_GUIDE_PICTURES")
    if folder:
        (Path(folder) / name).write_text(svg, encoding="utf-8")


def check(name: str, svg: str) -> None:
    """Compare the picture with the stored one."""
    write(name, svg)
    assert (STORED / name).read_text(encoding="utf-8") == svg, f"draw docs/images/{name} again"


@dataclass(frozen=True)
class Sample:
    """Power in watts at one time in seconds: of the node's CPU and memory, and of pods by name."""

    at: float
    node: float
    pods: Mapping[str, float]


def power_of_pods(samples: Sequence[Sample]) -> str:
    """Areas over time, the lowest of which no pod has caused."""
    left, top, width, height = 60.0, 40.0, WIDTH - 80.0, 240.0
    names = sorted({name for one in samples for name in one.pods})
    span = samples[-1].at - samples[0].at
    # Its quarters are round numbers of watts.
    most = math.ceil(max(one.node for one in samples) / 40) * 40

    def place(at: float, watts: float) -> str:
        x = left + width * (at - samples[0].at) / span
        return f"{x:.1f} {top + height * (1 - watts / most):.1f}"

    parts = [
        *_grid(left, top, width, height, most, span),
        f'<text class="title" x="{left}" y="22">Power of CPU and memory of one node</text>',
    ]
    layers = {"not caused by pods": [one.node - sum(one.pods.values()) for one in samples]}
    layers |= {name: [one.pods.get(name, 0.0) for one in samples] for name in names}
    low = [0.0] * len(samples)
    fills = [FILLS[each] for each in ("rest", "first", "second", "third")[: len(layers)]]
    for number, ((name, watts), fill) in enumerate(zip(layers.items(), fills, strict=True)):
        high = [below + each for below, each in zip(low, watts, strict=True)]
        edge = [place(one.at, each) for one, each in zip(samples, high, strict=True)]
        base = [place(one.at, each) for one, each in zip(samples, low, strict=True)]
        parts.append(f'<path d="M{"L".join([*edge, *reversed(base)])}z" fill="{fill}"/>')
        parts.append(_legend(left + number * 170, top + height + 52, fill, name))
        low = high
    return _svg("Power of a node over time, divided among its pods", top + height + 64, parts)


def _grid(
    left: float, top: float, width: float, height: float, most: float, span: float
) -> Iterator[str]:
    for step in range(5):
        y = top + height * (1 - step / 4)
        yield f'<path class="grid" d="M{left} {y:.1f}h{width}"/>'
        yield f'<text x="{left - 8}" y="{y + 4:.1f}" text-anchor="end">{most * step / 4:.0f} W</text>'
    for second in range(0, math.floor(span) + 1, 5):
        x = left + width * second / span
        yield f'<text x="{x:.1f}" y="{top + height + 18}" text-anchor="middle">{second} s</text>'


def hosts_by_rack(hosts: Mapping[str, Json], status: Json) -> str:
    """Each host in its rack, in the colour of its role; ``status`` is that of the Provisioning."""
    roles = {one["host"]: one["role"] for one in status["assignments"]}
    reasons = {one["host"]: str(one["reason"]) for one in status["unassigned"]}
    racks: dict[str, list[str]] = {}
    for name in sorted(hosts):
        rack = hosts[name]["metadata"]["labels"]["wattwise.github.io/rack"]
        racks.setdefault(rack, []).append(name)
    kinds = ("master", "worker", "free, not needed", "free, does not fit", "not free")
    styles = dict(zip(kinds, FILLS, strict=True))
    counts = dict.fromkeys(kinds, 0)
    step, row, parts = (WIDTH - 20) / len(racks), 22, []
    for column, (rack, names) in enumerate(racks.items()):
        x = 10 + column * step
        parts.append(f'<text x="{x:.1f}" y="50">rack {escape(rack)}</text>')
        for number, name in enumerate(names):
            kind = roles.get(name) or _kind_of(reasons[name])
            counts[kind] += 1
            box = (x, 58 + number * row, step - 6, row - 3)
            parts += _host(box, _facts(name, hosts[name]), FILLS[styles[kind]])
    below = 58 + row * max(map(len, racks.values())) + 18
    parts.append('<text class="title" x="10" y="22">Roles of hosts by their facts</text>')
    shown = {kind: count for kind, count in counts.items() if count}
    for number, (kind, count) in enumerate(shown.items()):
        fill = FILLS[styles[kind]]
        parts.append(_legend(10 + number * 148, below, fill, f"{count} {kind}"))
    note = "Hardware threads and GiB of memory of each host; S: SR-IOV, Q: QAT."
    parts.append(f'<text x="10" y="{below + 24}">{note}</text>')
    return _svg("Hosts by rack, with the role of each", below + 36, parts)


def _kind_of(reason: str) -> str:
    if "every role has its hosts" in reason:
        return "free, not needed"
    return "not free" if reason.startswith("is ") else "free, does not fit"


def _facts(name: str, host: Json) -> str:
    hardware, labels = host["status"]["hardware"], host["metadata"]["labels"]
    marks = "S" if host["spec"]["firmware"]["sriovEnabled"] else ""
    marks += "Q" if any("pci-0b40" in label for label in labels) else ""
    number = name.rpartition("-")[2]
    return f"{number} {hardware['cpu']['count']} {hardware['ramMebibytes'] // 1024} {marks}"


def _host(box: tuple[float, float, float, float], text: str, fill: str) -> Iterator[str]:
    x, y, width, height = box
    yield (
        f'<rect class="cell" x="{x:.1f}" y="{y}" width="{width:.1f}" height="{height}" rx="3"'
        f' fill="{fill}"/>'
    )
    words = "small" if fill == "none" else "small on"
    yield f'<text class="{words}" x="{x + 5:.1f}" y="{y + 13}">{escape(text.strip())}</text>'


def _legend(x: float, y: float, fill: str, text: str) -> str:
    return (
        f'<rect class="cell" x="{x:.1f}" y="{y - 10:.1f}" width="12" height="12" fill="{fill}"/>'
        f'<text x="{x + 18:.1f}" y="{y:.1f}">{escape(text)}</text>'
    )


def _svg(label: str, height: float, parts: Sequence[str]) -> str:
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" role="img"'
        f' aria-label="{escape(label)}">'
    )
    return "\n".join(
        [head, STYLE, '<rect class="back" width="100%" height="100%"/>', *parts, "</svg>\n"]
    )
