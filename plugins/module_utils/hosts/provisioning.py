# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Reader of a Provisioning's spec: the roles, and the requirements of their hosts.

The design of the BPA operator has ``master`` and ``worker``, whose hosts are found by their
capabilities. Its code has ``masters`` and ``workers``, whose hosts are named by a MAC address. One
spec may have both, and each field of one is valid in the other.
"""

from __future__ import annotations

import dataclasses
import ipaddress
import re
import typing as t
from dataclasses import dataclass, field

from ..base.boundary import InvalidField, shown, shown_text
from ..base.errors import InvalidInput
from ..base.fields.strict import is_subdomain, mapping, mappings, text, texts, truth, whole_number
from ..base.json_types import Object
from ..base.label_selector import LabelSelector, parse_label_selector
from ..base.units import whole_units
from ..redfish.hardware.facts import mac_address
from .addresses import Network, inventory_name, service_subnet, subnet

API_VERSION = "bpa.akraino.org/v1alpha1"
KIND = "Provisioning"

Role = t.Literal["master", "worker"]
RackSpread = t.Literal["preferred", "required", "none"]
RACK_SPREADS: tuple[RackSpread, ...] = t.get_args(RackSpread)
KEEP_ROLES = ("where-equal", "always")

# kubespray's kube_pods_subnet, kube_service_addresses, and those of IPv6.
_DEFAULT_PODS = {
    4: ipaddress.ip_network("10.233.64.0/18"),
    6: ipaddress.ip_network("fd85:ee78:d8a6:8607::1:0/112"),
}
_DEFAULT_SERVICES = {
    4: ipaddress.ip_network("10.233.0.0/18"),
    6: ipaddress.ip_network("fd85:ee78:d8a6:8607::1000/116"),
}
_USER_NAME = re.compile(r"[a-z_][a-z0-9_-]{0,31}", re.ASCII)
_MAX_HOSTS = 100_000
# Only one agent is active. Writers of Provisionings should not fill a cluster with others.
_MAX_AGENTS = 100
_MAX_MODEL_LENGTH = 256
_MAX_EXPRESSIONS = 16
_FIELDS_OF_REQUIREMENTS = ("cpu", "memory", "sriov", "qat", "gpu", "cpuModel", "minDisk")
_FIELDS = (
    *("master", "worker", "masters", "workers", "replicas", "KUDPlugins", "PodSubnet"),
    *("ServiceSubnet", "rackSpread", "keepRoles", "hostSelector", "ssh"),
)


@dataclass(frozen=True)
class Requirements:
    """Minimum requirements of a host; memory and disk are in bytes."""

    cpu: int = 0
    memory: int = 0
    gpu: int = 0
    disk: int = 0
    sriov: bool = False
    qat: bool = False
    cpu_model: str = ""
    expressions: tuple[str, ...] = ()

    def with_all_of(self, other: Requirements) -> Requirements:
        """The stricter requirements of both."""
        if self.cpu_model and other.cpu_model not in ("", self.cpu_model):
            raise InvalidInput(
                f"a host cannot have the processors {shown(self.cpu_model)} and "
                f"{shown(other.cpu_model)} at once"
            )
        return Requirements(
            cpu=max(self.cpu, other.cpu),
            memory=max(self.memory, other.memory),
            gpu=max(self.gpu, other.gpu),
            disk=max(self.disk, other.disk),
            sriov=self.sriov or other.sriov,
            qat=self.qat or other.qat,
            cpu_model=self.cpu_model or other.cpu_model,
            expressions=tuple(dict.fromkeys((*self.expressions, *other.expressions))),
        )


@dataclass(frozen=True)
class Item:
    """One entry of a spec. ``count`` None stands for all remaining hosts that fit.

    Only labelled items may have a MAC address; their count is 1. `also_worker` is for masters.
    """

    role: Role
    where: str
    count: int | None
    requirements: Requirements = Requirements()
    label: str | None = None
    mac: str | None = None
    also_worker: bool = False


@dataclass(frozen=True)
class SshRequest:
    """Default access to hosts."""

    user: str = "root"
    port: int = 22
    secret_name: str = ""


@dataclass(frozen=True)
class ClusterNetwork:
    """The network of pods or services, from a field of the spec or kubespray's default."""

    field: str
    network: Network
    is_default: bool

    def __str__(self) -> str:
        """The network for messages."""
        return f"{self.origin or 'the '}{self.field} {self.network}"

    @property
    def origin(self) -> str:
        """The owner of a default, as a prefix of the network."""
        return "kubespray's default " if self.is_default else ""


@dataclass(frozen=True)
class Request:
    """The spec of a Provisioning, checked. ``warnings`` are sentences for the user."""

    items: tuple[Item, ...]
    replicas: int = 0
    plugins: tuple[str, ...] = ()
    pod_subnet: Network | None = None
    service_subnet: Network | None = None
    rack_spread: RackSpread = "preferred"
    keeps_roles: bool = False
    host_selector: LabelSelector = field(default_factory=lambda: LabelSelector(()))
    ssh: SshRequest = SshRequest()
    warnings: tuple[str, ...] = ()

    @property
    def subnets(self) -> dict[str, Network]:
        """The subnets that the spec names, by field."""
        given = {"PodSubnet": self.pod_subnet, "ServiceSubnet": self.service_subnet}
        return {name: network for name, network in given.items() if network is not None}

    def networks(self, version: int) -> tuple[ClusterNetwork, ClusterNetwork]:
        """The networks of pods and of services of a cluster that uses this IP version (4, 6)."""
        return (
            _network("PodSubnet", self.pod_subnet, _DEFAULT_PODS[version]),
            _network("ServiceSubnet", self.service_subnet, _DEFAULT_SERVICES[version]),
        )

    def network_with(self, ip: str) -> ClusterNetwork | None:
        """The network of pods or services that contains the address; None without one."""
        address = ipaddress.ip_address(ip)
        networks = self.networks(address.version)
        return next((each for each in networks if address in each.network), None)


def _network(field: str, given: Network | None, default: Network) -> ClusterNetwork:
    is_default = given is None or given.version != default.version
    return ClusterNetwork(field, default if given is None or is_default else given, is_default)


def read_request(spec: t.Any) -> Request:
    """The request in the spec of a Provisioning. Raises InvalidField."""
    given = mapping(spec, "spec")
    _refuse_unknown(given, _FIELDS, "spec")
    items = _items(given)
    pods = _subnet(given, "PodSubnet", subnet)
    services = _subnet(given, "ServiceSubnet", service_subnet)
    if pods and services and pods.version == services.version and pods.overlaps(services):
        raise InvalidField("spec.PodSubnet", f"{pods} overlaps with the ServiceSubnet {services}")
    return Request(
        items=items,
        replicas=_number(given, "replicas", "spec", _MAX_AGENTS) or 0,
        plugins=_plugins(given.get("KUDPlugins")),
        pod_subnet=pods,
        service_subnet=services,
        rack_spread=_choice(given, "rackSpread", RACK_SPREADS),
        keeps_roles=_choice(given, "keepRoles", KEEP_ROLES) == "always",
        host_selector=_selector(given.get("hostSelector")),
        ssh=_ssh(given.get("ssh")),
        warnings=tuple(_warnings(items)),
    )


def _refuse_unknown(given: Object, known: t.Sequence[str], where: str) -> None:
    for name in given:
        if name in known:
            continue
        alike = [each for each in known if each.lower() == str(name).lower()]
        hint = f"; probably {alike[0]} is meant" if alike else ""
        raise InvalidField(f"{where}.{_key(name)}", f"there is no such field{hint}")


def _key(name: t.Any) -> str:
    return shown_text(str(name), 80)


def _items(given: Object) -> tuple[Item, ...]:
    masters = [*_labelled(given.get("masters"), "master"), *_groups(given, "master")]
    workers = [*_labelled(given.get("workers"), "worker"), *_groups(given, "worker")]
    if not any(item.count for item in masters):
        raise InvalidField("spec", "a cluster needs a master; write master or masters")
    for items in (masters, workers):
        _refuse_equal(items)
    merged, others = _with_dual_roles(masters, workers)
    _refuse_equal(merged)
    _refuse_macs_of_others(merged, others)
    for item in (*merged, *others):
        if item.label and item.mac is None and item.requirements == Requirements():
            kind = "masterNode" if item.role == "master" else "worker"
            raise InvalidField(
                item.where,
                f"MAC address for {kind} {item.label} not provided; write mac-address, or "
                "requirements such as cpu",
            )
    if not any(item.count != 0 for item in workers):
        merged = [dataclasses.replace(item, also_worker=True) for item in merged]
    return tuple(item for item in (*merged, *others) if item.count != 0)


def _labelled(value: t.Any, role: Role) -> t.Iterator[Item]:
    """The items of ``masters`` or ``workers``: a list of mappings by label."""
    path = f"spec.{role}s"
    for index, entry in enumerate(mappings(value, path)):
        for label, given in entry.items():
            where = f"{path}[{index}].{_key(label)}"
            fields = mapping(given, where)
            known = ("mac-address", *_FIELDS_OF_REQUIREMENTS, "expressions")
            _refuse_unknown(fields, known, where)
            mac = fields.get("mac-address")
            yield Item(
                role,
                where,
                1,
                _requirements(fields, where),
                inventory_name(label, where),
                mac_address(mac, f"{where}.mac-address") if mac not in (None, "") else None,
            )


def _groups(spec: Object, role: Role) -> t.Iterator[Item]:
    """The items of ``master`` or ``worker``: a mapping, or a list of mappings."""
    value, path = spec.get(role), f"spec.{role}"
    listed = isinstance(value, (list, tuple))
    if role in spec and value is None:
        value = {}
    if value is None:
        return
    entries = mappings(value, path) if listed else [mapping(value, path)]
    for index, fields in enumerate(entries):
        where = f"{path}[{index}]" if listed else path
        _refuse_unknown(fields, ("count", *_FIELDS_OF_REQUIREMENTS, "expressions"), where)
        count = _number(fields, "count", where)
        if count is None and role == "master":
            count = 1
        yield Item(role, where, count, _requirements(fields, where))


def _refuse_equal(items: t.Sequence[Item]) -> None:
    """Raise InvalidField for a label or MAC address of two items of a role."""
    for member, words in (("label", "label"), ("mac", "MAC address")):
        known: dict[str, Item] = {}
        for item in items:
            value = getattr(item, member)
            if value and known.setdefault(value, item) is not item:
                first = known[value].where
                raise InvalidField(item.where, f"the {words} {value} is also that of {first}")


def _with_dual_roles(
    masters: t.Sequence[Item], workers: t.Sequence[Item]
) -> tuple[list[Item], list[Item]]:
    """Masters, some of which are also workers, and the other workers."""
    merged = list(masters)
    position = {item.label: index for index, item in enumerate(masters) if item.label}
    others = []
    for worker in workers:
        if worker.label not in position:
            others.append(worker)
            continue
        index = position[worker.label]
        master = merged[index]
        if worker.mac and master.mac and worker.mac != master.mac:
            raise InvalidField(
                worker.where,
                f"A node with label {worker.label} already exists, modify resource and assign a "
                f"different label to node with MACAddress {worker.mac}",
            )
        merged[index] = dataclasses.replace(
            master,
            mac=master.mac or worker.mac,
            requirements=_both(master, worker),
            also_worker=True,
        )
    return merged, others


def _both(master: Item, worker: Item) -> Requirements:
    try:
        return master.requirements.with_all_of(worker.requirements)
    except InvalidInput as error:
        raise InvalidField(worker.where, str(error)) from error


def _refuse_macs_of_others(masters: t.Sequence[Item], workers: t.Sequence[Item]) -> None:
    known = {item.mac: item for item in masters if item.mac}
    for worker in workers:
        master = known.get(worker.mac) if worker.mac else None
        if master is not None:
            raise InvalidField(
                worker.where,
                f"the MAC address {worker.mac} is also that of {master.where}; a host that is "
                f"master and worker has one label, {master.label}",
            )


def _requirements(fields: Object, where: str) -> Requirements:
    expressions = texts(fields.get("expressions"), f"{where}.expressions")
    if len(expressions) > _MAX_EXPRESSIONS:
        raise InvalidField(f"{where}.expressions", f"at most {_MAX_EXPRESSIONS} are allowed")
    model = text(fields.get("cpuModel"), f"{where}.cpuModel").strip()
    if len(model) > _MAX_MODEL_LENGTH:
        raise InvalidField(
            f"{where}.cpuModel", f"at most {_MAX_MODEL_LENGTH} characters are allowed"
        )
    return Requirements(
        cpu=_number(fields, "cpu", where) or 0,
        memory=_bytes(fields, "memory", where),
        gpu=_number(fields, "gpu", where) or 0,
        disk=_bytes(fields, "minDisk", where),
        sriov=_truth(fields, "sriov", where),
        qat=_truth(fields, "qat", where),
        cpu_model=model,
        expressions=tuple(dict.fromkeys(expressions)),
    )


def _number(fields: Object, name: str, where: str, most: int = _MAX_HOSTS) -> int | None:
    value = fields.get(name)
    return None if value is None else whole_number(value, f"{where}.{name}", 0, most)


def _bytes(fields: Object, name: str, where: str) -> int:
    value = fields.get(name)
    if value is None:
        return 0
    amount = whole_units(value, f"{where}.{name}")
    if amount < 0:
        raise InvalidField(f"{where}.{name}", f"{shown(value)} is negative")
    return amount


def _truth(fields: Object, name: str, where: str) -> bool:
    value = fields.get(name)
    return value is not None and truth(value, f"{where}.{name}")


def _choice(given: Object, name: str, choices: t.Sequence[t.Any]) -> t.Any:
    value = given.get(name)
    if value is None:
        return choices[0]
    if value not in choices:
        raise InvalidField(f"spec.{name}", f"{shown(value)} is none of {', '.join(choices)}")
    return value


def _subnet(given: Object, name: str, read: t.Callable[[t.Any, str], Network]) -> Network | None:
    value = given.get(name)
    return None if value in (None, "") else read(value, f"spec.{name}")


def _plugins(value: t.Any) -> tuple[str, ...]:
    plugins = texts(value, "spec.KUDPlugins")
    for index, plugin in enumerate(plugins):
        # They become arguments of the installer: a plugin "--cluster" would be an option.
        if not is_subdomain(plugin):
            raise InvalidField(
                f"spec.KUDPlugins[{index}]", f"{shown(plugin)} is not the name of a plugin"
            )
    return tuple(dict.fromkeys(plugins))


def _selector(value: t.Any) -> LabelSelector:
    if value is None:
        return LabelSelector(())
    try:
        return parse_label_selector(value)
    except InvalidInput as error:
        raise InvalidField("spec.hostSelector", str(error)) from error


def _ssh(value: t.Any) -> SshRequest:
    fields = mapping(value, "spec.ssh")
    _refuse_unknown(fields, ("user", "port", "secretName"), "spec.ssh")
    secret = text(fields.get("secretName"), "spec.ssh.secretName")
    if secret and not is_subdomain(secret):
        raise InvalidField("spec.ssh.secretName", f"{shown(secret)} is not the name of a Secret")
    return SshRequest(
        user_name(fields.get("user"), "spec.ssh.user") or SshRequest.user,
        port_number(fields.get("port"), "spec.ssh.port") or SshRequest.port,
        secret,
    )


def user_name(value: t.Any, path: str) -> str:
    """The name of a user on a host; empty for None."""
    name = text(value, path)
    if name and not _USER_NAME.fullmatch(name):
        raise InvalidField(path, f"{shown(name)} is not the name of a user")
    return name


def port_number(value: t.Any, path: str) -> int:
    """A TCP port; 0 for None."""
    return 0 if value is None else whole_number(value, path, 1, 65535)


def _warnings(items: t.Sequence[Item]) -> t.Iterator[str]:
    masters = sum(item.count or 0 for item in items if item.role == "master")
    if masters % 2 == 0:
        yield (
            f"{masters} masters tolerate no more failures than {masters - 1}; etcd needs an odd "
            "number, so one of them runs no etcd in an inventory with current names"
        )
