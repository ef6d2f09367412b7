# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Fields of a PowerFleet's spec by option, written by scripts/generate_options.py."""

from __future__ import annotations

# Options by group. The name in the spec follows a colon if it is another one than in camel case.
FIELDS: dict[str, str] = {
    "bind": "mark_unplaced volume_timeout:volumeTimeoutSeconds",
    "daemons": (
        "timeout:timeoutSeconds concurrency allow_plain_http validate_certs "
        "tls_fingerprint:tlsFingerprints tls_server_name:serverName wire min_success"
    ),
    "devices": "api_group gate strategy time_limit:timeLimitSeconds seed",
    "limits": "fleet_watts rack_watts node_watts inlet_celsius cap evict max_evictions",
    "merge": "min_success max_age:maxAgeSeconds samples_max_age:samplesMaxAgeSeconds",
    "meter": (
        "source url labels targets namespace selector scheme port validate_certs ca_path "
        "tls_fingerprint:tlsFingerprints tls_server_name energy_period_seconds"
    ),
    "place": (
        "scheduler_name strategy compare time_limit:timeLimitSeconds seed usage_source "
        "pod_usage_assumption unpriced preference_watts device_power allow_power_off standby_watts "
        "rebalance min_gain_watts max_moves"
    ),
    "predict": (
        "learn:learnCurves published:publishedCurves type_label cpu_usage_format model_origins "
        "allow_plain_http timeout:timeoutSeconds concurrency batch_rows min_success "
        "keep_seconds:keepPredictionsSeconds validate_certs ca_path "
        "tls_fingerprint:tlsFingerprints"
    ),
    "prices": (
        "url query unit surcharge max_age:maxAgeSeconds keep_seconds defer_pods margin_seconds "
        "validate_certs ca_path tls_fingerprint:tlsFingerprints"
    ),
    "read": (
        "gather allow_plain_http timeout:timeoutSeconds concurrency validate_certs ca_path "
        "tls_fingerprint:tlsFingerprints"
    ),
    "rmd": "pod_selector namespace require_capacity",
    "sleep": (
        "mode select:nodeSelector max_cycles_a_day reserve_quantile largest_quantile reserve_share "
        "horizon_seconds wear_joules max_share min_awake_seconds min_awake min_awake_by_zone "
        "min_awake_by_rack urgent_seconds boot_seconds boot_watts shutdown_seconds shutdown_watts "
        "standby_watts drain_timeout:drainTimeoutSeconds shutdown_timeout:shutdownTimeoutSeconds "
        "boot_timeout:bootTimeoutSeconds max_attempts max_readings_age:maxReadingsAgeSeconds"
    ),
}
