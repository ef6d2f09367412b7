# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The options of every module that asks RMD daemons; see argspec.RMD."""

from __future__ import annotations


class ModuleDocFragment:
    """Documentation only."""

    DOCUMENTATION = r"""
options:
  timeout:
    description:
      - Seconds that one daemon may take in all.
    type: float
    default: 10.0
  concurrency:
    description:
      - How many daemons are asked at the same time.
    type: int
    default: 64
  allow_plain_http:
    description:
      - Whether O(username) and O(password) may be sent to a daemon whose endpoint is V(http://…),
        over which anybody on the way can read them. Otherwise such a daemon is an error and gets
        no request. If V(true), the module warns with the number of daemons.
    type: bool
    default: false
  validate_certs:
    description:
      - Whether the daemons' certificates are verified.
    type: bool
    default: true
  ca_path:
    description:
      - Path of the certificates, in PEM, that daemons are verified with, in place of the system's.
    type: path
  tls_fingerprint:
    description:
      - SHA-256 fingerprints of certificates or public keys. For certificates that are pinned here,
        nothing else is verified; a daemon with another one gets no request.
    type: list
    elements: str
    default: []
  tls_server_name:
    description:
      - Name that the daemons' certificates must have, since they have one in common. Empty means
        the host in each endpoint.
    type: str
    default: rmd-nameserver
  client_cert:
    description:
      - Path of the client's certificate, in PEM. An RSA key must have 2048 bits or more.
      - An endpoint with V(https) is never asked without TLS, whatever is wrong with this.
    type: path
  client_key:
    description:
      - Path of its private key, in PEM and without a password; by default it is in O(client_cert).
    type: path
  username:
    description:
      - User name for daemons that ask for a password instead of a certificate.
    type: str
  password:
    description:
      - Password of O(username).
    type: str
  wire:
    description:
      - The version of RMD whose JSON the daemons speak. V(auto) finds it out for each.
    type: str
    default: auto
    choices:
      - auto
      - "0.2"
      - "0.3"
  on_error:
    description:
      - Whether daemons that fail are only reported, or fail the task as well. V(fail) is the same
        as a O(min_success) of V(1.0).
    type: str
    default: report
    choices:
      - report
      - fail
  min_success:
    description:
      - Share of the daemons, from V(0.0) to V(1.0), that must succeed; the task fails below it,
        with all results in the failure. What succeeded stays done.
    type: float
    default: 0.0
requirements:
  - aiohttp >= 3.10
"""
