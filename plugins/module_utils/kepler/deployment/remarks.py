# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Remarks on settings of a KeplerSystem that are accepted, but probably not meant."""

from __future__ import annotations

import typing as t

from ...base.boundary import shown
from ...base.errors import InvalidInput
from ...base.json_types import Object
from ..verdict import NEWEST, KeplerVersion


def remarks(spec: Object, version: KeplerVersion, is_cluster_wide: bool) -> t.Iterator[str]:
    """Sentences on settings of a KeplerSystem that are valid, but without their usual meaning."""
    if version.is_newer_than_known:
        yield (
            f"version: {version} is newer than {NEWEST}, the newest release that this collection "
            "knows; Kepler ignores keys that it has renamed since"
        )
    image = spec["image"]
    tags = [("image", image["tag"])]
    tags += [
        (f"image.by_architecture[{index}]", item["tag"])
        for index, item in enumerate(image["by_architecture"])
    ]
    for where, tag in tags:
        if tag and not tag.startswith("sha256:") and not _is_of(tag, version):
            yield (
                f"{where}.tag: {shown(tag)} is not the tag of Kepler {version}, for which the "
                "configuration is written; another program may ignore parts of it"
            )
    if not is_cluster_wide and not version.uses_ebpf:
        collectors = [("collector", spec["collector"])]
        collectors += [
            (f"pools[{index}].collector", item["collector"])
            for index, item in enumerate(spec["pools"])
        ]
        for where, collector in collectors:
            if "pod" in (collector["metric_levels"] or ()):
                yield (
                    f"{where}.metric_levels: pod has no effect in the minimum scope, where Kepler "
                    "knows no pods; set the cluster scope, or remove it"
                )


def _is_of(tag: str, version: KeplerVersion) -> bool:
    try:
        return KeplerVersion.parse(tag) == version
    except InvalidInput:
        return False
