#!/usr/bin/python
# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation and entry of the module rmd_certificate."""

from __future__ import annotations

DOCUMENTATION = r"""
module: rmd_certificate
short_description: Keep the certificates between RMD daemons and those who ask them
version_added: 0.1.0
author:
  - Contributors to the wattwise.kube project (@wattwise)
description:
  - Keeps three Secrets of type C(kubernetes.io/tls), for an authority, for the daemons and for the
    client that asks them. Each has the keys C(tls.crt), C(tls.key) and C(ca.crt).
  - What is missing is made. What ends soon, lacks a name, has too short a key or was issued by
    another authority is made anew; the rest stays as it is.
  - Of Secrets that cert-manager or people keep, O(issue=false) tells what is in them and writes the
    client's files.
options:
  namespace:
    description: Namespace of the daemons' and the client's Secret.
    type: str
    default: rmd-system
  authority_namespace:
    description:
      - Namespace of the authority's Secret, which must be another. Whoever may read Secrets there
        can make certificates that daemons and clients trust, so nothing else should stand in it.
    type: str
    default: rmd-authority
  authority_secret:
    description: Name of the authority's Secret.
    type: str
    default: rmd-authority
  server_secret:
    description: Name of the daemons' Secret.
    type: str
    default: rmd-server
  client_secret:
    description: Name of the client's Secret.
    type: str
    default: rmd-client
  server_names:
    description: Host names in the daemons' certificate. The first is that by which they are asked.
    type: list
    elements: str
    default:
      - rmd-nameserver
  client_name:
    description: Common name of the client.
    type: str
    default: wattwise
  client_unit:
    description: Organizational unit of the client, which is its role where RMD goes by roles.
    type: str
    default: Admin
  key_bits:
    description: Length of RSA keys that are made; RMD's clients take none below V(2048).
    type: int
    default: 3072
  valid_days:
    description: Days that a certificate lasts. The authority lasts ten times as long.
    type: int
    default: 365
  renew_days:
    description: Days before its end at which a certificate is renewed.
    type: int
    default: 30
  issue:
    description:
      - Whether certificates are made. If V(false), the daemons' and the client's Secret are only
        read. One that is not there is left out of what is returned; one that cannot be used fails.
    type: bool
    default: true
  folder:
    description:
      - Folder on the host where the task runs for the client's files C(cert.pem), C(key.pem) and
        C(ca.pem), which nobody else may read.
    type: path
extends_documentation_fragment:
  - wattwise.kube.kubernetes
  - wattwise.kube.attributes
  - wattwise.kube.attributes.changing_module
requirements:
  - cryptography >= 42
"""

EXAMPLES = r"""
- name: Keep the certificates of RMD
  wattwise.kube.rmd_certificate:

- name: Keep them, and the client's files here
  wattwise.kube.rmd_certificate:
    namespace: rmd
    folder: /etc/wattwise/rmd
  register: kept

- name: Write the client's files of what cert-manager keeps
  wattwise.kube.rmd_certificate:
    issue: false
    folder: /etc/wattwise/rmd

- name: Renew certificates half a year before they end
  wattwise.kube.rmd_certificate:
    renew_days: 180
"""

RETURN = r"""
certificates:
  description:
    - The authority's, the daemons' and the client's certificate; with O(issue=false) those of the
      latter two that are there.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: V(authority), V(server) or V(client).
      type: str
      sample: server
    secret:
      description: Its Secret.
      type: str
      sample: rmd-server
    sha256:
      description: SHA-256 of the certificate. In check mode that of one that is not kept.
      type: str
      sample: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
    not_after:
      description: When it ends.
      type: str
      sample: "2027-11-21T12:00:00Z"
    action:
      description: V(made) or V(unchanged).
      type: str
      sample: made
    why:
      description: Why it was made; empty where it was not.
      type: str
      sample: it ends soon
files:
  description: Paths of the client's files that were written.
  returned: success
  type: list
  elements: str
  sample:
    - /etc/wattwise/rmd/cert.pem
"""

from ansible_collections.wattwise.kube.plugins.module_utils.module_runner import run_module
from ansible_collections.wattwise.kube.plugins.module_utils.rmd.certificates import (
    SPEC,
    keep_certificates,
)


def main() -> None:
    run_module(SPEC, keep_certificates)


if __name__ == "__main__":
    main()
