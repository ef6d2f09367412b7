# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The options of every module that asks RMD daemons; see argspec.RMD."""

from __future__ import annotations

from .steps import below

_OPTIONS = r"""
  # begin generated: daemons
  timeout:
    description: Seconds that all requests to one daemon may take together.
    type: float
    default: 10.0
  concurrency:
    description: Number of daemons to ask at the same time.
    type: int
    default: 64
  allow_plain_http:
    description: Whether O(username) and O(password) may be sent to a daemon whose endpoint is
      V(http://…). Anybody on the network path can then read them. If V(false), such a daemon is an
      error and gets no request. If V(true), a warning tells the number of such daemons.
    type: bool
    default: false
  validate_certs:
    description: Whether the daemons' certificates are verified.
    type: bool
    default: true
  ca_path:
    description: Path of the PEM certificates that verify the daemons. The system's certificates by
      default.
    type: path
  tls_fingerprint:
    description: SHA-256 fingerprints of certificates or public keys. A daemon with any other
      certificate gets no request. A pinned certificate needs no authority and no matching name.
    type: list
    elements: str
    default: []
  tls_server_name:
    description: Host name that the certificate of every daemon must contain. If empty, the host of
      each endpoint.
    type: str
    default: rmd-nameserver
  client_cert:
    description:
      - Path of the client certificate, in PEM. An RSA key needs at least 2048 bits.
      - A certificate that cannot be used is an error; requests to V(https) endpoints never fall
        back to plain HTTP.
    type: path
  client_key:
    description: Path of the private key of the client certificate, in PEM without a password. By
      default the key is in the file O(client_cert).
    type: path
  username:
    description: User name for daemons that ask for a password instead of a certificate.
    type: str
  password:
    description: Password of O(username).
    type: str
  wire:
    description: RMD version whose JSON format the daemons use. V(auto) detects the version of each
      daemon.
    type: str
    default: auto
    choices: [auto, '0.2', '0.3']
  on_error:
    description: Effect of a failed daemon. V(report) lists it in the result, V(fail) also fails the
      task, which equals O(min_success) set to V(1.0).
    type: str
    default: report
    choices: [report, fail]
  min_success:
    description: Share of the daemons, from V(0.0) to V(1.0), that must succeed. Below it the task
      fails; the failure holds all results. Changes on the other daemons stay.
    type: float
    default: 0.0
  # end generated
"""


class ModuleDocFragment:
    """Documentation only."""

    # With a type, because ansible-test reads plain assignments as literals.
    DOCUMENTATION: str = f"options:{_OPTIONS}requirements:\n  - aiohttp >= 3.10\n"
    # Below an option, because options of the Kubernetes API have the same names.
    DAEMONS: str = r"""
options:
  daemons:
    description: Options of the requests to daemons. They are grouped because those of the
      Kubernetes API have the same names.
    type: dict
    default: {}
    suboptions:
""" + below("daemons", _OPTIONS)
