# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter device_allocation, with the module's result in a template."""

from __future__ import annotations

import typing as t

from ansible.utils.display import Display

from ..module_utils.base.argspec import ArgumentSpec
from ..module_utils.base.context import Context
from ..plugin_utils.filters import as_filter
from ..plugin_utils.options import checked_options, plain

# Options that a filter does not need, because it gets objects as a value and reads no file.
_OTHER_SOURCES = ("objects", "src", "snapshot", "curves")


def device_allocation(objects: t.Any, **options: t.Any) -> dict[str, t.Any]:
    """The module's result for these objects, without ``changed``. Raises WattwiseError."""
    # Ansible imports the files of all filters for each of them, in the process of the whole run,
    # and these imports are large.
    from ..module_utils.devices import allocation

    taken = allocation.SPEC.options.items()
    spec = ArgumentSpec({name: option for name, option in taken if name not in _OTHER_SOURCES})
    parameters = checked_options(spec, options)
    given = objects if isinstance(objects, (list, tuple)) else [objects]
    context = Context(warn=Display().warning)
    answer = allocation.allocate({**parameters, "objects": plain(given)}, context)
    del answer["changed"]
    return answer


class FilterModule:
    """The class that Ansible loads."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"device_allocation": as_filter("device_allocation", device_allocation)}
