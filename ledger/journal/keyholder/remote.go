package keyholder

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

const (
	mostBody = 1 << 20 // bytes of a request or an answer
	speaks   = "Sluice-Keyholder"
	version  = "1" // under that header, in each answer: else something else has answered
)

// Mutual returns a configuration for both ends: each shows a certificate, and trusts only those
// that an authority has signed. Use an authority for hosts that may go on with the journal, and for
// nothing else: whoever has a certificate of it may read all keys.
func Mutual(own tls.Certificate, authority *x509.CertPool) *tls.Config {
	return &tls.Config{
		Certificates: []tls.Certificate{own},
		RootCAs:      authority,
		ClientCAs:    authority,
		ClientAuth:   tls.RequireAndVerifyClientCert,
		MinVersion:   tls.VersionTLS13,
	}
}

// The bodies of requests and answers, as JSON. A key is its bytes.
type (
	keepBody struct {
		Below Segment   `json:"below"`
		Live  []Segment `json:"live"`
	}
	markBody struct {
		Term   uint64 `json:"term"`
		Events uint64 `json:"events"`
		Root   string `json:"root"` // 64 hexadecimal digits
	}
	seenBody struct {
		Mark markBody `json:"mark"`
		Term uint64   `json:"term"`
	}
)

func bodyOf(m Mark) markBody {
	return markBody{m.Term, m.Position.Events, hex.EncodeToString(m.Position.Root[:])}
}

func (b markBody) mark() (m Mark, err error) {
	root, err := hex.DecodeString(b.Root)
	if err != nil || len(root) != len(m.Position.Root) {
		return m, fmt.Errorf("%w: root %.70q", ErrInvalid, b.Root)
	}
	m.Term, m.Position.Events = b.Term, b.Events
	copy(m.Position.Root[:], root)
	return m, nil
}

// Handler shows a holder to other hosts. It refuses every request that does not come with a
// certificate which the server has verified ([Mutual]). Set the timeouts of the [http.Server], as
// of any.
//
//	PUT, GET  /JOURNAL/keys/7.2
//	PUT       /JOURNAL/kept
//	PUT       /JOURNAL/mark
//	GET       /JOURNAL/seen
func Handler(h Holder) http.Handler {
	mux := http.NewServeMux()
	handle := func(pattern string, do func(*http.Request) (answer []byte, err error)) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set(speaks, version)
			r.Body = http.MaxBytesReader(w, r.Body, mostBody)
			answer, err := do(r)
			if err != nil {
				http.Error(w, err.Error(), statusOf(err))
				return
			}
			_, _ = w.Write(answer) // who does not get it asks again
		})
	}
	handle("PUT /{journal}/keys/{segment}", func(r *http.Request) ([]byte, error) {
		s, err := ParseSegment(r.PathValue("segment"))
		if err != nil {
			return nil, err
		}
		k, err := readKey(r.Body)
		if err != nil {
			return nil, err
		}
		return nil, h.Put(r.Context(), r.PathValue("journal"), s, k)
	})
	handle("GET /{journal}/keys/{segment}", func(r *http.Request) ([]byte, error) {
		s, err := ParseSegment(r.PathValue("segment"))
		if err != nil {
			return nil, err
		}
		k, err := h.Get(r.Context(), r.PathValue("journal"), s)
		return k[:], err
	})
	handle("PUT /{journal}/kept", func(r *http.Request) ([]byte, error) {
		var b keepBody
		if err := decode(r.Body, &b); err != nil {
			return nil, err
		}
		return nil, h.Keep(r.Context(), r.PathValue("journal"), b.Below, b.Live)
	})
	handle("PUT /{journal}/mark", func(r *http.Request) ([]byte, error) {
		var b markBody
		if err := decode(r.Body, &b); err != nil {
			return nil, err
		}
		m, err := b.mark()
		if err != nil {
			return nil, err
		}
		return nil, h.Mark(r.Context(), r.PathValue("journal"), m)
	})
	handle("GET /{journal}/seen", func(r *http.Request) ([]byte, error) {
		seen, err := h.Seen(r.Context(), r.PathValue("journal"))
		if err != nil {
			return nil, err
		}
		return json.Marshal(seenBody{bodyOf(seen.Mark), seen.Term})
	})
	return verified(mux)
}

// verified lets through only who has shown a certificate that was verified.
func verified(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 {
			http.Error(w, "only for hosts with a certificate of the authority", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// readKey reads a key and nothing else.
func readKey(r io.Reader) (k Key, err error) {
	b, err := io.ReadAll(io.LimitReader(r, int64(len(k))+1))
	if err == nil && len(b) != len(k) {
		err = fmt.Errorf("%w: a key of %d bytes", ErrInvalid, len(b))
	}
	copy(k[:], b)
	return k, err
}

// decode reads one JSON value of known fields and nothing else.
func decode(r io.Reader, into any) error {
	d := json.NewDecoder(r)
	d.DisallowUnknownFields()
	err := d.Decode(into)
	if err == nil {
		if _, err = d.Token(); errors.Is(err, io.EOF) {
			return nil
		}
	}
	return fmt.Errorf("%w: the body of a request: %v", ErrInvalid, err)
}

// statuses are the errors that a caller tells apart.
func statuses() map[int]error {
	return map[int]error{
		http.StatusNotFound: ErrNoKey, http.StatusGone: ErrDestroyed, http.StatusConflict: ErrConflict,
		http.StatusBadRequest: ErrInvalid,
	}
}

func statusOf(err error) int {
	if errors.Is(err, ErrDestroyed) { // which is an ErrNoKey, too
		return http.StatusGone
	}
	for status, is := range statuses() {
		if errors.Is(err, is) {
			return status
		}
	}
	return http.StatusInternalServerError
}

// Remote is the [Holder] of another host, which shows it by [Handler].
type Remote struct {
	name, base string
	client     http.Client
}

var _ Holder = (*Remote)(nil)

// Dial returns the holder at a URL that begins with https, such as "https://b.example:7443". It
// connects when it is asked for something. name is for people.
func Dial(name, base string, c *tls.Config) (*Remote, error) {
	at, err := url.Parse(base)
	if err != nil || at.Scheme != "https" || at.Host == "" {
		return nil, fmt.Errorf("%w: the URL of %s, %q, is none of https", ErrInvalid, name, base)
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig, transport.Proxy = c.Clone(), nil
	transport.ForceAttemptHTTP2 = false // one connection that hangs would hold up all calls
	transport.TLSNextProto = map[string]func(string, *tls.Conn) http.RoundTripper{}
	transport.IdleConnTimeout = time.Minute
	return &Remote{name: name, base: strings.TrimSuffix(base, "/"), client: http.Client{
		Transport: transport,
		CheckRedirect: func(*http.Request,
			[]*http.Request) error {
			return errors.New("a holder does not send elsewhere")
		},
	}}, nil
}

// Name is what was given to Dial.
func (r *Remote) Name() string { return r.name }

// Close closes connections that nobody uses.
func (r *Remote) Close() error {
	r.client.CloseIdleConnections()
	return nil
}

// Put is [Holder.Put].
func (r *Remote) Put(ctx context.Context, journal string, s Segment, k Key) error {
	_, err := r.call(ctx, http.MethodPut, journal, "keys/"+s.String(), k[:])
	return err
}

// Get is [Holder.Get].
func (r *Remote) Get(ctx context.Context, journal string, s Segment) (k Key, err error) {
	b, err := r.call(ctx, http.MethodGet, journal, "keys/"+s.String(), nil)
	if err == nil {
		k, err = readKey(bytes.NewReader(b))
	}
	return k, err
}

// Keep is [Holder.Keep].
func (r *Remote) Keep(ctx context.Context, journal string, below Segment, live []Segment) error {
	return r.put(ctx, journal, "kept", keepBody{below, live})
}

// Mark is [Holder.Mark].
func (r *Remote) Mark(ctx context.Context, journal string, m Mark) error {
	return r.put(ctx, journal, "mark", bodyOf(m))
}

// Seen is [Holder.Seen].
func (r *Remote) Seen(ctx context.Context, journal string) (seen Seen, err error) {
	b, err := r.call(ctx, http.MethodGet, journal, "seen", nil)
	if err != nil {
		return seen, err
	}
	var body seenBody
	if err := decode(bytes.NewReader(b), &body); err != nil {
		return seen, err
	}
	seen.Term = body.Term
	seen.Mark, err = body.Mark.mark()
	return seen, err
}

func (r *Remote) put(ctx context.Context, journal, what string, body any) error {
	b, err := json.Marshal(body)
	if err == nil {
		_, err = r.call(ctx, http.MethodPut, journal, what, b)
	}
	return err
}

// call makes a request, and returns the body of the answer.
func (r *Remote) call(ctx context.Context, method, journal, what string, body []byte) (answer []byte, err error) {
	if err := CheckName(journal); err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, method, r.base+"/"+journal+"/"+what, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	response, err := r.client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("the keys with %s: %w", r.name, err)
	}
	defer response.Body.Close()
	answer, err = io.ReadAll(io.LimitReader(response.Body, mostBody))
	switch spoken := response.Header.Get(speaks); {
	case err != nil:
	case spoken != version:
		err = fmt.Errorf("it answers %s, and not as a keyholder of version %s, but %.20q: %.200q", response.Status,
			version, spoken, bytes.TrimSpace(answer))
	case response.StatusCode != http.StatusOK:
		err = fmt.Errorf("%s: %.200s", response.Status, bytes.TrimSpace(answer))
		if known := statuses()[response.StatusCode]; known != nil {
			err = fmt.Errorf("%w (%w)", known, err)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("the keys with %s: %w", r.name, err)
	}
	return answer, nil
}
