package keyholder

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/pgtest"
)

// serve serves a handler over TLS, and returns its URL.
func serve(t *testing.T, h http.Handler, c *tls.Config) string {
	s := httptest.NewUnstartedServer(h)
	s.Config.ErrorLog = log.New(bytes.NewBuffer(nil), "", 0)
	s.TLS = c
	s.StartTLS()
	t.Cleanup(s.Close)
	return s.URL
}

func dial(t *testing.T, url string, c *tls.Config) Holder {
	t.Helper()
	r := check.Value(Dial("host b", url, c))(t)
	t.Cleanup(func() { r.Close() })
	return r
}

// mutual returns the TLS configuration of hosts that trust each other.
func mutual(t *testing.T) *tls.Config {
	a := pgtest.NewAuthority(t)
	return Mutual(a.Sign("host a", nil), a.Pool())
}

// unreachable is a holder that no request may reach: each of its methods panics.
type unreachable struct{ Holder }

func TestRemote_Conformance(t *testing.T) {
	config := mutual(t)
	testHolder(t, func(t *testing.T) func() Holder {
		open := reopening(t)
		return func() Holder { return dial(t, serve(t, Handler(open()), config), config) }
	})
}

// A host without a certificate of the authority can neither read nor store a key. And no key is
// sent to a server without such a certificate.
func TestHandler_HostWithoutCertificate_IsRefused(t *testing.T) {
	a, b := pgtest.NewAuthority(t), pgtest.NewAuthority(t)
	good := Mutual(a.Sign("host a", nil), a.Pool())
	late := a.Sign("late", func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) })
	h, segment, key := reopening(t)(), Segment{Term: 1, Number: 1}, Key{7}
	check.Must(t, h.Put(t.Context(), name, segment, key))

	none := &tls.Config{RootCAs: a.Pool()}
	lax := &tls.Config{Certificates: good.Certificates} // requests no certificate
	asking := lax.Clone()
	asking.ClientAuth = tls.RequestClientCert // and does not verify it
	for what, c := range map[string]struct{ server, client *tls.Config }{
		"no certificate":                        {good, none},
		"of another authority":                  {good, Mutual(b.Sign("host a", nil), a.Pool())},
		"signed by itself":                      {good, &tls.Config{RootCAs: a.Pool(), Certificates: []tls.Certificate{b.Sign("x", nil)}}},
		"expired":                               {good, Mutual(late, a.Pool())},
		"a server of another authority":         {Mutual(b.Sign("host b", nil), a.Pool()), good},
		"an expired server":                     {Mutual(late, a.Pool()), good},
		"a server that asks for none":           {lax, good},
		"a server that asks, and verifies none": {asking, good},
	} {
		r := dial(t, serve(t, Handler(h), c.server), c.client)
		k, err := r.Get(t.Context(), name, segment)
		check.That(t, err != nil && k != key && !errors.Is(err, ErrNoKey), "%s: %v", what, err)
		other := Segment{Term: 1, Number: 2}
		check.That(t, r.Put(t.Context(), name, other, key) != nil &&
			errors.Is(check.Err(h.Get(t.Context(), name, other)), ErrNoKey), "%s: a key was put", what)
	}
	check.WantErr(t, check.Err(dial(t, serve(t, Handler(h), good), good).Get(t.Context(), name, segment)), nil, "a host with a certificate")
	for _, url := range []string{"http://127.0.0.1:1", "127.0.0.1:1", "", "https://", "file:///x"} {
		check.WantErr(t, check.Err(Dial("b", url, good)), errInvalid, "Dial(%q)", url)
	}
}

// Requests over plain HTTP are refused.
func TestHandler_PlainHTTP_IsRefused(t *testing.T) {
	w := httptest.NewRecorder()
	Handler(unreachable{}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/"+name+"/seen", nil))
	check.That(t, w.Code == http.StatusForbidden, "status %d", w.Code)
}

// An answer that is not one of a key holder, such as a redirection, or that has the wrong length,
// is an error. A caller must not conclude from it that a key is stored.
func TestRemote_InvalidAnswer_IsAnError(t *testing.T) {
	c := mutual(t)
	own := func(w http.ResponseWriter) { w.Header().Set("Sluice-Keyholder", "2") }
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a redirection is followed") }))
	defer elsewhere.Close()
	for what, answer := range map[string]http.HandlerFunc{
		"another server":  func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "welcome") },
		"a newer version": func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Sluice-Keyholder", "3") },
		"a redirection": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
		},
		"no content":       func(w http.ResponseWriter, _ *http.Request) { own(w); w.WriteHeader(http.StatusNoContent) },
		"a failure":        func(w http.ResponseWriter, _ *http.Request) { own(w); w.WriteHeader(http.StatusInternalServerError) },
		"an ended request": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	} {
		r := dial(t, serve(t, answer, c), c)
		for call, err := range calls(t.Context(), r, name) {
			check.That(t, err != nil && !errors.Is(err, ErrNoKey) && strings.Contains(err.Error(), "host b"),
				"%s: %s: %v", what, call, err)
		}
	}
	for what, text := range map[string]string{"short": "short", "long": strings.Repeat("x", 33), "empty": ""} {
		r := dial(t, serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { own(w); fmt.Fprint(w, text) }), c), c)
		check.WantErr(t, check.Err(r.Get(t.Context(), name, Segment{Term: 1, Number: 1})), errInvalid, "a %s key", what)
		_, _, err := r.Seen(t.Context(), name)
		check.WantErr(t, err, errInvalid, "a %s answer", what)
	}
}

// An invalid request is refused before it reaches the holder. So is a body of version 1: its JSON,
// read as fields of version 2, would destroy all keys.
func TestHandler_InvalidRequest_IsRefused(t *testing.T) {
	c := mutual(t)
	url := serve(t, Handler(unreachable{}), c)
	client := http.Client{Transport: &http.Transport{TLSClientConfig: c}}
	refused := func(version, method, path, body string) {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), method, url+"/"+name+"/"+path, strings.NewReader(body))
		check.Must(t, err)
		request.Header.Set("Sluice-Keyholder", version)
		response := check.Value(client.Do(request))(t)
		response.Body.Close()
		if response.StatusCode != http.StatusBadRequest && response.StatusCode != http.StatusMethodNotAllowed {
			t.Errorf("version %q, %s %s %.60s: %s", version, method, path, body, response.Status)
		}
	}
	for _, path := range []string{"keys/1", "keys/1.1.1", "keys/01.1", "keys/1.+1", "keys/-1.1"} {
		refused("2", "PUT", path, strings.Repeat("k", 32))
	}
	for path, lengths := range map[string][]int{"keys/1.1": {5, 33}, "kept": {0, 15, 33}, "mark": {0, 47, 49, 2 << 20}} {
		for _, n := range lengths {
			refused("2", "PUT", path, strings.Repeat("k", n))
		}
	}
	refused("2", "DELETE", "keys/1.1", "")
	for _, path := range []string{"keys/1.x", "kept", "mark"} {
		refused("2", "GET", path, "")
	}
	refused("2", "POST", "mark", "")
	const kept = `{"below":{"Term":1,"Number":987654},"live":[{"Term":1,"Number":1}]}             `
	check.Need(t, len(kept)%16 == 0, "%d bytes are no segments", len(kept))
	for _, version := range []string{"", "1", "3"} {
		refused(version, "PUT", "kept", kept)
	}
}

// A call to a host that hangs ends with its context.
func TestRemote_HostHangs_EndsWithTheContext(t *testing.T) {
	c := mutual(t)
	over := make(chan struct{})
	r := dial(t, serve(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-over }), c), c)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	check.WantErr(t, r.Put(ctx, name, Segment{Term: 1, Number: 1}, Key{}), context.DeadlineExceeded, "Put")
	close(over)
}
