# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The options of every module that asks many machines over HTTP; see argspec.FLEET."""

from __future__ import annotations


class ModuleDocFragment:
    """Documentation only."""

    DOCUMENTATION = r"""
options:
  # begin generated: fleet
  snapshot:
    description: Path of a snapshot document that M(wattwise.kube.fleet_snapshot_info) wrote. Its
      NodeConfigs name the targets and their Secrets. The module reads these Secrets from the
      cluster itself.
    type: path
  credentials:
    description:
      - User names and passwords by key. The C(credential) of a target names its key.
      - Each entry has C(username) and C(password). Optional members are C(ca), the PEM certificates
        that verify the target, and C(tls_fingerprint), one SHA-256 fingerprint or a list of them.
    type: dict
  node_selector:
    description: Label selector, in Kubernetes' text form, that limits the nodes of O(snapshot) to
      those to ask. With one selector for each gateway, several gateways share the nodes.
    type: str
  timeout:
    description: Seconds that all requests to one target may take together. Raise it for slow BMCs.
    type: float
    default: 10.0
  concurrency:
    description: Number of targets to ask at the same time. One BMC never gets two requests at once.
    type: int
    default: 64
  allow_plain_http:
    description:
      - Whether a credential may be sent to a target whose endpoint is V(http://…). Anybody on the
        network path can then read it. If V(false), such a target is an error and gets no request.
        If V(true), a warning tells the number of such targets.
      - A target without a credential is asked in either case. NodeConfigs cannot set this option.
    type: bool
    default: false
  validate_certs:
    description:
      - Whether the certificates of targets are verified. If V(false), a warning tells the number of
        targets.
      - For self-signed certificates, prefer O(tls_fingerprint) or O(ca_path) to V(false).
    type: bool
    default: true
  ca_path:
    description: Path of the PEM certificates that verify the targets. The system's certificates by
      default.
    type: path
  tls_fingerprint:
    description: SHA-256 fingerprints of certificates or public keys, in hexadecimal with or without
      colons. A target with any other certificate gets no request. A pinned certificate needs no
      authority and no matching host name.
    type: list
    elements: str
    default: []
  on_error:
    description: Effect of a failed target. V(report) lists it in the result, V(fail) also fails the
      task, which equals O(min_success) set to V(1.0).
    type: str
    default: report
    choices: [report, fail]
  min_success:
    description: Share of the targets, from V(0.0) to V(1.0), that must succeed. Below it the task
      fails; the failure holds all results.
    type: float
    default: 0.0
  # end generated
requirements:
  - aiohttp >= 3.10
"""
