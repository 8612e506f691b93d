package metrics

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/observe"
)

// ledgerState collects the state of a ledger each time the metrics are read.
type ledgerState struct {
	ctx    context.Context
	ledger *ledger.Ledger
}

// Describe implements [prometheus.Collector]. It describes nothing, because which metrics there are
// depends on the state of the ledger.
func (ledgerState) Describe(chan<- *prometheus.Desc) {}

// Collect implements [prometheus.Collector]. If the ledger does not answer, it sends only sluice_up
// and, for a ledger that has stopped, the metrics about the host.
func (s ledgerState) Collect(out chan<- prometheus.Metric) {
	stats, err := s.ledger.Stats(s.ctx)
	health, healthErr := s.ledger.Health(s.ctx)
	if health.Host.Role != "" { // Health returns the host for a ledger that has stopped, too
		for _, one := range hostOf(health.Host) {
			out <- one
		}
	}
	isUp := err == nil && healthErr == nil
	out <- gaugeOf("sluice_up", up, oneIf(isUp))
	if !isUp {
		return
	}
	for _, one := range append(countersOf(stats), gaugesOf(health)...) {
		out <- one
	}
}

// up is the help text of sluice_up.
const up = "1 if the ledger answers, 0 if it has stopped, was closed, or is damaged in the part that is read."

// metric returns a metric without labels that has the given value.
func metric(name, help string, kind prometheus.ValueType, value float64) prometheus.Metric {
	return prometheus.MustNewConstMetric(prometheus.NewDesc(name, help, nil, nil), kind, value)
}

func gaugeOf(name, help string, value float64) prometheus.Metric {
	return metric(name, help, prometheus.GaugeValue, value)
}

// countersOf returns the counters that the ledger itself stores, so that they continue after a
// restart, and the gauge of the number of chains.
func countersOf(s api.Stats) []prometheus.Metric {
	count := func(name, help string, n uint64) prometheus.Metric {
		return metric(name, help, prometheus.CounterValue, float64(n))
	}
	revenue := prometheus.NewDesc("sluice_revenue_total",
		"Total price of all sales, in minor units of the currency.", []string{"currency"}, nil)
	return []prometheus.Metric{
		count("sluice_events_total", "Events in the log.", s.Events),
		count("sluice_people_total", "People who were ever enrolled.", s.Objects),
		count("sluice_questions_total", "Questions that were defined.", s.Questions),
		count("sluice_buyers_total", "Buyers who have ordered.", s.Buyers),
		count("sluice_sales_total", "Completed sales.", s.Sales),
		prometheus.MustNewConstMetric(revenue, prometheus.CounterValue, float64(s.Revenue), s.Currency),
		gaugeOf("sluice_chains", "Pairs of a person and a question that the person was ever enrolled in. "+
			"Withdrawn and forgotten people still count.", float64(s.Chains)),
	}
}

// hostOf returns the metrics about the role of the host. The term and the lag are missing if the
// journal has not answered.
func hostOf(h observe.Host) []prometheus.Metric {
	all := []prometheus.Metric{
		gaugeOf("sluice_host_leader",
			"1 if this host has the ledger, or had it until it was fenced, 0 if it is a standby.",
			oneIf(h.Role == "leader")),
		gaugeOf("sluice_host_fenced", "1 if the ledger has stopped because another host has taken over.",
			oneIf(h.Fenced)),
		gaugeOf("sluice_host_journal_up", "1 if the journal answers which host has it, or if only this host uses it.",
			oneIf(h.Answered)),
	}
	if h.Answered {
		all = append(all,
			gaugeOf("sluice_host_term", "The term of the journal's newest claim, 0 if only this host uses it.",
				float64(h.Term)),
			gaugeOf("sluice_host_lag_events", "Events that the journal has and this standby has not folded yet.",
				float64(h.Lag)))
	}
	return all
}

// oneIf returns 1 for true, and 0 for false.
func oneIf(truth bool) float64 {
	if truth {
		return 1
	}
	return 0
}

// gaugesOf returns the gauges: metrics that can rise and fall. Those about the newest checkpoint
// are missing if no checkpoint has left the process.
func gaugesOf(h observe.Health) []prometheus.Metric {
	all := []prometheus.Metric{
		gaugeOf("sluice_queue_requests", "Requests that wait for a commit.", float64(h.Waiting)),
		gaugeOf("sluice_reservations", "Reservations in force.", float64(h.Reservations)),
		gaugeOf("sluice_journal_events",
			"Events that are in the journal but not yet in the file.", float64(h.Pending)),
		gaugeOf("sluice_memory_bytes",
			"Bytes of memory that hold records that are not yet in the file.", float64(h.Memory)),
		gaugeOf("sluice_memory_room_bytes", "Capacity of the memory for records that are not yet in the file. "+
			"From 60 % of it on, commits may be throttled.", float64(h.Room)),
		gaugeOf("sluice_file_bytes", "Bytes of the file.", float64(h.Bytes)),
		gaugeOf("sluice_file_free_bytes", "Bytes of the file that are unused, and will be used again.",
			float64(h.Free)),
	}
	if c := h.Checkpoint; !c.Signed.IsZero() {
		all = append(all,
			gaugeOf("sluice_checkpoint_timestamp_seconds", "When the newest checkpoint that left the process "+
				"was signed.", float64(c.Signed.UnixMilli())/1000),
			gaugeOf("sluice_checkpoint_events", "Events that this checkpoint covers.", float64(c.Events)))
	}
	return all
}
