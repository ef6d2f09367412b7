module wattwise.github.io/lab/definitions

go 1.26.3

require (
	github.com/cert-manager/cert-manager v1.21.1
	github.com/grafana/grafana-operator/v5 v5.24.0
	github.com/prometheus-operator/prometheus-operator v0.93.0
)
