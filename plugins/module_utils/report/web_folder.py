# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""A folder of a web server with the reports of several clusters, and an index of them."""

from __future__ import annotations

import operator
import re
import typing as t
from pathlib import Path

from ..base import documents, strict_json, whole_files
from ..base.boundary import Finding, Subject, guarded, shown
from ..base.errors import InvalidInput
from .markup import Child, Markup, element
from .numbers import LACKING, celsius, moment, number, watts
from .page import html
from .section import Column, table

_INDEX = "index.html"
_SUMMARY = ".summary.json"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")
# The user of the web server reads them.
_MODE = 0o644
_LIMITS = strict_json.JsonLimits(size=1_000_000, members=10_000)
_TITLES = (
    *("Cluster", "Time", "Fleet", "Saved", "Hottest inlet", "Waiting pods", "Failing endpoints"),
)
_COLUMNS = [
    Column(title, operator.itemgetter(place), is_number=place > 1)
    for place, title in enumerate(_TITLES)
]


def publish(folder: Path, name: str, page: bytes, summary: bytes, *, check_mode: bool) -> bool:
    """Replace page and summary of this cluster, and the index; return whether a file changed.

    The index has every cluster whose summary is in the folder. Raises InvalidInput.
    """
    if not _is_name(name):
        raise InvalidInput(
            f"name: {shown(name)} is not a name for a file in a web folder; give letters, digits, "
            "dots, hyphens and underscores, and another name than index"
        )
    wanted = {f"{name}.html": page, f"{name}{_SUMMARY}": summary}
    try:
        if check_mode:
            return bool(_different(folder, _with_index(folder, wanted)))
        with whole_files.locked(folder):
            files = _different(folder, _with_index(folder, wanted))
            for path, content in files.items():
                whole_files.replace(folder / path, content, _MODE)
        return bool(files)
    except OSError as error:
        raise InvalidInput(
            f"Cannot write to the web folder {folder}: {error.strerror}; make the folder, and let "
            "this user write there"
        ) from error


def _is_name(name: str) -> bool:
    return bool(_NAME.fullmatch(name)) and name.lower() != "index"


def _different(folder: Path, files: t.Mapping[str, bytes]) -> dict[str, bytes]:
    """Files that are missing in the folder or differ."""
    return {name: content for name, content in files.items() if _read(folder / name) != content}


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def _with_index(folder: Path, files: t.Mapping[str, bytes]) -> dict[str, bytes]:
    present = {
        path.name: path.read_bytes()[: _LIMITS.size + 1]
        for path in folder.iterdir()
        if path.name.endswith(_SUMMARY) and _is_name(path.name[: -len(_SUMMARY)]) and path.is_file()
    }
    summaries = {
        name[: -len(_SUMMARY)]: content
        for name, content in {**present, **files}.items()
        if name.endswith(_SUMMARY)
    }
    return {**files, _INDEX: _index(summaries).encode()}


def _index(summaries: t.Mapping[str, bytes]) -> str:
    rows = [_row(name, content) for name, content in sorted(summaries.items())]
    main = element("main", element("h1", "Clusters"), table("Clusters", _COLUMNS, rows))
    return html("", main)


def _row(name: str, content: bytes) -> list[Child]:
    """One cluster; an unreadable summary leaves its link."""
    link = element("a", name, href=f"{name}.html")
    cells = guarded(Subject("summary", name), lambda: _cells(content))
    return [link, *([LACKING] * (len(_COLUMNS) - 1) if isinstance(cells, Finding) else cells)]


def _cells(content: bytes) -> list[Markup | str]:
    summary = strict_json.parse(content, _LIMITS)
    documents.check(summary, "summary", "The summary")
    fleet = summary["watts"]
    after, hottest, saved = fleet.get("measured_after"), summary["hottest"], summary["saved"]
    return [
        moment(summary["time"]),
        watts(fleet.get("measured_before") if after is None else after),
        watts(None if saved is None else saved["watts"]),
        celsius(None if hottest is None else hottest["inlet_celsius"]),
        number(summary["waiting"]),
        number(summary["failing"]),
    ]
