# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Observation: pressure servers, merged readings, statuses, a Prometheus textfile, power of pods.

Entry points are ``observation.observe``, ``pressure.read_pressure`` and ``status.status_of``.
"""
