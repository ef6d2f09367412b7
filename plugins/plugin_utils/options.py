# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Options of plugins, checked by Ansible as those of modules are."""

from __future__ import annotations

import datetime
import typing as t

from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible.module_utils.common.parameters import env_fallback

from ansible_collections.wattwise.kube.plugins.module_utils.base.argspec import ArgumentSpec
from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import InvalidInput


def checked_options(spec: ArgumentSpec, given: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Options of a plugin, converted and completed as those of a module. Raises InvalidInput.

    One that is None counts as not given, for a template cannot omit a keyword.
    """
    unknown = given.keys() - spec.options.keys()
    if unknown:
        raise InvalidInput(
            f"there is no option {', '.join(sorted(unknown))}; there are "
            f"{', '.join(sorted(spec.options))}"
        )
    named = {name: plain(value) for name, value in given.items() if value is not None}
    result = ArgumentSpecValidator(**spec.to_keywords(env_fallback)).validate(named)
    if result.error_messages:
        raise InvalidInput("; ".join(result.error_messages))
    return dict(result.validated_parameters)


def plain(value: t.Any) -> t.Any:
    """A value of a template as a module would get it: rendered, and of JSON's types alone."""
    if isinstance(value, t.Mapping):
        return {
            plain(key) if isinstance(key, str) else str(key): plain(member)
            for key, member in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, (datetime.date, datetime.datetime)):
        return value.isoformat()
    # Of Ansible's own class of texts str() gives one again, and libraries in C refuse it.
    return str.__str__(value) if isinstance(value, str) else value
