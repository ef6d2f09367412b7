# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The placement task of module parameters, for tests of single stages of the solver."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping

from ansible_collections.wattwise.kube.plugins.module_utils.power.constraints.instance import (
    Instance,
)
from ansible_collections.wattwise.kube.plugins.module_utils.power.sources import (
    instance_of,
    read_source,
)


def read_instance(parameters: Mapping[str, t.Any]) -> Instance:
    """The task that completed parameters describe."""
    return instance_of(read_source(parameters), parameters)
