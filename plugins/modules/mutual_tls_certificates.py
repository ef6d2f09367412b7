#!/usr/bin/python
# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation and entry of the module mutual_tls_certificates."""

from __future__ import annotations

DOCUMENTATION = r"""
module: mutual_tls_certificates
short_description: Issue and renew the certificates of a server and its client
version_added: 0.1.0
author: Contributors to the wattwise.kube project (@wattwise)
description:
  - Keeps three Secrets of type C(kubernetes.io/tls), for an authority, for a server and for its
    client. Each has the keys C(tls.crt), C(tls.key) and C(ca.crt). RMD daemons and Kepler are such
    servers.
  - A missing certificate is issued. A certificate that expires soon, lacks a name, has too short a
    key or was issued by another authority is renewed. Others stay unchanged.
  - With O(issue=false) the module reads Secrets that cert-manager or an administrator keeps, and
    writes the client's files.
options:
  namespace:
    description: Namespace of the Secrets of server and client.
    type: str
    required: true
  authority_namespace:
    description:
      - Namespace of the authority's Secret, which must differ from O(namespace). Readers of Secrets
        there can issue certificates that server and client trust, so use it for nothing else.
      - Required with O(issue=true).
    type: str
  authority_secret:
    description:
      - Name of the Secret of the authority.
      - Required with O(issue=true).
    type: str
  authority_name:
    description: Common name of the authority.
    type: str
    default: wattwise authority
  server_secret:
    description: Name of the Secret of the server.
    type: str
    required: true
  client_secret:
    description: Name of the Secret of the client.
    type: str
    required: true
  server_names:
    description: Host names in the server's certificate. The first one is its common name.
    type: list
    elements: str
    required: true
  client_name:
    description: Common name of the client.
    type: str
    default: wattwise
  client_unit:
    description: Organizational unit of the client; none if empty. RMD takes it as the role.
    type: str
    default: ''
  key_bits:
    description: Length of new RSA keys, in bits, at least V(2048).
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
    description: Whether to issue certificates. If V(false), the Secrets of server and client are
      only read. A missing Secret is left out of the result; an unusable one fails the task.
    type: bool
    default: true
  folder:
    description: Folder for the client's files C(cert.pem), C(key.pem) and C(ca.pem), on the host
      where the module runs. Only their owner may read them.
    type: path
extends_documentation_fragment:
  - wattwise.kube.kubernetes
  - wattwise.kube.attributes
  - wattwise.kube.attributes.changing_module
requirements:
  - cryptography >= 42
"""

EXAMPLES = r"""
- name: Issue the certificates of RMD, and write the client's files
  wattwise.kube.mutual_tls_certificates:
    namespace: rmd-system
    authority_namespace: rmd-authority
    authority_secret: rmd-authority
    server_secret: rmd-server
    client_secret: rmd-client
    server_names: [rmd-nameserver]
    client_unit: Admin
    folder: /etc/wattwise/rmd
  register: kept

- name: Write the client's files from Secrets of cert-manager
  wattwise.kube.mutual_tls_certificates:
    namespace: rmd-system
    server_secret: rmd-server
    client_secret: rmd-client
    server_names: [rmd-nameserver]
    issue: false
    folder: /etc/wattwise/rmd

- name: Issue those of Kepler, and renew them half a year before they expire
  wattwise.kube.mutual_tls_certificates:
    namespace: kepler
    authority_namespace: kepler-authority
    authority_secret: kepler-authority
    server_secret: kepler-server
    client_secret: kepler-client
    server_names: [kepler.kepler.svc]
    renew_days: 180
"""

RETURN = r"""
certificates:
  description: Certificates of authority, server and client. With O(issue=false) the existing ones
    of server and client.
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
  sample: [/etc/wattwise/rmd/cert.pem]
"""

from ..module_utils.kube.certificates import SPEC, keep_certificates
from ..module_utils.module_runner import run_module


def main() -> None:
    run_module(SPEC, keep_certificates)


if __name__ == "__main__":
    main()
