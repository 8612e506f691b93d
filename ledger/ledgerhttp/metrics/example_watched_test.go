package metrics_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"

	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/ledgerhttp"
	"github.com/sluicedp/sluice/ledger/ledgerhttp/metrics"
)

// watch opens a ledger, and serves its metrics at /metrics of a server of the host. Every client
// that can reach this server can read them.
func watch(ctx context.Context, own *http.ServeMux, path string) (*ledger.Ledger, error) {
	counts := metrics.New()
	l, err := ledger.Open(ctx, path, ledger.Options{Observer: counts})
	if err != nil {
		return nil, err
	}
	own.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) { counts.ServeMetrics(w, r, l) })
	return l, nil
}

// serveWatched serves a ledger that was opened with these counts, and also counts its requests.
// The gate decides which callers may read /metrics.
func serveWatched(l *ledger.Ledger, counts *metrics.Metrics, gate ledgerhttp.Holder) (http.Handler, error) {
	return ledgerhttp.New(l, ledgerhttp.Options{Gate: gate.Admit, Answered: counts.Answered, Metrics: counts.ServeMetrics})
}

// A host shows Prometheus what its ledger does, on a server of its own.
func Example() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	path := filepath.Join(dir, "panel.db")
	if err := ledger.Create(context.Background(), path, ledger.CreateOptions{}); err != nil {
		panic(err)
	}
	own := http.NewServeMux()
	l, err := watch(context.Background(), own, path)
	if err != nil {
		panic(err)
	}
	defer func() { _ = l.Close() }()
	if err := l.DefineQuestion(context.Background(), "define", api.Question{Name: "smoker", Values: []string{"yes", "no"}}); err != nil {
		panic(err)
	}
	answer := httptest.NewRecorder()
	own.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for line := range strings.Lines(answer.Body.String()) {
		if strings.HasPrefix(line, "sluice_questions_total") || strings.HasPrefix(line, "sluice_up") {
			fmt.Print(line)
		}
	}
	// Output:
	// sluice_questions_total 1
	// sluice_up 1
}

// The same ledger can be served, and its requests counted.
func Example_served() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	path := filepath.Join(dir, "panel.db")
	if err := ledger.Create(context.Background(), path, ledger.CreateOptions{}); err != nil {
		panic(err)
	}
	counts := metrics.New()
	l, err := ledger.Open(context.Background(), path, ledger.Options{Observer: counts})
	if err != nil {
		panic(err)
	}
	defer func() { _ = l.Close() }()
	handler, err := serveWatched(l, counts, ledgerhttp.Holder{Name: "prometheus", Role: "metrics"})
	if err != nil {
		panic(err)
	}
	for _, path := range []string{"/v1/stats", "/v1/questions", "/metrics"} {
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, path, nil))
		for line := range strings.Lines(answer.Body.String()) {
			if strings.HasPrefix(line, "sluice_http_request_seconds_count") {
				fmt.Print(line)
			}
		}
	}
	// Output:
	// sluice_http_request_seconds_count{route="questions",status="403"} 1
	// sluice_http_request_seconds_count{route="stats",status="200"} 1
}
