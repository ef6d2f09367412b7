# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Power draw and energy of pods and namespaces, by Kepler's shares of RAPL's package and memory.

``metering.meter`` makes the body of the document from Prometheus or from Kepler's own endpoints.
``power_watts`` are watts of whole machines, independent of these.
"""
