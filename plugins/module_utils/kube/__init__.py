# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The Kubernetes API: a client for many small requests, a Lease, CRDs, events and conditions.

Entry points are ``client.Kube``, ``lease.alone`` and ``watch.Collection``.
"""
