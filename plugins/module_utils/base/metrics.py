# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Metrics in the Prometheus text format, for node_exporter's textfile collector and for servers.

Source: https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format
"""

from __future__ import annotations

import math
import re
import typing as t
from pathlib import Path

from . import whole_files
from .errors import InvalidInput

Labels = t.Mapping[str, str]
Samples = t.Iterable[tuple[Labels, float]]

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

# Grammar of the format, from which readers of texts of others are built.
METRIC_NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL_NAME = r"[a-zA-Z_][a-zA-Z0-9_]*"
LABEL_VALUE = r'(?:[^"\\\n]|\\["\\n])*'
FINITE_NUMBER = r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]{1,3})?"

# Own labels of all metrics of the collection, so that one set of user labels suits every file.
_OWN_LABELS = frozenset({"node", "quantity", "endpoint", "reason", "cache", "namespace"})
_OWN_LABEL_NAME = re.compile(rf"(?!__){LABEL_NAME}")


def family(name: str, text: str, samples: Samples, labels: Labels, kind: str = "gauge") -> str:
    """The samples of a metric; each has ``labels`` in addition to its own labels."""
    lines = [f"# HELP {name} {text}", f"# TYPE {name} {kind}"]
    for own, value in samples:
        if not math.isfinite(value):
            continue
        pairs = ",".join(f'{key}="{_escaped(val)}"' for key, val in {**own, **labels}.items())
        lines.append(f"{name}{{{pairs}}} {value:.14g}" if pairs else f"{name} {value:.14g}")
    return "\n".join(lines) + "\n"


def check_labels(labels: Labels) -> None:
    """Raise InvalidInput for labels that are invalid in Prometheus."""
    for name, value in labels.items():
        if name in _OWN_LABELS or not _OWN_LABEL_NAME.fullmatch(name):
            raise InvalidInput(
                f"textfile_labels: {name!r} cannot be a label; write letters, digits and "
                f"underscores, and none of {', '.join(sorted(_OWN_LABELS))}"
            )
        if not isinstance(value, str):
            raise InvalidInput(f"textfile_labels: the value of {name} must be a text")


def _escaped(text: str) -> str:
    readable = text.encode("utf-8", "replace").decode("utf-8")
    return readable.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def write(path: str, content: str) -> None:
    """Replace the file atomically, readable by all because the exporter has its own user."""
    destination = Path(path).absolute()
    try:
        whole_files.sweep(destination.parent)
        whole_files.replace(destination, content.encode(), mode=0o644)
    except OSError as error:
        raise InvalidInput(
            f"Cannot write the metrics to {path}: {error.strerror}; check that the folder exists, "
            "that this user may write in it, and that it has no folder of that name"
        ) from error
