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

	"github.com/sluicedp/sluice/internal/pgtest"
)

// serve shows a holder, and returns where.
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
	r, err := Dial("host b", url, c)
	must(t, err)
	t.Cleanup(func() { r.Close() })
	return r
}

func TestRemote(t *testing.T) {
	a := pgtest.NewAuthority(t)
	config := Mutual(a.Sign("host a", nil), a.Pool())
	testHolder(t, func(t *testing.T) func() Holder {
		open := reopening(t)
		return func() Holder { return dial(t, serve(t, Handler(open()), config), config) }
	})
}

// Nobody reads a key, or puts one, who does not show a certificate of the authority; nor does anybody send one to who does not.
func TestStrangersAreRefused(t *testing.T) {
	a, b := pgtest.NewAuthority(t), pgtest.NewAuthority(t)
	good := Mutual(a.Sign("host a", nil), a.Pool())
	late := a.Sign("late", func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) })
	calls := 0
	h := watched{reopening(t)(), func() { calls++ }}
	segment, key := Segment{Term: 1, Number: 1}, Key{7}
	must(t, h.Holder.Put(t.Context(), name, segment, key))

	none := &tls.Config{RootCAs: a.Pool()}
	lax := &tls.Config{Certificates: good.Certificates} // asks nobody for a certificate
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
		if err == nil || k == key || errors.Is(err, ErrNoKey) {
			t.Errorf("%s: %v", what, err)
		}
		if r.Put(t.Context(), name, segment, key) == nil || calls > 0 {
			t.Errorf("%s: the holder was called", what)
		}
	}
	if _, err := dial(t, serve(t, Handler(h), good), good).Get(t.Context(), name, segment); err != nil || calls != 1 {
		t.Errorf("who has a certificate: %v", err)
	}
	for _, url := range []string{"http://127.0.0.1:1", "127.0.0.1:1", "", "https://", "file:///x"} {
		wantErr(t, failed(Dial("b", url, good)), errInvalid, "Dial(%q)", url)
	}
}

// Plain HTTP is refused, even where somebody serves it.
func TestPlainHTTPIsRefused(t *testing.T) {
	h := watched{reopening(t)(), func() { t.Error("the holder was called") }}
	w := httptest.NewRecorder()
	Handler(h).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/"+name+"/seen", nil))
	if w.Code != http.StatusForbidden {
		t.Errorf("status %d", w.Code)
	}
}

// An answer that is none, a redirection, or too large, is an error: nobody takes it that a key is kept.
func TestWhatIsNoHolderIsAnError(t *testing.T) {
	a := pgtest.NewAuthority(t)
	c := Mutual(a.Sign("host a", nil), a.Pool())
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
		s := Segment{Term: 1, Number: 1}
		_, got := r.Get(t.Context(), name, s)
		_, _, seen := r.Seen(t.Context(), name)
		for call, err := range map[string]error{
			"Put": r.Put(t.Context(), name, s, Key{}), "Get": got, "Seen": seen,
			"Keep": r.Keep(t.Context(), name, s, nil), "Mark": r.Mark(t.Context(), name, Mark{Term: 1}),
		} {
			if err == nil || errors.Is(err, ErrNoKey) || !strings.Contains(err.Error(), "host b") {
				t.Errorf("%s: %s: %v", what, call, err)
			}
		}
	}
	for what, text := range map[string]string{"short": "short", "long": strings.Repeat("x", 33), "empty": ""} {
		r := dial(t, serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { own(w); fmt.Fprint(w, text) }), c), c)
		wantErr(t, failed(r.Get(t.Context(), name, Segment{Term: 1, Number: 1})), errInvalid, "a %s key", what)
		if _, _, err := r.Seen(t.Context(), name); !errors.Is(err, errInvalid) {
			t.Errorf("a %s answer: %v", what, err)
		}
	}
}

// What a host sends that cannot be is refused, and reaches no holder.
func TestBadRequestsAreRefused(t *testing.T) {
	a := pgtest.NewAuthority(t)
	c := Mutual(a.Sign("host a", nil), a.Pool())
	h := watched{reopening(t)(), func() { t.Error("the holder was called") }}
	url := serve(t, Handler(h), c)
	client := http.Client{Transport: &http.Transport{TLSClientConfig: c}}
	for what, body := range map[string]string{
		"PUT keys/1.1":    "short",
		"PUT keys/1":      strings.Repeat("k", 32),
		"PUT keys/1.1.1":  strings.Repeat("k", 32),
		"PUT keys/01.1":   strings.Repeat("k", 32),
		"PUT keys/1.+1":   strings.Repeat("k", 32),
		"PUT keys/-1.1":   strings.Repeat("k", 32),
		"GET keys/1.x":    "",
		"PUT keys/2.1":    strings.Repeat("k", 33),
		"PUT kept":        "",
		"PUT kept ":       strings.Repeat("k", 15),
		"PUT kept  ":      strings.Repeat("k", 33),
		"PUT mark":        strings.Repeat("m", 47),
		"PUT mark ":       strings.Repeat("m", 49),
		"PUT mark  ":      "",
		"PUT mark   ":     strings.Repeat(" ", 2<<20),
		"DELETE keys/1.1": "", "GET kept": "", "POST mark": "", "GET mark": "",
	} {
		words := strings.Fields(what)
		request, err := http.NewRequestWithContext(t.Context(), words[0], url+"/"+name+"/"+words[1], strings.NewReader(body))
		must(t, err)
		request.Header.Set("Sluice-Keyholder", "2")
		response, err := client.Do(request)
		must(t, err)
		response.Body.Close()
		if response.StatusCode != http.StatusBadRequest && response.StatusCode != http.StatusMethodNotAllowed {
			t.Errorf("%s %.60s: %s", what, body, response.Status)
		}
	}
}

// Version 1 said in JSON which keys are kept. Read as fields of version 2, such a body would keep no key.
func TestHandler_RequestOfAnotherVersion_IsRefused(t *testing.T) {
	a := pgtest.NewAuthority(t)
	c := Mutual(a.Sign("host a", nil), a.Pool())
	h := watched{reopening(t)(), func() { t.Error("the holder was called") }}
	url := serve(t, Handler(h), c)
	client := http.Client{Transport: &http.Transport{TLSClientConfig: c}}
	const kept = `{"below":{"Term":1,"Number":987654},"live":[{"Term":1,"Number":1}]}             `
	if len(kept)%16 != 0 {
		t.Fatalf("%d bytes are no segments", len(kept))
	}
	for _, version := range []string{"", "1", "3"} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPut, url+"/"+name+"/kept", strings.NewReader(kept))
		must(t, err)
		request.Header.Set("Sluice-Keyholder", version)
		response, err := client.Do(request)
		must(t, err)
		response.Body.Close()
		if response.StatusCode != http.StatusBadRequest {
			t.Errorf("version %q: %s", version, response.Status)
		}
	}
}

// A host that hangs holds nobody up longer than they want to wait.
func TestAHolderThatHangs(t *testing.T) {
	a := pgtest.NewAuthority(t)
	c := Mutual(a.Sign("host a", nil), a.Pool())
	over := make(chan struct{})
	r := dial(t, serve(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-over }), c), c)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := r.Put(ctx, name, Segment{Term: 1, Number: 1}, Key{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	close(over)
}

// watched is a holder that reports each call.
type watched struct {
	Holder
	called func()
}

func (w watched) Put(ctx context.Context, journal string, s Segment, k Key) error {
	w.called()
	return w.Holder.Put(ctx, journal, s, k)
}

func (w watched) Get(ctx context.Context, journal string, s Segment) (Key, error) {
	w.called()
	return w.Holder.Get(ctx, journal, s)
}

func (w watched) Keep(ctx context.Context, journal string, below Segment, live []Segment) error {
	w.called()
	return w.Holder.Keep(ctx, journal, below, live)
}

func (w watched) Mark(ctx context.Context, journal string, m Mark) error {
	w.called()
	return w.Holder.Mark(ctx, journal, m)
}

func (w watched) Seen(ctx context.Context, journal string) (Mark, uint64, error) {
	w.called()
	return w.Holder.Seen(ctx, journal)
}
