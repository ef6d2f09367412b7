# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The textfiles of all fleets' runs as one exposition in the Prometheus text format.

A metric is in the files of several fleets, and the format requires all of its samples together. An
invalid file is left out completely and counted, because a part of it would look complete.

Source: https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format
"""

from __future__ import annotations

import os
import re
import stat
import typing as t
from dataclasses import dataclass, field
from pathlib import Path

from ..base import metrics

# A thousand nodes need 1 MiB: about ten metrics, a hundred bytes each.
MAX_FILE = 8 * 1024 * 1024
MAX_TOTAL = 64 * 1024 * 1024
# A fleet that was deleted leaves its folder behind.
MAX_AGE_SECONDS = 3600.0

_LABEL = f'{metrics.LABEL_NAME}="{metrics.LABEL_VALUE}"'
_SAMPLE = re.compile(
    rf"(?P<name>{metrics.METRIC_NAME})(?P<labels>\{{{_LABEL}(?:,{_LABEL})*\}})? "
    rf"{metrics.FINITE_NUMBER}",
    re.ASCII,
)
_COMMENT = re.compile(
    rf"# (?P<kind>HELP|TYPE) (?P<name>{metrics.METRIC_NAME}) (?P<text>\S.*)", re.ASCII
)
# The names of a namespace, of a fleet, and of the folder and files that a run writes.
_FILES = "*/*/metrics/*.prom"


@dataclass
class _Family:
    """A metric: its two comments, and its samples by name and labels."""

    comments: dict[str, str] = field(default_factory=dict)
    samples: dict[str, str] = field(default_factory=dict)

    def add(self, other: _Family) -> None:
        for kind, line in other.comments.items():
            self.comments.setdefault(kind, line)
        for series, line in other.samples.items():
            self.samples.setdefault(series, line)

    def lines(self) -> t.Iterator[str]:
        yield from (self.comments[kind] for kind in ("HELP", "TYPE") if kind in self.comments)
        yield from self.samples.values()


Families = dict[str, _Family]


def collect(runs: Path, now: float, max_age_seconds: float = MAX_AGE_SECONDS) -> str:
    """The metrics of all run folders below ``runs``; never fails.

    Files that were not written for ``max_age_seconds`` before ``now`` (Unix time) are left out.
    """
    families: Families = {}
    counts = dict.fromkeys(("served", "stale", "refused"), 0)
    left = MAX_TOTAL
    for path in sorted(runs.glob(_FILES)):
        state, found = _read(path, now - max_age_seconds, left)
        counts[state] += 1
        for name, family in (found or {}).items():
            families.setdefault(name, _Family()).add(family)
        left -= _size(found or {})
    own = metrics.family(
        "wattwise_textfiles",
        "Files with metrics of runs, and what became of them.",
        [({"state": state}, float(count)) for state, count in counts.items()],
        {},
    )
    lines = (line for _name, family in sorted(families.items()) for line in family.lines())
    return "".join(f"{line}\n" for line in lines) + own


def _read(path: Path, oldest: float, largest: int) -> tuple[str, Families | None]:
    """Outcome of a file, and its content if it is served."""
    try:
        # Runs write plain files; anything else could make this program wait or read elsewhere.
        number = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(number, "rb") as file:
            found = os.fstat(number)
            if not stat.S_ISREG(found.st_mode):
                return "refused", None
            if found.st_mtime < oldest:
                return "stale", None
            content = file.read(min(MAX_FILE, largest) + 1)
        if len(content) > min(MAX_FILE, largest):
            return "refused", None
        return "served", parse(content.decode())
    except (OSError, ValueError):
        return "refused", None


def _size(families: Families) -> int:
    return sum(len(line) + 1 for family in families.values() for line in family.lines())


def parse(text: str) -> Families:
    """The metrics of one file. Raises ValueError for a line outside of the format."""
    families: Families = {}
    for line in filter(None, text.split("\n")):
        comment, sample = _COMMENT.fullmatch(line), _SAMPLE.fullmatch(line)
        if comment:
            family = families.setdefault(comment["name"], _Family())
            family.comments.setdefault(comment["kind"], line)
        elif sample:
            family = families.setdefault(sample["name"], _Family())
            family.samples.setdefault(sample["name"] + (sample["labels"] or ""), line)
        else:
            raise ValueError("a line is neither a comment nor a sample")
    return families
