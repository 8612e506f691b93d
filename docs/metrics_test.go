package docs_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/note"

	"github.com/sluicedp/sluice/internal/testenv"
	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/ledgerhttp"
	"github.com/sluicedp/sluice/ledger/ledgerhttp/metrics"
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
)

// metric is a served metric.
type metric struct {
	kind   string   // counter, gauge or histogram
	labels []string // without le
	sum    float64  // of all its series, or how often something was observed
}

// watchedLedger opens a ledger, and returns it with the handler that serves its metrics.
func watchedLedger(t *testing.T, path string, signer note.Signer) (*ledger.Ledger, http.Handler) {
	t.Helper()
	counts := metrics.New()
	l, err := ledger.Open(t.Context(), path, ledger.Options{Observer: counts, Signer: signer})
	must(t, err)
	handler, err := ledgerhttp.New(l, ledgerhttp.Options{Gate: ledgerhttp.Holder{Name: "prometheus", Role: "metrics"}.Admit, Answered: counts.Answered, Metrics: counts.ServeMetrics})
	must(t, err)
	return l, handler
}

// worked returns what /metrics shows for a ledger that has done everything that is counted, and
// what it shows after the ledger was opened again.
func worked(t *testing.T) (now, after string) {
	t.Helper()
	path := filepath.Join(testenv.TempDir(t), "ledger.db")
	secret, public, err := note.GenerateKey(nil, "example.com/log")
	must(t, err)
	signer, err := note.NewSigner(secret)
	must(t, err)
	must(t, ledger.Create(t.Context(), path, ledger.CreateOptions{LogKey: public, Currency: "USD"}))
	l, handler := watchedLedger(t, path, signer)
	work(t, l)
	scrape(t, handler)
	now = scrape(t, handler) // which has the first as a request
	must(t, l.Close())
	l, handler = watchedLedger(t, path, signer)
	after = scrape(t, handler)
	must(t, l.Close())
	return now, after
}

// work sells a response, is refused another, audits the ledger and signs a checkpoint.
func work(t *testing.T, l *ledger.Ledger) {
	t.Helper()
	ctx, one := t.Context(), privacy.MustEpsilon("1")
	terms, err := policy.Market{Max: one, Prices: []policy.Price{{Epsilon: one, Amount: 300}}}.Policy()
	must(t, err)
	must(t, l.DefineQuestion(ctx, "define", api.Question{Name: "smoker", Values: []string{"yes", "no"}}))
	_, err = l.Enroll(ctx, api.EnrollRequest{Key: "enrol", Question: "smoker", Objects: []string{"17"}, Policy: terms, Cap: one})
	must(t, err)
	order := api.Order{Buyer: "acme", Question: "smoker", Epsilon: one, Objects: []string{"17"}}
	_, err = l.Sell(ctx, api.SellRequest{Key: "sell", Order: order, Truth: api.TruthOf("no")})
	must(t, err)
	two := api.ReleaseRequest{Key: "refused", Question: "smoker", Object: "17", Epsilon: privacy.MustEpsilon("2"), Truth: api.TruthOf("no")}
	if _, err := l.Release(ctx, two); err == nil {
		t.Fatal("ε = 2 was released of a person whose cap is 1")
	}
	_, err = l.Verify(ctx, api.VerifyRequest{})
	must(t, err)
	_, err = l.Checkpoint(ctx)
	must(t, err)
}

func scrape(t *testing.T, handler http.Handler) string {
	t.Helper()
	answer := httptest.NewRecorder()
	handler.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if answer.Code != http.StatusOK {
		t.Fatalf("/metrics: %d %s", answer.Code, answer.Body)
	}
	return answer.Body.String()
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

var (
	typeLine = regexp.MustCompile(`^# TYPE (\w+) (\w+)$`)
	sample   = regexp.MustCompile(`^(\w+)(?:\{(.*)\})? (\S+)$`)
	labelled = regexp.MustCompile(`(\w+)="(?:[^"\\]|\\.)*"`)
)

// served reads what /metrics shows.
func served(t *testing.T, text string) map[string]metric {
	t.Helper()
	found := map[string]metric{}
	last := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if match := typeLine.FindStringSubmatch(line); match != nil {
			last = match[1]
			found[last] = metric{kind: match[2]}
		}
		match := sample.FindStringSubmatch(line)
		if match == nil {
			continue
		}
		m := found[last]
		if !strings.HasPrefix(match[1], last) {
			t.Fatalf("%s stands below the type of %s", match[1], last)
		}
		m.labels = nil
		for _, label := range labelled.FindAllStringSubmatch(match[2], -1) {
			if label[1] != "le" {
				m.labels = append(m.labels, label[1])
			}
		}
		if value, err := strconv.ParseFloat(match[3], 64); err != nil {
			t.Fatal(line, err)
		} else if m.kind != "histogram" || match[1] == last+"_count" {
			m.sum += value
		}
		found[last] = m
	}
	return found
}

// howto is the page about metrics.
func howto(t *testing.T) string {
	t.Helper()
	page := pages(t)["docs/howto/metrics.md"]
	if page == "" {
		t.Fatal("there is no page about metrics")
	}
	return page
}

// servedNow returns the metrics of a ledger that has done everything that is counted.
func servedNow(t *testing.T) map[string]metric {
	t.Helper()
	now, _ := worked(t)
	found := served(t, now)
	if len(found) < 40 || found["sluice_draws_total"].kind != "counter" || !slices.Equal(found["sluice_http_request_seconds"].labels, []string{"route", "status"}) {
		t.Fatalf("only %d metrics: %v", len(found), found)
	}
	return found
}

var metricRow = regexp.MustCompile("(?m)^\\| `(sluice_\\w+)` \\| (\\w+)\\*? \\| ([^|]+) \\| [^|]*\\|$")

// The page has every metric that is served, with its kind and its labels, and no other.
func TestMetricsPage_EachServedMetric_IsListed(t *testing.T) {
	page, all := howto(t), servedNow(t)
	listed := map[string]bool{}
	for _, row := range metricRow.FindAllStringSubmatch(page, -1) {
		name, kind, labels := row[1], row[2], row[3]
		m, is := all[name]
		if !is || kind != m.kind || listed[name] {
			t.Errorf("the page has %s, a %s; served is %+v", name, kind, m)
		}
		for _, label := range m.labels {
			if !strings.Contains(labels, "`"+label+"`") {
				t.Errorf("on the page, %s lacks the label %s", name, label)
			}
		}
		listed[name] = true
	}
	for name := range all {
		if strings.HasPrefix(name, "sluice_") != listed[name] {
			t.Errorf("%s: on the page: %v", name, listed[name])
		}
	}
	if n := strings.Count(page, "\n| `sluice_"); n != len(listed) {
		t.Errorf("of %d rows %d were read", n, len(listed))
	}
}

// Counters that the page marks as kept by the ledger continue after a restart, and the others begin
// at 0.
func TestMetricsPage_KeptCounters_ContinueAfterRestart(t *testing.T) {
	now, after := worked(t)
	before, again := served(t, now), served(t, after)
	kept := 0
	for _, row := range regexp.MustCompile("(?m)^\\| `(\\w+)` \\| (counter\\*?|histogram) ").FindAllStringSubmatch(howto(t), -1) {
		name, want := row[1], 0.
		if row[2] == "counter*" {
			kept++
			if want = before[name].sum; want == 0 {
				t.Errorf("%s was 0 before", name)
			}
		}
		if got := again[name].sum; got != want {
			t.Errorf("%s continues with %v, want %v", name, got, want)
		}
	}
	if kept < 5 {
		t.Errorf("the page marks %d counters as kept", kept)
	}
}

// The configuration on the page is that of the file.
func TestMetricsPage_Configuration_IsThatOfTheFile(t *testing.T) {
	all, _ := blocks(howto(t))
	file, err := os.ReadFile(filepath.Join(root(t), "docs", "metrics", "prometheus.yml"))
	must(t, err)
	if !slices.ContainsFunc(all, func(b block) bool {
		return b.lang == "text" && strings.Contains(b.text, "job_name: sluice") && strings.Contains(string(file), b.text)
	}) {
		t.Error("the page has no part of prometheus.yml")
	}
}
