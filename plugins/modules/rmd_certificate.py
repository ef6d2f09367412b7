#!/usr/bin/python
# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation and entry of the module rmd_certificate."""

from __future__ import annotations

DOCUMENTATION = r"""
module: rmd_certificate
short_description: Issue and renew the certificates of RMD daemons and their client
version_added: 0.1.0
author:
  - Contributors to the wattwise.kube project (@wattwise)
description:
  - Keeps three Secrets of type C(kubernetes.io/tls), for an authority, for the daemons and for
    their client. Each has the keys C(tls.crt), C(tls.key) and C(ca.crt).
  - A missing certificate is issued. A certificate that expires soon, lacks a name, has too short a
    key or was issued by another authority is renewed. Others stay unchanged.
  - With O(issue=false) the module reads Secrets that cert-manager or an administrator keeps, and
    writes the client's files.
options:
  namespace:
    description: Namespace of the Secrets of daemons and client.
    type: str
    default: rmd-system
  authority_namespace:
    description:
      - Namespace of the authority's Secret, which must differ from O(namespace). Readers of Secrets
        there can issue certificates that daemons and clients trust, so use it for nothing else.
    type: str
    default: rmd-authority
  authority_secret:
    description: Name of the Secret of the authority.
    type: str
    default: rmd-authority
  server_secret:
    description: Name of the Secret of the daemons.
    type: str
    default: rmd-server
  client_secret:
    description: Name of the Secret of the client.
    type: str
    default: rmd-client
  server_names:
    description: Host names in the daemons' certificate. Requests use the first one.
    type: list
    elements: str
    default:
      - rmd-nameserver
  client_name:
    description: Common name of the client.
    type: str
    default: wattwise
  client_unit:
    description: Organizational unit of the client; RMD takes it as the role.
    type: str
    default: Admin
  key_bits:
    description: Length of new RSA keys, in bits. RMD's clients accept V(2048) or more.
    type: int
    default: 3072
  valid_days:
    description: Validity of a certificate, in days. The authority is valid ten times as long.
    type: int
    default: 365
  renew_days:
    description: Days before its expiry at which a certificate is renewed.
    type: int
    default: 30
  issue:
    description:
      - Whether to issue certificates. If V(false), the Secrets of daemons and client are only read.
        A missing Secret is left out of the result; an unusable one fails the task.
    type: bool
    default: true
  folder:
    description:
      - Folder for the client's files C(cert.pem), C(key.pem) and C(ca.pem), on the host where the
        module runs. Only their owner may read them.
    type: path
extends_documentation_fragment:
  - wattwise.kube.kubernetes
  - wattwise.kube.attributes
  - wattwise.kube.attributes.changing_module
requirements:
  - cryptography >= 42
"""

EXAMPLES = r"""
- name: Issue the certificates of RMD
  wattwise.kube.rmd_certificate:

- name: Issue them, and write the client's files
  wattwise.kube.rmd_certificate:
    namespace: rmd
    folder: /etc/wattwise/rmd
  register: kept

- name: Write the client's files from Secrets of cert-manager
  wattwise.kube.rmd_certificate:
    issue: false
    folder: /etc/wattwise/rmd

- name: Renew certificates half a year before they expire
  wattwise.kube.rmd_certificate:
    renew_days: 180
"""

RETURN = r"""
certificates:
  description:
    - Certificates of authority, daemons and client. With O(issue=false) the existing ones of
      daemons and client.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: V(authority), V(server) or V(client).
      type: str
      sample: server
    secret:
      description: Name of its Secret.
      type: str
      sample: rmd-server
    sha256:
      description: SHA-256 of the certificate. In check mode a new certificate is not kept.
      type: str
      sample: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
    not_after:
      description: Expiry of the certificate.
      type: str
      sample: "2027-11-21T12:00:00Z"
    action:
      description: V(made) or V(unchanged).
      type: str
      sample: made
    why:
      description: Reason for issuing it; empty if unchanged.
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
