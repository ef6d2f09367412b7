# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The ValidatingAdmissionPolicy that limits the namespace to Kepler's needs of a host.

The namespace enforces the Pod Security Standard privileged, because hostPID and hostPath need it.
The policy forbids everything else that this standard allows.
"""

from __future__ import annotations

import typing as t

from ...base.manifests import Manifest
from . import names
from .system import System

# The last one is for the discovery pods.
HOST_PATHS = ("/proc", "/sys", "/proc/cpuinfo")
# Log collectors mount it, if the label of the namespace declares them for add-on logging.
LOG_FOLDER = "/var/log/pods"
LOG_COLLECTORS_LABEL = "wattwise.github.io/kepler-log-collectors"
# eBPF programs of Kepler 0.9 and earlier are compiled against the kernel of the host.
OLD_HOST_PATHS = (*HOST_PATHS, "/lib/modules", "/usr/src")
CAPABILITIES = ("SYS_PTRACE",)
_VOLUMES = ("configMap", "downwardAPI", "emptyDir", "hostPath", "name", "projected", "secret")
_API_VERSION = "admissionregistration.k8s.io/v1"

_CONTAINERS = (
    "object.spec.containers + object.spec.?initContainers.orValue([])"
    " + object.spec.?ephemeralContainers.orValue([])"
)
_HAS_LOG_COLLECTORS = (
    f"namespaceObject.metadata.?labels[?'{LOG_COLLECTORS_LABEL}'].orValue('') == 'true'"
)
_HOST_VOLUMES = "object.spec.?volumes.orValue([]).filter(v, has(v.hostPath)).map(v, v.name)"


def manifests(system: System) -> list[Manifest]:
    """The policy and its binding."""
    name = names.cluster_name(system.namespace, system.name)
    namespace = {"kubernetes.io/metadata.name": system.namespace}
    policy = {
        "failurePolicy": "Fail",
        "matchConstraints": {
            "namespaceSelector": {"matchLabels": namespace},
            "resourceRules": [
                {
                    "apiGroups": [""],
                    "apiVersions": ["v1"],
                    "operations": ["CREATE", "UPDATE"],
                    "resources": ["pods", "pods/ephemeralcontainers"],
                }
            ],
        },
        "variables": [
            {"name": "containers", "expression": _CONTAINERS},
            {"name": "hostVolumes", "expression": _HOST_VOLUMES},
            {"name": "hasLogCollectors", "expression": _HAS_LOG_COLLECTORS},
        ],
        "validations": [
            {"expression": rule, "message": message, "reason": "Forbidden"}
            for rule, message in _rules(system)
        ],
    }
    binding = {"policyName": name, "validationActions": ["Deny"]}
    return [
        names.cluster_manifest(system, _API_VERSION, "ValidatingAdmissionPolicy", spec=policy),
        names.cluster_manifest(
            system, _API_VERSION, "ValidatingAdmissionPolicyBinding", spec=binding
        ),
    ]


def _rules(system: System) -> t.Iterator[tuple[str, str]]:
    is_old = system.version.uses_ebpf
    paths = OLD_HOST_PATHS if is_old else HOST_PATHS
    yield (
        "!object.spec.?hostNetwork.orValue(false) && !object.spec.?hostIPC.orValue(false)",
        "a pod of Kepler shares no network and no IPC with its host",
    )
    yield (
        f"object.spec.?volumes.orValue([]).all(v, v.all(k, k in {_listed(_VOLUMES)}))",
        "a pod of Kepler mounts no volume of another type",
    )
    yield (
        "object.spec.?volumes.orValue([]).all(v, !has(v.hostPath)"
        f" || v.hostPath.path in {_listed(paths)}"
        f" || (variables.hasLogCollectors && v.hostPath.path == '{LOG_FOLDER}'))",
        f"a pod of Kepler mounts no folder of its host except {', '.join(paths)}, and {LOG_FOLDER} "
        "with add-on logging",
    )
    yield (
        "variables.containers.all(c, c.?volumeMounts.orValue([]).all(m,"
        " !(m.name in variables.hostVolumes) || (m.?readOnly.orValue(false)"
        " && m.?mountPropagation.orValue('None') != 'Bidirectional')))",
        "a pod of Kepler mounts folders of its host only for reading",
    )
    yield (
        "variables.containers.all(c, c.?ports.orValue([]).all(p, p.?hostPort.orValue(0) == 0))",
        "a pod of Kepler takes no port of its host",
    )
    if not is_old:
        yield from _privilege_rules()


def _privilege_rules() -> t.Iterator[tuple[str, str]]:
    yield (
        "!object.spec.?securityContext.?windowsOptions.?hostProcess.orValue(false)"
        " && variables.containers.all(c,"
        " !c.?securityContext.?windowsOptions.?hostProcess.orValue(false))",
        "a container of Kepler is not a process of a Windows host",
    )
    yield (
        "variables.containers.all(c, !c.?securityContext.?privileged.orValue(false)"
        " && !c.?securityContext.?allowPrivilegeEscalation.orValue(true))",
        "a container of Kepler is not privileged and gains no privileges",
    )
    yield (
        "variables.containers.all(c, c.?securityContext.?capabilities.?drop.orValue([])"
        " == ['ALL'] && c.?securityContext.?capabilities.?add.orValue([]).all(a, a in"
        f" {_listed(CAPABILITIES)}))",
        f"a container of Kepler has no capability except {', '.join(CAPABILITIES)}",
    )


def _listed(words: t.Sequence[str]) -> str:
    return "[" + ", ".join(f"'{word}'" for word in words) + "]"
