# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A stateful simulator of AWX's API, with the endpoints that modules of ``awx.awx`` use.

Validation of surveys, credential types and launches, the precedence of variables, artifacts of a
workflow and the deletion of types in use follow the source of AWX 24.6. Status codes, fields of
lists and associations follow what the modules of ``awx.awx`` 24.6.1 expect. Jobs run in a function
that the test gives.
"""
