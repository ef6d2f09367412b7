# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filters of the ``awx`` role: objects of AWX, the plan for existing ones, and a file of them."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

from ansible.module_utils.common.yaml import yaml_load
from ansible.utils.unsafe_proxy import wrap_var

from ..module_utils.base.json_types import MutableObject
from ..plugin_utils.filters import as_filter

SURVEYS = Path(__file__).resolve().parents[2] / "extensions" / "awx" / "surveys"


def awx_configuration(settings: MutableObject) -> MutableObject:
    """The objects of AWX for these settings, with the surveys of this collection."""
    from ..module_utils.awx import comparison, configuration
    from ..plugin_utils.options import checked_options

    surveys = {
        path.stem: yaml_load(path.read_text(encoding="utf-8"))
        for path in sorted(SURVEYS.glob("*.yml"))
    }
    options = checked_options(configuration.SPEC, {"surveys": surveys, **settings})
    lists = configuration.configure(options)
    # Texts for AWX contain braces, which Ansible must not render.
    found: MutableObject = wrap_var({"lists": lists, "queries": comparison.queries(lists)})
    return found


def awx_changes(lists: MutableObject, existing: MutableObject, **options: t.Any) -> MutableObject:
    """The plan for the objects of an AWX."""
    from ..module_utils.awx import comparison
    from ..plugin_utils.options import plain

    found: MutableObject = wrap_var(
        comparison.compare(
            plain(lists), plain(existing), **{name: bool(value) for name, value in options.items()}
        )
    )
    return found


def awx_variables_file(lists: MutableObject) -> str:
    """A file of variables for infra.aap_configuration."""
    from ..module_utils.awx import files
    from ..plugin_utils.options import plain

    # Numbers of Ansible's own classes are unknown to PyYAML.
    values = json.loads(json.dumps(plain(lists)))
    text: str = wrap_var(files.as_variables_file(values))
    return text


class FilterModule:
    """The class that Ansible loads."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        functions = (awx_configuration, awx_changes, awx_variables_file)
        return {function.__name__: as_filter(function.__name__, function) for function in functions}
