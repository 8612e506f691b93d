package metrics

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/ledgerhttp"
	"github.com/sluicedp/sluice/ledger/ledgertest"
	"github.com/sluicedp/sluice/ledger/observe"
	"github.com/sluicedp/sluice/policy"
)

// watched is a served ledger with metrics, in memory.
type watched struct {
	*ledger.Ledger
	t       testing.TB
	handler *ledgerhttp.Handler
}

func watch(t testing.TB) *watched {
	t.Helper()
	signing, public, err := note.GenerateKey(nil, "sluice-test")
	check.Must(t, err)
	signer := check.Value(note.NewSigner(signing))(t)
	m := New()
	l := ledgertest.With(t, ledgertest.Settings{
		Origin: ledgertest.Origin{LogKey: public}, Options: ledger.Options{Signer: signer, Observer: m, Now: time.Now},
	}).Ledger
	h, err := ledgerhttp.New(l, ledgerhttp.Options{Gate: ledgerhttp.Holder{Name: "test", Role: "operator"}.Admit, Answered: m.Answered, Metrics: m.ServeMetrics})
	check.Must(t, err)
	return &watched{l, t, h}
}

// get asks the handler for something that is there.
func (w *watched) get(path string) string {
	w.t.Helper()
	out := httptest.NewRecorder()
	w.handler.ServeHTTP(out, httptest.NewRequest("GET", "http://ledger.test"+path, nil))
	check.Need(w.t, out.Code == http.StatusOK, "%s: %d %s", path, out.Code, out.Body)
	return out.Body.String()
}

// scrape returns the metrics that are served, by name and labels.
func (w *watched) scrape() map[string]float64 {
	w.t.Helper()
	all := map[string]float64{}
	for line := range strings.Lines(w.get("/metrics")) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		at := strings.LastIndexByte(line, ' ')
		value := check.Value(strconv.ParseFloat(strings.TrimSpace(line[at:]), 64))(w.t)
		all[line[:at]] = value
	}
	return all
}

// want checks some metrics.
func (w *watched) want(what string, values map[string]float64) {
	w.t.Helper()
	all := w.scrape()
	for name, value := range values {
		got, there := all[name]
		check.That(w.t, there && got == value, "%s: %s is %v (there: %v), want %v", what, name, got, there, value)
	}
}

const secretPerson, secretBuyer, secretQuestion = "pe-rson", "bu-yer", "que-stion"

// work does something of each kind.
func (w *watched) work() {
	w.t.Helper()
	ctx, t := w.t.Context(), w.t
	yes := func(_ context.Context, _ string, objects []string) ([]string, error) {
		return slices.Repeat([]string{"yes"}, len(objects)), nil
	}
	check.Must(t, w.DefineQuestion(ctx, "define", api.Question{Name: secretQuestion, Values: []string{"yes", "no"}}))
	terms, err := policy.Market{Max: check.Eps(t, "3"), Prices: []policy.Price{{Epsilon: check.Eps(t, "3"), Amount: 300}}}.Policy()
	check.Must(t, err)
	names := []string{secretPerson, "second", "third"}
	_, err = w.Enroll(ctx, api.EnrollRequest{Key: "enrol", Question: secretQuestion, Objects: names, Policy: terms, Cap: check.Eps(t, "2")})
	check.Must(t, err)
	order := api.Order{Buyer: secretBuyer, Question: secretQuestion, Epsilon: check.Eps(t, "1"), Objects: names[:2]}
	for _, key := range []string{"sale 1", "sale 2"} {
		check.Must(t, check.Err(w.Sell(ctx, api.SellRequest{Key: key, Order: order, Truth: yes})))
		order.Buyer = "another"
	}
	order.Objects = names[2:]
	check.Must(t, check.Err(w.Reserve(ctx, api.ReserveRequest{Key: "reserve", Order: order, For: time.Hour})))
	for _, level := range []string{"2", "0.5", "1.5"} {
		_, err = w.Release(ctx, api.ReleaseRequest{Key: "at " + level, Question: secretQuestion, Object: secretPerson, Epsilon: check.Eps(t, level), Truth: yes})
		check.Must(t, err)
	}
	_, err = w.Raise(ctx, api.RaiseRequest{Key: "partial", Question: secretQuestion, Epsilon: check.Eps(t, "0.25"), Objects: []string{"second", "stranger"}, Partial: true, Truth: yes})
	check.Must(t, err)
	if _, err = w.Raise(ctx, api.RaiseRequest{Key: "refused", Question: secretQuestion, Epsilon: check.Eps(t, "2.5"), Objects: names[:2], Truth: yes}); err == nil {
		t.Fatal("the request is not refused")
	}
	_, err = w.Answer(ctx, api.AnswerRequest{Key: "answer", Question: secretQuestion, Query: "majority:yes", Epsilon: check.Eps(t, "0.125"), Objects: names[1:2], AcceptLoss: true, Truth: yes})
	check.Must(t, err)
}

// The served metrics are those of the work that was done.
func TestMetrics_AfterWork_CountIt(t *testing.T) {
	w := watch(t)
	before := w.scrape()
	for _, absent := range []string{"sluice_audit_timestamp_seconds", "sluice_audit_seconds", "sluice_audit_problems", "sluice_exhausted_people", "sluice_checkpoint_timestamp_seconds", "sluice_checkpoint_events"} {
		value, there := before[absent]
		check.That(t, !there, "%s is %v before there is any", absent, value)
	}
	w.want("before anything", map[string]float64{
		"sluice_up": 1, "sluice_people_total": 0, "sluice_epsilon_charged_total": 0, `sluice_draws_total{method="raise"}`: 0, `sluice_draws_total{method="fresh"}`: 0,
		`sluice_refusing_people_total{reason="object-cap"}`: 0, `sluice_left_out_people_total{reason="not-enrolled"}`: 0, `sluice_audits_total{result="failed"}`: 0,
	})
	w.work()
	stats := check.Value(w.Stats(t.Context()))(t)
	w.want("after some work", map[string]float64{
		"sluice_commit_seconds_count": 10, "sluice_committed_requests_total": 10, "sluice_committed_events_total": float64(stats.Events) - before["sluice_events_total"],
		`sluice_draws_total{method="raise"}`: 3, `sluice_draws_total{method="degrade"}`: 2, `sluice_draws_total{method="insert"}`: 1, `sluice_draws_total{method="fresh"}`: 1,
		"sluice_resales_total": 2, "sluice_epsilon_charged_total": 3.125, "sluice_refused_requests_total": 1,
		`sluice_refusing_people_total{reason="object-cap"}`: 2, `sluice_left_out_people_total{reason="not-enrolled"}`: 1,
		"sluice_up": 1, "sluice_events_total": float64(stats.Events), "sluice_people_total": 3, "sluice_chains": 3, "sluice_questions_total": 1, "sluice_buyers_total": 2,
		"sluice_sales_total": 2, `sluice_revenue_total{currency="USD"}`: float64(stats.Revenue), "sluice_reservations": 1, "sluice_queue_requests": 0,
	})

	check.Must(t, check.Err(w.Verify(t.Context(), api.VerifyRequest{})))
	w.get("/v1/checkpoint")
	now := float64(time.Now().Unix())
	w.want("after an audit and a checkpoint", map[string]float64{
		`sluice_audits_total{result="sound"}`: 1, `sluice_audits_total{result="problems"}`: 0, "sluice_audit_problems": 0, "sluice_exhausted_people": 1,
		"sluice_checkpoint_events": float64(stats.Events), `sluice_http_request_seconds_count{route="checkpoint",status="200"}`: 1,
	})
	after := w.scrape()
	for _, name := range []string{"sluice_audit_timestamp_seconds", "sluice_checkpoint_timestamp_seconds"} {
		at := after[name]
		check.That(t, !(at < now-60) && !(at > now+60), "%s is %v, and now is %v", name, at, now)
	}
	check.That(t, !(after["sluice_audit_seconds"] <= 0) && !(after["sluice_commit_seconds_sum"] <= 0) &&
		!(after["go_goroutines"] <= 0) && !(after["process_start_time_seconds"] <= 0), "%v", after)
}

// Events that the ledger records when it is opened are committed, but belong to no request.
func TestMetrics_KeysRecordedAtOpen_AreNoRequests(t *testing.T) {
	counts := New()
	l := ledgertest.With(t, ledgertest.Settings{Options: ledger.Options{Observer: counts, TruthKey: []byte("a key of sixteen bytes")}})
	w := &watched{Ledger: l.Ledger, t: t}
	var err error
	w.handler, err = ledgerhttp.New(w.Ledger, ledgerhttp.Options{Gate: ledgerhttp.Holder{Name: "test", Role: "metrics"}.Admit, Answered: counts.Answered, Metrics: counts.ServeMetrics})
	check.Must(t, err)
	w.want("of a new truth key", map[string]float64{"sluice_committed_events_total": 1, "sluice_committed_requests_total": 0})
	check.Must(t, l.DefineQuestion(t.Context(), "define", api.Question{Name: "vote", Values: []string{"yes", "no"}}))
	w.want("of a question", map[string]float64{"sluice_committed_events_total": 3, "sluice_committed_requests_total": 1})
}

// Withdrawn and forgotten people still count, and the help texts say so.
func TestMetrics_WithdrawnAndForgotten_StillCount(t *testing.T) {
	w := watch(t)
	w.work()
	check.Must(t, w.Withdraw(t.Context(), api.ObjectRequest{Key: "withdraw", Object: "second"}))
	check.Must(t, w.Forget(t.Context(), api.ObjectRequest{Key: "forget", Object: "third"}))
	w.want("when two have left", map[string]float64{"sluice_people_total": 3, "sluice_chains": 3})
	text := w.get("/metrics")
	for _, help := range []string{"# HELP sluice_people_total People who were ever enrolled.", "# HELP sluice_chains Pairs of a person and a question that the person was ever enrolled in"} {
		check.That(t, strings.Contains(text, help), "there is no %q", help)
	}
}

// Audits are counted by result, and a failed audit changes no metric of the ledger.
func TestMetrics_Audits_CountByResult(t *testing.T) {
	w := watch(t)
	w.work()
	ended, end := context.WithCancel(t.Context())
	end()
	_, err := w.Verify(ended, api.VerifyRequest{})
	check.Need(t, err != nil, "the verification completed")
	w.want("one that failed", map[string]float64{`sluice_audits_total{result="failed"}`: 1, `sluice_audits_total{result="sound"}`: 0})
	value, there := w.scrape()["sluice_audit_problems"]
	check.That(t, !there, "it found %v problems", value)
	counts := New()
	counts.Audited(observe.Audit{Problems: 3, Exhausted: 4, Duration: time.Second})
	counts.Audited(observe.Audit{Problems: 2, Exhausted: 5, Duration: 2 * time.Second})
	out := httptest.NewRecorder()
	counts.ServeMetrics(out, httptest.NewRequest("GET", "/metrics", nil), w.Ledger)
	for _, line := range []string{`sluice_audits_total{result="problems"} 2`, "sluice_audit_problems 2", "sluice_exhausted_people 5", "sluice_audit_seconds 2"} {
		check.That(t, strings.Contains(out.Body.String(), line+"\n"), "there is no %s", line)
	}
}

// For a ledger that does not answer, sluice_up is 0 and its state is missing. The counters of its
// work remain.
func TestMetrics_ClosedLedger_IsNotUp(t *testing.T) {
	w := watch(t)
	w.work()
	check.Must(t, w.Close())
	w.want("a closed ledger", map[string]float64{"sluice_up": 0, "sluice_committed_requests_total": 10})
	for _, name := range []string{"sluice_events_total", "sluice_reservations", "sluice_file_bytes"} {
		value, there := w.scrape()[name]
		check.That(t, !there, "%s is %v", name, value)
	}
}

// No metric contains the name of a person, a buyer or a question.
func TestMetrics_ContainNoNames(t *testing.T) {
	w := watch(t)
	w.work()
	w.get("/v1/object?object=" + secretPerson)
	w.get("/v1/sales?buyer=" + secretBuyer)
	text := w.get("/metrics")
	for _, name := range []string{secretPerson, secretBuyer, secretQuestion, "stranger", "sale 1"} {
		check.That(t, !strings.Contains(text, name), "%s is in the metrics", name)
	}
	check.That(t, strings.Contains(text, `route="object"`), "and requests are not counted")
}

// Many concurrent calls are counted while others read the metrics.
func TestMetrics_ConcurrentCalls_AreCounted(t *testing.T) {
	w := watch(t)
	check.Must(t, w.DefineQuestion(t.Context(), "define", api.Question{Name: "q", Values: []string{"yes", "no"}}))
	const callers, each = 8, 20
	done := make(chan error, callers)
	for c := range callers {
		go func() {
			var err error
			for i := range each {
				name := fmt.Sprintf("%d-%d", c, i)
				if _, e := w.Enroll(t.Context(), api.EnrollRequest{Key: name, Question: "q", Objects: []string{name}, Cap: check.Eps(t, "2")}); e != nil {
					err = e
				}
				if _, e := w.Release(t.Context(), api.ReleaseRequest{Key: "r" + name, Question: "q", Object: name, Epsilon: check.Eps(t, "1"), Truth: api.TruthOf("no")}); e != nil {
					err = e
				}
			}
			done <- err
		}()
	}
	for range 20 {
		w.scrape()
	}
	for range callers {
		check.Must(t, <-done)
	}
	w.want("at the end", map[string]float64{
		"sluice_committed_requests_total": 2*callers*each + 1, `sluice_draws_total{method="raise"}`: callers * each, "sluice_epsilon_charged_total": callers * each,
	})
}
