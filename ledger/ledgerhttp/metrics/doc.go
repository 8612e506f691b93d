// Package metrics shows a ledger and its server to Prometheus.
//
// A host sets ledger.Options.Observer to a [Metrics], and Answered and Metrics of ledgerhttp.Options
// to its methods [Metrics.Answered] and [Metrics.ServeMetrics]. Then GET /metrics has it, for the
// roles operator and metrics. What each metric is, the alerts and the
// dashboard are in docs/howto/metrics.md. No metric has a name of a person, a buyer or a question.
// Package ledger links none of this.
package metrics
