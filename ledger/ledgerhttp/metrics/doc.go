// Package metrics shows a ledger and its server to Prometheus.
//
// A host gives the same [Metrics] to ledger.Options.Observer and to ledgerhttp.Options.Meter; then
// GET /metrics has it, for the roles operator and metrics. What each metric is, the alerts and the
// dashboard are in docs/howto/metrics.md. No metric has a name of a person, a buyer or a question.
// Package ledger links none of this.
package metrics
