# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filters that bridge role report and the library's package of the same name."""

from __future__ import annotations

import typing as t
from collections.abc import Callable

from ansible.errors import AnsibleFilterError

from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import WattwiseError
from ansible_collections.wattwise.kube.plugins.module_utils.base.strict_json import format_compact
from ansible_collections.wattwise.kube.plugins.module_utils.report import building


def _in_one_sentence(work: Callable[[], t.Any]) -> t.Any:
    try:
        return work()
    except WattwiseError as error:
        raise AnsibleFilterError(str(error)) from None


def _as_json(body: t.Mapping[str, t.Any]) -> str:
    return format_compact(body, sort_keys=True)


def report_document(
    run_dir: str,
    title: str = "",
    settle_seconds: float = 60.0,
    type_label: str = "node.kubernetes.io/instance-type",
    rack_labels: t.Sequence[str] = ("wattwise.github.io/rack", "topology.kubernetes.io/zone"),
    position_label: str = "wattwise.github.io/rack-unit",
) -> str:
    """JSON text of the report document of a run folder."""
    options = {
        "title": str(title),
        "settle_seconds": float(settle_seconds),
        "type_label": str(type_label),
        "rack_labels": tuple(map(str, rack_labels)),
        "position_label": str(position_label),
    }
    return t.cast(
        str, _in_one_sentence(lambda: _as_json(building.build_from(str(run_dir), **options)))
    )


def report_html(path: str) -> str:
    """The page of the report document at this path."""
    return t.cast(str, _in_one_sentence(lambda: building.html_from(str(path))))


def report_summary(path: str, page: str) -> str:
    """JSON text of the summary document of the report document at this path."""
    return t.cast(
        str, _in_one_sentence(lambda: _as_json(building.summary_from(str(path), str(page))))
    )


class FilterModule:
    """The filters of this file."""

    def filters(self) -> dict[str, Callable[..., str]]:
        return {
            "report_document": report_document,
            "report_html": report_html,
            "report_summary": report_summary,
        }
