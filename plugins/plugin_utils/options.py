# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Options of plugins, checked by Ansible like those of modules."""

from __future__ import annotations

import datetime
import typing as t

from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible.module_utils.common.parameters import env_fallback

from ..module_utils.base.argspec import ArgumentSpec
from ..module_utils.base.errors import InvalidInput


def checked_options(spec: ArgumentSpec, given: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Options of a plugin, converted and completed like those of a module.

    Raises InvalidInput. None counts as not given, because a template cannot omit a keyword.
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
    """A value of a template in the form for a module: rendered, and only of JSON's types."""
    if isinstance(value, t.Mapping):
        return {
            plain(key) if isinstance(key, str) else str(key): plain(member)
            for key, member in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, (datetime.date, datetime.datetime)):
        return value.isoformat()
    # str() of Ansible's text class gives the same class, which libraries in C refuse.
    return str.__str__(value) if isinstance(value, str) else value
