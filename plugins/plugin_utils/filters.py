# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Conversion of library functions to Ansible filters."""

from __future__ import annotations

import functools
import typing as t

from ansible.errors import AnsibleFilterError

from ..module_utils.base.errors import WattwiseError

Function = t.Callable[..., t.Any]


def as_filter(name: str, function: Function) -> Function:
    """The function with its errors as Ansible's filter errors."""

    @functools.wraps(function)
    def filter_function(*arguments: t.Any, **keywords: t.Any) -> t.Any:
        try:
            return function(*arguments, **keywords)
        except WattwiseError as error:
            # Ansible would repeat the sentence for each cause of this error.
            raise AnsibleFilterError(f"wattwise.kube.{name}: {error}") from None

    return filter_function
