#!/usr/bin/python
# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation and entry of the module kube_apply."""

from __future__ import annotations

DOCUMENTATION = r"""
module: kube_apply
short_description: Apply many Kubernetes objects in one task
version_added: 0.1.0
author:
  - Contributors to the wattwise.kube project (@wattwise)
description:
  - Brings any number of objects to their desired state by server-side apply, concurrently, and
    returns the result of each.
  - Namespaces are applied first, then CustomResourceDefinitions until they are established, then
    accounts and roles, then role bindings, then Secrets and ConfigMaps, then all other objects.
  - An object that fails stops no other. The task then fails at its end with the results of all
    objects.
  - Requests are repeated during a short outage of the API server.
  - Optionally prunes objects of earlier runs and writes the status subresource.
options:
  manifests:
    description:
      - Objects to apply, as a list of mappings or as a YAML text with any number of documents.
        Values of a text are those that kubectl reads.
      - Namespaced objects without a namespace are applied in V(default).
    type: raw
  secret_manifests:
    description:
      - Further manifests, for Secrets. No output shows their C(data) and C(stringData).
    type: list
    elements: dict
  src:
    description:
      - Paths of YAML or JSON files on the host where the module runs. Their content is added to the
        other options.
      - Each file holds manifests as in O(manifests).
    type: list
    elements: path
  src_key:
    description:
      - Member of the JSON files in O(src) that holds the manifests, for documents such as that of
        M(wattwise.kube.node_config_template).
    type: str
  state:
    description:
      - V(present) creates or changes the objects, V(absent) deletes them.
    type: str
    default: present
    choices:
      - present
      - absent
  field_manager:
    description:
      - Name of the field manager under which the API server records ownership of fields.
    type: str
    default: wattwise
  force_conflicts:
    description:
      - Whether to take over fields that another manager owns. If V(false), such an object fails and
        the error names the other manager.
    type: bool
    default: false
  foreign:
    description:
      - Treatment of existing objects that O(field_manager) never applied.
      - V(apply) treats them like any other object.
      - V(refuse) leaves them unchanged and reports their manager as an error.
      - V(adopt) takes over all of their fields. A CustomResourceDefinition is adopted only if every
        stored object follows the new schema.
    type: str
    default: apply
    choices:
      - apply
      - refuse
      - adopt
  recreate:
    description:
      - Whether to delete and create an object anew if the API server refuses a change of immutable
        fields, as for most fields of a Pod. O(wait_timeout) limits the wait for the deletion.
      - A manifest that is refused for another reason deletes nothing.
    type: bool
    default: false
  status:
    description:
      - Whether to write the C(status) of the manifests to the status subresource.
      - A manifest with a C(uid) is for exactly this object. If the object was deleted meanwhile,
        nothing is written and nothing fails.
      - Only a condition that appears, disappears or changes its status makes the task changed;
        readings are observations. An unchanged condition keeps its C(lastTransitionTime).
    type: bool
    default: false
  prune:
    description:
      - Value of the label C(applyset.kubernetes.io/part-of). Objects with this label are deleted if
        they are not among the manifests and have an owner of O(prune_owner_kinds) or O(owner).
      - Nothing is pruned if an object failed (see O(on_error)) or a list could not be read
        completely.
    type: str
  prune_kinds:
    description:
      - Kinds of the objects to prune, by default those of the manifests. Name kinds of which no
        manifest may be left. The account needs the permission to list each.
    type: list
    elements: dict
    suboptions:
      api_version:
        description: API group and version, such as V(apps/v1).
        type: str
        required: true
      kind:
        description: Kind, such as V(Deployment).
        type: str
        required: true
      namespace:
        description: Namespace of the objects; all namespaces by default.
        type: str
  prune_owner_kinds:
    description:
      - Kinds of owners whose objects may be pruned.
    type: list
    elements: str
  prune_max:
    description:
      - Largest share of the ApplySet's objects, from V(0.0) to V(1.0), that one run may prune; one
        object is always allowed. Above it nothing is pruned and the task fails. Raise it for one
        intended large removal.
    type: float
    default: 0.3
  owner:
    description:
      - Owner of all manifests; the garbage collector deletes them with it. A namespaced owner owns
        only objects in its namespace.
    type: dict
    suboptions:
      api_version:
        description: API group and version of the owner.
        type: str
        required: true
      kind:
        description: Kind of the owner.
        type: str
        required: true
      namespace:
        description: Namespace of the owner.
        type: str
      name:
        description: Name of the owner.
        type: str
        required: true
  assume:
    description:
      - Manifests that an earlier task of the play applies, such as CustomResourceDefinitions and
        namespaces, or paths of files with them. Only check mode reads them, because that task has
        then not changed the cluster.
    type: list
    elements: raw
    default: []
  concurrency:
    description:
      - Number of objects to apply at the same time.
    type: int
    default: 16
  on_error:
    description:
      - Effect of a failed object. V(fail) fails the task. V(report) makes an object that the API
        server refuses, for example by its schema, a warning and an entry in RV(results), and
        pruning continues. A missing permission or an unreachable server always fails the task.
    type: str
    default: fail
    choices:
      - report
      - fail
  wait:
    description:
      - Whether to wait until the objects are ready. Readiness is defined for Deployments,
        StatefulSets, DaemonSets, Jobs, Pods, Namespaces and CustomResourceDefinitions. Other kinds
        are ready as soon as they exist.
    type: bool
    default: false
  wait_timeout:
    description:
      - Seconds to wait at most, for readiness (O(wait)) or for a deletion (O(recreate)).
      - A Namespace or CustomResourceDefinition that is being deleted is waited for as long before
        it is made again.
    type: float
    default: 120.0
extends_documentation_fragment:
  - wattwise.kube.kubernetes
  - wattwise.kube.progress
  - wattwise.kube.attributes
  - wattwise.kube.attributes.changing_module
"""

EXAMPLES = r"""
- name: Apply a namespace and its objects
  wattwise.kube.kube_apply:
    kubeconfig: ~/.kube/config
    manifests:
      - apiVersion: v1
        kind: Namespace
        metadata:
          name: wao-system
      - apiVersion: v1
        kind: ConfigMap
        metadata:
          name: racks
          namespace: wao-system
        data:
          r1: hall-2

- name: Apply all objects of a file, and wait until they are ready

  wattwise.kube.kube_apply:
    src:
      - /etc/wattwise/manifests.yaml
    wait: true

- name: Apply a list of objects, and remove those that are no longer in it

  wattwise.kube.kube_apply:
    manifests: "{{ lookup('ansible.builtin.template', 'node_configs.yaml.j2') }}"
    prune: wattwise-node-configs
    prune_owner_kinds:
      - NodeConfigTemplate

- name: Set the cluster once for all modules of the collection
  module_defaults:
    group/wattwise.kube.wattwise:
      kubeconfig: ~/.kube/config
      context: hall-2
  block:
    - name: Write the status of a NodeConfig
      wattwise.kube.kube_apply:
        status: true
        manifests:
          - apiVersion: wao.bitmedia.co.jp/v1beta1
            kind: NodeConfig
            metadata:
              name: worker-0
              namespace: wao-system
            status:
              conditions:
                - type: Ready
                  status: "True"
                  reason: Read
                  message: All endpoints answer.
"""

RETURN = r"""
results:
  description: Result of each object, in the order of the input.
  returned: always
  type: list
  elements: dict
  contains:
    api_version:
      description: API group and version.
      type: str
      sample: v1
    kind:
      description: Kind.
      type: str
      sample: ConfigMap
    namespace:
      description: Namespace; empty for cluster-scoped objects.
      type: str
      sample: wao-system
    name:
      description: Name.
      type: str
      sample: racks
    action:
      description:
        - One of V(created), V(configured), V(unchanged), V(deleted) and V(failed).
      type: str
      sample: created
    error:
      description: Error of the object.
      type: str
      returned: when the action is V(failed)
      sample: "ConfigMap wao-system/racks: another manager owns .data.r1"
pruned:
  description: Pruned objects, in the form of RV(results).
  returned: always
  type: list
  elements: dict
  sample: []
"""

from ..module_utils.kube.apply import work
from ..module_utils.module_runner import run_module


def main() -> None:
    run_module(work.SPEC, work.apply)


if __name__ == "__main__":
    main()
