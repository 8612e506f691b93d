package metrics

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/observe"
)

// Metrics counts the work of a ledger and its server. It is an [observe.Observer]. Its methods may
// be called concurrently.
type Metrics struct {
	registry *prometheus.Registry

	commits                         prometheus.Histogram
	requests, events, bytes         prometheus.Counter
	draws, leftOut, refused, audits *prometheus.CounterVec
	resold, charged, refusals       prometheus.Counter
	answered                        *prometheus.HistogramVec

	// Registered with the first audit. Otherwise their zero values would look like a successful
	// audit.
	auditEnded, auditTook, auditProblems, exhausted prometheus.Gauge
}

// New returns metrics that start at 0.
func New() *Metrics {
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		commits: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "sluice_commit_seconds", Help: "Time from the decision of a commit until it is durable.",
			Buckets: []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
		}),
		requests: counter("sluice_committed_requests_total",
			"Committed requests. A large request counts once for each of its commits."),
		events: counter("sluice_committed_events_total", "Events that this host has committed."),
		bytes:  counter("sluice_journal_bytes_total", "Bytes of events written to the journal."),
		draws: counters("sluice_draws_total",
			"Drawn responses and answers. The methods raise and fresh use true values, "+
				"degrade and insert do not.", "method"),
		resold:  counter("sluice_resales_total", "Responses that were sold again without a draw."),
		charged: counter("sluice_epsilon_charged_total", "Total ε charged to people, in nats."),
		refusals: counter("sluice_refused_requests_total",
			"Requests refused as a whole, because of people in them, or because an answer would take "+
				"levels on offer off the market."),
		refused: counters("sluice_refusing_people_total",
			"People whose refusal made a whole request fail, by reason.", "reason"),
		leftOut: counters("sluice_left_out_people_total",
			"People left out of partial requests, by reason.", "reason"),
		audits: counters("sluice_audits_total",
			"Audits of the whole log, by result: sound, problems, or failed if the audit "+
				"did not complete.", "result"),
		answered: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "sluice_http_request_seconds",
			Help:    "Time of requests, by route and by the status of the answer.",
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 10, 60, 600},
		}, []string{"route", "status"}),
		auditEnded:    gauge("sluice_audit_timestamp_seconds", "When the last completed audit ended."),
		auditTook:     gauge("sluice_audit_seconds", "How long that audit took."),
		auditProblems: gauge("sluice_audit_problems", "How many problems that audit found."),
		exhausted:     gauge("sluice_exhausted_people", "People who had spent their whole cap at that audit."),
	}
	m.initSeries()
	m.registry.MustRegister(m.commits, m.requests, m.events, m.bytes, m.draws, m.resold, m.charged, m.refusals,
		m.refused, m.leftOut, m.audits, m.answered,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// counter returns a counter without labels.
func counter(name, help string) prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
}

// counters returns a counter for each value of a label.
func counters(name, help, label string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{label})
}

func gauge(name, help string) prometheus.Gauge {
	return prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
}

// The results of audits, as values of a label.
const (
	sound    = "sound"
	problems = "problems"
	failed   = "failed"
)

// initSeries creates the series whose labels are known in advance, with the value 0. Prometheus
// computes no increase for a series that first appears with the value 1.
func (m *Metrics) initSeries() {
	for _, method := range []string{"raise", "degrade", "insert", "fresh"} {
		m.draws.WithLabelValues(method)
	}
	for _, reason := range event.ReasonCodes() {
		m.refused.WithLabelValues(string(reason))
		m.leftOut.WithLabelValues(string(reason))
	}
	for _, result := range []string{sound, problems, failed} {
		m.audits.WithLabelValues(result)
	}
}

// Committed implements [observe.Observer]: it adds the work of a commit.
func (m *Metrics) Committed(c observe.Commit) {
	m.commits.Observe(c.Duration.Seconds())
	m.requests.Add(float64(c.Requests))
	m.events.Add(float64(c.Events))
	m.bytes.Add(float64(c.Bytes))
	for method, n := range c.Draws {
		m.draws.WithLabelValues(method).Add(float64(n))
	}
	m.resold.Add(float64(c.Resold))
	m.charged.Add(c.Charged)
	count(m.leftOut, c.LeftOut)
}

// count adds numbers of people to the counters of their reasons.
func count(to *prometheus.CounterVec, people map[api.Reason]uint64) {
	for reason, n := range people {
		to.WithLabelValues(string(reason)).Add(float64(n))
	}
}

// Refused implements [observe.Observer]: it counts a request that was refused as a whole.
func (m *Metrics) Refused(r observe.Refusal) {
	m.refusals.Inc()
	count(m.refused, r.People)
}

// Audited implements [observe.Observer]: it counts an audit by its result. The gauges about the
// last audit are set only by an audit that completed.
func (m *Metrics) Audited(a observe.Audit) {
	if a.Err != nil {
		m.audits.WithLabelValues(failed).Inc()
		return
	}
	result := sound
	if a.Problems > 0 {
		result = problems
	}
	m.audits.WithLabelValues(result).Inc()
	m.auditEnded.SetToCurrentTime()
	m.auditTook.Set(a.Duration.Seconds())
	m.auditProblems.Set(float64(a.Problems))
	m.exhausted.Set(float64(a.Exhausted))
	for _, g := range []prometheus.Gauge{m.auditEnded, m.auditTook, m.auditProblems, m.exhausted} {
		_ = m.registry.Register(g) // an error only means that the metric is registered already
	}
}

// Answered counts a request. It is for the field Answered of ledgerhttp.Options.
func (m *Metrics) Answered(route string, status int, took time.Duration) {
	m.answered.WithLabelValues(route, strconv.Itoa(status)).Observe(took.Seconds())
}

// ServeMetrics writes the metrics and the state of a ledger in the format that Prometheus
// requests. It is for the field Metrics of ledgerhttp.Options. For a ledger that does not answer,
// sluice_up is 0. The other metrics of the ledger's state are then missing, except, if the ledger
// has stopped, those of its host.
func (m *Metrics) ServeMetrics(w http.ResponseWriter, r *http.Request, l *ledger.Ledger) {
	now := prometheus.NewRegistry() // for this request, so that the state is read within its context
	now.MustRegister(ledgerState{r.Context(), l})
	promhttp.HandlerFor(prometheus.Gatherers{m.registry, now}, promhttp.HandlerOpts{}).ServeHTTP(w, r)
}
