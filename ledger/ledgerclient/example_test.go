package ledgerclient_test

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"

	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/ledgerclient"
	"github.com/sluicedp/sluice/ledger/ledgerhttp"
	"github.com/sluicedp/sluice/privacy"
)

// mount has a host's own server serve the ledger, too, below /ledger.
func mount(own *http.ServeMux, l *ledger.Ledger, tokens string) error {
	gate, err := ledgerhttp.OpenTokens(tokens, nil)
	if err != nil {
		return err
	}
	handler, err := ledgerhttp.New(l, ledgerhttp.Options{Gate: gate})
	if err != nil {
		return err
	}
	own.Handle("/ledger/", http.StripPrefix("/ledger", handler))
	return nil
}

// releaseElsewhere asks a server for one person's response, as a program asks a ledger that it has
// open.
func releaseElsewhere(ctx context.Context, address, token, order, person, truth string, epsilon privacy.Epsilon) (string, error) {
	l, err := ledgerclient.Dial(ctx, address, ledgerclient.Options{Token: token})
	if err != nil {
		return "", err
	}
	response, err := l.Release(ctx, api.ReleaseRequest{Key: order, Question: "smoker", Object: person, Epsilon: epsilon, TrueValue: truth})
	return response.Value, err
}

// A host serves its ledger beside its own pages, and another program works with it.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	path := filepath.Join(dir, "panel.db")
	if err := ledger.Create(context.Background(), path, ledger.CreateOptions{}); err != nil {
		panic(err)
	}
	l, err := ledger.Open(context.Background(), path, ledger.Options{})
	if err != nil {
		panic(err)
	}
	defer func() { _ = l.Close() }()
	if err := l.DefineQuestion(ctx, "define", api.Question{Name: "smoker", Values: []string{"yes", "no"}}); err != nil {
		panic(err)
	}
	if _, err := l.Enroll(ctx, api.EnrollRequest{Key: "enrol", Question: "smoker", Objects: []string{"17"}, Cap: privacy.MustEpsilon("60")}); err != nil {
		panic(err)
	}

	token := rand.Text()
	tokens := fmt.Sprintf(`{"tokens":[{"name":"shop","role":"operator","sha256":"%x"}]}`, sha256.Sum256([]byte(token)))
	if err := os.WriteFile(path+".tokens", []byte(tokens), 0o600); err != nil {
		panic(err)
	}
	own := http.NewServeMux()
	if err := mount(own, l, path+".tokens"); err != nil {
		panic(err)
	}
	server := httptest.NewServer(own)
	defer server.Close()

	// At ε = 50 the response is the true value except with a probability of 10⁻²¹.
	fmt.Println(releaseElsewhere(ctx, server.URL+"/ledger", token, "order-1", "17", "no", privacy.MustEpsilon("50")))
	// Output: no <nil>
}
