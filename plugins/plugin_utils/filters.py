# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What makes functions of the library filters of Ansible."""

from __future__ import annotations

import datetime
import functools
import typing as t

from ansible.errors import AnsibleFilterError
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator

from ansible_collections.wattwise.kube.plugins.module_utils.base.argspec import Options
from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import (
    InvalidInput,
    WattwiseError,
)

Function = t.Callable[..., t.Any]


def as_filter(name: str, function: Function) -> Function:
    """The function with its errors as Ansible words them for a template."""

    @functools.wraps(function)
    def filter_function(*arguments: t.Any, **keywords: t.Any) -> t.Any:
        try:
            return function(*arguments, **keywords)
        except WattwiseError as error:
            # Ansible would repeat the sentence for each error that this one comes from.
            raise AnsibleFilterError(f"wattwise.kube.{name}: {error}") from None

    return filter_function


def checked_options(specified: Options, given: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Keywords of a filter, converted and completed as options of a module. Raises InvalidInput.

    One that is None counts as not given, for a template cannot omit a keyword.
    """
    unknown = given.keys() - specified.keys()
    if unknown:
        raise InvalidInput(
            f"there is no option {', '.join(sorted(unknown))}; there are "
            f"{', '.join(sorted(specified))}"
        )
    options = {name: dict(option) for name, option in specified.items()}
    named = {name: plain(value) for name, value in given.items() if value is not None}
    result = ArgumentSpecValidator(options).validate(named)
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
