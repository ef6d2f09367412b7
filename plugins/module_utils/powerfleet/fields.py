# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Fields of a PowerFleet's spec by option, written by scripts/generate_options.py."""

from __future__ import annotations

import typing as t

# Group of options → name of an option → name in the spec.
FIELDS: t.Mapping[str, t.Mapping[str, str]] = {
    "bind": {
        "mark_unplaced": "markUnplaced",
        "volume_timeout": "volumeTimeoutSeconds",
    },
    "daemons": {
        "timeout": "timeoutSeconds",
        "concurrency": "concurrency",
        "allow_plain_http": "allowPlainHttp",
        "validate_certs": "validateCerts",
        "tls_fingerprint": "tlsFingerprints",
        "tls_server_name": "serverName",
        "wire": "wire",
        "min_success": "minSuccess",
    },
    "devices": {
        "api_group": "apiGroup",
        "gate": "gate",
        "strategy": "strategy",
        "time_limit": "timeLimitSeconds",
        "seed": "seed",
    },
    "merge": {
        "min_success": "minSuccess",
        "max_age": "maxAgeSeconds",
        "samples_max_age": "samplesMaxAgeSeconds",
    },
    "meter": {
        "source": "source",
        "url": "url",
        "labels": "labels",
        "targets": "targets",
        "namespace": "namespace",
        "selector": "selector",
        "scheme": "scheme",
        "port": "port",
        "validate_certs": "validateCerts",
        "ca_path": "caPath",
        "tls_fingerprint": "tlsFingerprints",
        "tls_server_name": "tlsServerName",
        "energy_period_seconds": "energyPeriodSeconds",
    },
    "place": {
        "scheduler_name": "schedulerName",
        "strategy": "strategy",
        "compare": "compare",
        "time_limit": "timeLimitSeconds",
        "seed": "seed",
        "usage_source": "usageSource",
        "pod_usage_assumption": "podUsageAssumption",
        "unpriced": "unpriced",
        "preference_watts": "preferenceWatts",
        "device_power": "devicePower",
        "allow_power_off": "allowPowerOff",
        "standby_watts": "standbyWatts",
        "rebalance": "rebalance",
        "min_gain_watts": "minGainWatts",
        "max_moves": "maxMoves",
    },
    "predict": {
        "learn": "learnCurves",
        "published": "publishedCurves",
        "type_label": "typeLabel",
        "cpu_usage_format": "cpuUsageFormat",
        "model_origins": "modelOrigins",
        "allow_plain_http": "allowPlainHttp",
        "timeout": "timeoutSeconds",
        "concurrency": "concurrency",
        "batch_rows": "batchRows",
        "min_success": "minSuccess",
        "keep_seconds": "keepPredictionsSeconds",
        "validate_certs": "validateCerts",
        "ca_path": "caPath",
        "tls_fingerprint": "tlsFingerprints",
    },
    "read": {
        "gather": "gather",
        "allow_plain_http": "allowPlainHttp",
        "timeout": "timeoutSeconds",
        "concurrency": "concurrency",
        "validate_certs": "validateCerts",
        "ca_path": "caPath",
        "tls_fingerprint": "tlsFingerprints",
    },
    "rmd": {
        "pod_selector": "podSelector",
        "namespace": "namespace",
        "require_capacity": "requireCapacity",
    },
}
