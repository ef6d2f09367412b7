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
  - Brings any number of objects to their desired state by server-side apply, many at a time, and
    says for each what happened.
  - Objects are applied in an order that works. Namespaces come first, then
    CustomResourceDefinitions, which are waited for until they are established, then accounts and
    roles, then their bindings, then Secrets and ConfigMaps, then the rest.
  - One object that fails stops no other. The task then fails in the end, with the results of all.
  - Requests are repeated while the API server is away for a moment.
  - Can prune objects that an earlier run applied, and write status.
options:
  manifests:
    description:
      - Objects to apply, as a list of mappings or as YAML text with any number of documents.
      - An object of a namespaced kind that names no namespace is put in V(default).
    type: raw
  secret_manifests:
    description:
      - Further manifests whose C(data) and C(stringData) no output shows, for Secrets.
    type: list
    elements: dict
  src:
    description:
      - Paths of YAML or JSON files on the host where the module runs. Their content is added to
        that of the other options.
      - A file holds manifests as in O(manifests).
    type: list
    elements: path
  src_key:
    description:
      - Member of the JSON files in O(src) that holds the manifests; for documents such as the one
        that M(wattwise.kube.node_config_template) writes.
    type: str
  state:
    description:
      - Whether the objects are to exist or not.
    type: str
    default: present
    choices:
      - present
      - absent
  field_manager:
    description:
      - Name under which the API server records who owns which field.
    type: str
    default: wattwise
  force_conflicts:
    description:
      - Whether fields that another manager owns are taken over. If V(false), such an object fails
        with an error that names the other manager.
    type: bool
    default: false
  foreign:
    description:
      - What to do with an object that exists but was never applied by O(field_manager).
      - V(apply) applies to it as to any other.
      - V(refuse) leaves it as it is and reports who manages it.
      - V(adopt) takes all of its fields over. A CustomResourceDefinition is adopted only if every
        object stored under it follows the new schema.
    type: str
    default: apply
    choices:
      - apply
      - refuse
      - adopt
  recreate:
    description:
      - Whether an object is deleted and created anew where the API server refuses to change it
        because fields are immutable, as most of those of a Pod are. It is created when the old one
        has gone, for which O(wait_timeout) applies.
      - A manifest that is refused for any other reason deletes nothing.
    type: bool
    default: false
  status:
    description:
      - Whether the manifests carry a C(status) that is to be written to the status subresource.
      - A manifest that names the C(uid) of its object is for that object alone. Where that was
        deleted meanwhile, nothing is written, and that is no error.
      - Readings are observations. Only a condition that appears, goes or changes its status makes
        the task changed. A condition that stays keeps its C(lastTransitionTime).
    type: bool
    default: false
  prune:
    description:
      - Value of the label C(applyset.kubernetes.io/part-of). Objects that bear it, are owned by an
        object of the kinds in O(prune_owner_kinds) or by O(owner), and are not among the manifests
        any more, are deleted.
      - Nothing is pruned if any object failed (see O(on_error)) or a list could not be read whole.
    type: str
  prune_kinds:
    description:
      - Kinds in which objects to prune are looked for, by default those of the manifests. They are
        needed where no manifest of a kind may be left, and each needs the right to list it.
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
        description: Namespace to look in; all by default.
        type: str
  prune_owner_kinds:
    description:
      - Kinds of the owners whose objects may be pruned.
    type: list
    elements: str
  prune_max:
    description:
      - Largest share of the ApplySet's objects, from V(0.0) to V(1.0), that one run may prune; one
        object is always allowed. If more would go, none is pruned and the task fails.
    type: float
    default: 0.3
  owner:
    description:
      - Object that becomes the owner of all manifests, so that they go when it goes. One with a
        namespace owns those in that namespace only.
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
        namespaces, or paths of files with them. Only check mode reads them, so that it works on a
        cluster where that task has not run yet.
    type: list
    elements: raw
    default: []
  concurrency:
    description:
      - How many objects are worked on at the same time.
    type: int
    default: 16
  on_error:
    description:
      - Whether the task fails where an object fails. With V(report), an object that the API server
        refuses by itself, such as one that breaks its schema, is a warning and an entry in
        RV(results), and the others are pruned all the same. A server that does not answer, or does
        not allow it, fails the task always.
    type: str
    default: fail
    choices:
      - report
      - fail
  wait:
    description:
      - Whether to wait until the objects are ready. Known are Deployments, StatefulSets,
        DaemonSets, Jobs, Pods, Namespaces and CustomResourceDefinitions; anything else is ready
        once it exists.
    type: bool
    default: false
  wait_timeout:
    description:
      - Seconds to wait at the most, for readiness or for an object that is to be created anew.
    type: float
    default: 120.0
extends_documentation_fragment:
  - wattwise.kube.kubernetes
  - wattwise.kube.progress
  - wattwise.kube.attributes
  - wattwise.kube.attributes.changing_module
"""

EXAMPLES = r"""
- name: Apply a namespace and what is in it
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

- name: Apply everything in a file, and wait until it runs
  wattwise.kube.kube_apply:
    src:
      - /etc/wattwise/manifests.yaml
    wait: true

- name: Keep a set of objects equal to a list, and remove what is no longer on it
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
  description: What happened to each object, in the order of the input.
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
      description: Namespace; empty for objects of the whole cluster.
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
      description: Why the object failed.
      type: str
      returned: when the action is V(failed)
      sample: "ConfigMap wao-system/racks: another manager owns .data.r1"
pruned:
  description: The objects that were pruned, in the form of RV(results).
  returned: always
  type: list
  elements: dict
  sample: []
"""

from ansible_collections.wattwise.kube.plugins.module_utils.kube.apply import work
from ansible_collections.wattwise.kube.plugins.module_utils.module_runner import run_module


def main() -> None:
    run_module(work.SPEC, work.apply)


if __name__ == "__main__":
    main()
