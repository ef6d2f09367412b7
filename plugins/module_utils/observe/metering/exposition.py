# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Samples of chosen families from an untrusted text in the Prometheus text format.

Source: https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format
"""

from __future__ import annotations

import re
import typing as t

from ...base.errors import TargetFailure
from ...base.metrics import FINITE_NUMBER, LABEL_NAME, LABEL_VALUE, METRIC_NAME
from ...base.texts import shown

MAX_SAMPLES = 50_000
# Largest power of one machine, with all of its devices, far above any real one.
MAX_WATTS = 100_000.0
_MAX_LABELS = 64
_MAX_NUMBER_LENGTH = 64

_LINE = re.compile(rf"^[ \t]*({METRIC_NAME})([^\n]*)", re.ASCII | re.MULTILINE)
_PAIR = re.compile(
    rf'[ \t]*(?P<name>{LABEL_NAME})[ \t]*=[ \t]*"(?P<value>{LABEL_VALUE})"[ \t]*', re.ASCII
)
_ESCAPED = re.compile(r'\\(["\\n])')
_NUMBER = re.compile(FINITE_NUMBER, re.ASCII)
_TIMESTAMP = re.compile(r"-?[0-9]{1,20}", re.ASCII)


class Sample(t.NamedTuple):
    """One sample, without its timestamp."""

    name: str
    labels: t.Mapping[str, str]
    value: float


def parse(text: str, families: t.Container[str]) -> list[Sample]:
    """The samples of ``families``; other lines are not read.

    Raises TargetFailure for a broken line, a negative or non-finite number, and a duplicate series.
    """
    samples: list[Sample] = []
    known: set[tuple[str, frozenset[tuple[str, str]]]] = set()
    for line in _LINE.finditer(text):
        if line[1] not in families:
            continue
        try:
            sample = _sample(line[1], line[2])
        except ValueError as error:
            number = text.count("\n", 0, line.start()) + 1
            raise TargetFailure(
                "malformed",
                f"line {number} of its metrics, {shown(line[0])}, {error}; check that the "
                "endpoint is Kepler's",
            ) from error
        series = (sample.name, frozenset(sample.labels.items()))
        if series in known:
            raise TargetFailure(
                "malformed", f"its metrics have {shown(line[0])} twice; check Kepler's log"
            )
        known.add(series)
        samples.append(sample)
        if len(samples) > MAX_SAMPLES:
            raise TargetFailure(
                "malformed",
                f"its metrics have more than {MAX_SAMPLES} samples of pods and containers; check "
                "that the endpoint is Kepler's",
            )
    return samples


def amount(text: str) -> float:
    """A finite number of 0 or more. Raises ValueError."""
    if len(text) > _MAX_NUMBER_LENGTH or not _NUMBER.fullmatch(text):
        raise ValueError(f"has {shown(text)}, which is not a finite number")
    value = float(text)
    if not 0 <= value < float("inf"):
        raise ValueError(f"has {shown(text)}, which is not an amount of power or energy")
    return abs(value)


def _sample(name: str, line: str) -> Sample:
    """The sample of a line; ``line`` is the rest after the name. Raises ValueError."""
    labels: dict[str, str] = {}
    rest = line.lstrip(" \t")
    if rest.startswith("{"):
        rest = rest[_read_labels(rest, labels) :]
    elif rest == line:
        raise ValueError("is no sample")
    fields = rest.split()
    if not 1 <= len(fields) <= 2 or (len(fields) == 2 and not _TIMESTAMP.fullmatch(fields[1])):
        raise ValueError("is no sample")
    return Sample(name, labels, amount(fields[0]))


def _read_labels(text: str, labels: dict[str, str]) -> int:
    """Read the labels in braces; returns the position after them. Raises ValueError."""
    position = _after_blanks(text, 1)
    while text[position : position + 1] != "}":
        pair = _PAIR.match(text, position)
        if pair is None or pair["name"] in labels or len(labels) >= _MAX_LABELS:
            raise ValueError("has labels that cannot be read")
        labels[pair["name"]] = _ESCAPED.sub(_unescaped, pair["value"])
        position = pair.end()
        if text[position : position + 1] == ",":
            position = _after_blanks(text, position + 1)
        elif text[position : position + 1] != "}":
            raise ValueError("has labels that cannot be read")
    return position + 1


def _after_blanks(text: str, position: int) -> int:
    while text[position : position + 1] in (" ", "\t"):
        position += 1
    return position


def _unescaped(found: re.Match[str]) -> str:
    return "\n" if found[1] == "n" else found[1]
