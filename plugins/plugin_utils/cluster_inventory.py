# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The base of the inventory plugins: a file of options, a cluster, hosts, groups and the cache."""

from __future__ import annotations

import abc
import hashlib
import json
import typing as t

from ansible.errors import AnsibleParserError
from ansible.plugins.inventory import BaseInventoryPlugin, Cacheable, Constructable
from ansible.utils.unsafe_proxy import wrap_var

from ..module_utils.base.argspec import KUBERNETES
from ..module_utils.base.boundary import warn_of
from ..module_utils.base.context import Context
from ..module_utils.base.errors import WattwiseError
from ..module_utils.nodeconfig.inventory_hosts import InventoryHost, InventoryHosts
from .options import checked_options

Json = t.Any


def _never_templated(value: t.Any) -> t.Any:
    """The value with its texts marked as unsafe that ansible-core before 2.19 would template.

    Writers of the cluster must not be able to run code on the controller.
    """
    if isinstance(value, dict):
        return {key: _never_templated(member) for key, member in value.items()}
    if isinstance(value, list):
        return [_never_templated(member) for member in value]
    return wrap_var(value) if isinstance(value, str) and "{" in value else value


class ClusterInventory(BaseInventoryPlugin, Constructable, Cacheable):  # type: ignore[misc]  # ansible-core has no types
    """Inventory hosts from the objects of a cluster.

    A plugin has the suffixes of its file names, the option with the group of all hosts, and the
    options that decide the read data.
    """

    FILE_NAMES: tuple[str, ...] = ()
    GROUP_OPTION = ""
    READING_OPTIONS: tuple[str, ...] = ()

    @abc.abstractmethod
    def read(self, connection: t.Mapping[str, t.Any]) -> Json:
        """The data read from the cluster, as JSON for the cache. Raises WattwiseError."""

    @abc.abstractmethod
    def hosts_of(self, read: Json) -> InventoryHosts:
        """The hosts of the read data. Raises WattwiseError."""

    def verify_file(self, path: str) -> bool:
        return bool(super().verify_file(path)) and path.endswith(self.FILE_NAMES)

    def parse(self, inventory: t.Any, loader: t.Any, path: str, cache: bool = True) -> None:
        super().parse(inventory, loader, path, cache)
        self._read_config_data(path)
        try:
            found = self.hosts_of(self._read_cluster(path, cache))
        except WattwiseError as error:
            raise AnsibleParserError(f"{path}: {error}") from error
        warn_of(found.findings, Context(warn=self._warn))
        group = self._sanitize_group_name(self.get_option(self.GROUP_OPTION))
        self.inventory.add_group(group)
        for host in found.hosts:
            self._add(host, group)

    def _warn(self, sentence: str) -> None:
        self.display.warning(sentence)

    def _add(self, host: InventoryHost, group: str) -> None:
        name = host.name
        self.inventory.add_host(name, group=group)
        for item in host.groups:
            self.inventory.add_host(
                name, group=self.inventory.add_group(self._sanitize_group_name(item))
            )
        variables = _never_templated(host.variables)
        for key, value in variables.items():
            self.inventory.set_variable(name, key, value)
        strict = self.get_option("strict")
        self._set_composite_vars(self.get_option("compose"), variables, name, strict)
        known = {**variables, **self.inventory.get_host(name).get_vars()}
        self._add_host_to_composed_groups(self.get_option("groups"), known, name, strict)
        self._add_host_to_keyed_groups(self.get_option("keyed_groups"), known, name, strict)

    def _read_cluster(self, path: str, cache: bool) -> Json:
        """The read data, from a valid cache if allowed."""
        given = {name: self.get_option(name) for name in KUBERNETES.options}
        connection = checked_options(KUBERNETES, given)
        reading = [self.get_option(name) for name in self.READING_OPTIONS]
        asked = json.dumps([connection, reading], sort_keys=True, default=str)
        key = f"{self.get_cache_key(path)}_{hashlib.sha256(asked.encode()).hexdigest()[:16]}"
        if cache and self.get_option("cache") and key in self._cache:
            return self._cache[key]
        taken = self.read(connection)
        if self.get_option("cache"):
            self._cache[key] = taken
        return taken
