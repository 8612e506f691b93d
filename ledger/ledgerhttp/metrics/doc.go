// Package metrics exports the state and work of a ledger and its server to Prometheus.
//
// A host sets ledger.Options.Observer to a [Metrics]. It sets Answered and Metrics of
// ledgerhttp.Options to [Metrics.Answered] and [Metrics.ServeMetrics]. Then GET /metrics returns
// the metrics to the roles operator and metrics. docs/howto/metrics.md describes each metric, the
// alerts and the dashboard. No metric contains the name of a person, a buyer or a question.
// Package ledger does not depend on this package.
package metrics
