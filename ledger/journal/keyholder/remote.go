package keyholder

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/sluicedp/sluice/ledger/internal/wire"
)

const (
	mostBody      = 1 << 20 // bytes of a request or an answer
	versionHeader = "Sluice-Keyholder"
	version       = "2" // the header in each request and answer; anything else is not from a keyholder
)

// Mutual returns a TLS configuration for both sides. Each side presents a certificate, and trusts
// only certificates that the authority has signed. Use an authority only for hosts that may
// continue the journal: every holder of its certificates can read all keys.
func Mutual(own tls.Certificate, authority *x509.CertPool) *tls.Config {
	return &tls.Config{
		Certificates: []tls.Certificate{own},
		RootCAs:      authority,
		ClientCAs:    authority,
		ClientAuth:   tls.RequireAndVerifyClientCert,
		MinVersion:   tls.VersionTLS13,
	}
}

// Handler serves a holder to other hosts. It refuses every request without a certificate that the
// server has verified ([Mutual]). The caller must set the timeouts of the [http.Server].
//
//	PUT, GET  /JOURNAL/keys/7.2
//	PUT       /JOURNAL/kept
//	PUT       /JOURNAL/mark
//	GET       /JOURNAL/seen
//
// The body of a key is its bytes. Other bodies have the fields of the files of [OpenDirectory].
// Requests and answers have the version of this protocol in the header Sluice-Keyholder.
func Handler(h Holder) http.Handler {
	mux := http.NewServeMux()
	// handle registers a request. do decodes the body, calls h, and returns the body of the answer.
	// An error is answered with its status ([statusOf]) and its text.
	handle := func(pattern string, do func(r *http.Request, journal string, body []byte) (answer []byte, err error)) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set(versionHeader, version)
			body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, mostBody))
			var answer []byte
			if err != nil {
				err = fmt.Errorf("%w: the body of a request: %v", errInvalid, err)
			} else {
				answer, err = do(r, r.PathValue("journal"), body)
			}
			if err != nil {
				http.Error(w, err.Error(), statusOf(err))
				return
			}
			_, _ = w.Write(answer) // a caller that does not receive the answer repeats the call
		})
	}
	handle("PUT /{journal}/keys/{segment}", func(r *http.Request, journal string, body []byte) ([]byte, error) {
		s, err := parseSegment(r.PathValue("segment"))
		if err != nil {
			return nil, err
		}
		k, err := decoded(body, takeKey)
		if err != nil {
			return nil, err
		}
		return nil, h.Put(r.Context(), journal, s, k)
	})
	handle("GET /{journal}/keys/{segment}", func(r *http.Request, journal string, _ []byte) ([]byte, error) {
		s, err := parseSegment(r.PathValue("segment"))
		if err != nil {
			return nil, err
		}
		k, err := h.Get(r.Context(), journal, s)
		return k[:], err
	})
	handle("PUT /{journal}/kept", func(r *http.Request, journal string, body []byte) ([]byte, error) {
		k, err := decoded(body, takeKept)
		if err != nil {
			return nil, err
		}
		return nil, h.Keep(r.Context(), journal, k.below, k.live)
	})
	handle("PUT /{journal}/mark", func(r *http.Request, journal string, body []byte) ([]byte, error) {
		m, err := decoded(body, takeMark)
		if err != nil {
			return nil, err
		}
		return nil, h.Mark(r.Context(), journal, m)
	})
	handle("GET /{journal}/seen", func(r *http.Request, journal string, _ []byte) ([]byte, error) {
		highest, term, err := h.Seen(r.Context(), journal)
		return encoded(putSeen, seen{highest, term}), err
	})
	return verified(mux)
}

// seen has the results of [Holder.Seen].
type seen struct {
	highest Mark
	term    uint64
}

// putSeen encodes the results of Seen: the fields of the mark, and then the term.
func putSeen(e *wire.Encoder, s seen) {
	putMark(e, s.highest)
	e.U64(s.term)
}

// takeSeen decodes the results of Seen.
func takeSeen(d *wire.Decoder) (s seen) {
	s.highest = takeMark(d)
	s.term = d.U64()
	return s
}

// takeKey decodes a key, which has no other encoding than its bytes.
func takeKey(d *wire.Decoder) (k Key) {
	d.Array(k[:])
	return k
}

// decoded decodes a body with the function take. It returns an errInvalid if the body is too short,
// or has more bytes than take reads.
func decoded[T any](body []byte, take func(*wire.Decoder) T) (fields T, err error) {
	d := &wire.Decoder{Rest: body}
	fields = take(d)
	if err := d.Done(); err != nil {
		return fields, fmt.Errorf("%w: a body of %d bytes: %v", errInvalid, len(body), err)
	}
	return fields, nil
}

// verified returns a handler that passes on to next only requests with a certificate that the
// server has verified and with the version of this protocol. It answers others with 403 Forbidden
// and 400 Bad Request. The version is checked because bodies of version 1 are JSON, which could be
// misread as fields.
func verified(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.TLS == nil || len(r.TLS.VerifiedChains) == 0:
			http.Error(w, "a certificate of the authority is required", http.StatusForbidden)
		case r.Header.Get(versionHeader) != version:
			http.Error(w, "version "+version+" of the protocol of key holders is required", http.StatusBadRequest)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// statuses are the errors that have an HTTP status of their own.
func statuses() map[int]error {
	return map[int]error{
		http.StatusNotFound: ErrNoKey, http.StatusGone: ErrDestroyed, http.StatusConflict: errConflict,
		http.StatusBadRequest: errInvalid,
	}
}

// statusOf returns the HTTP status of an error: one of [statuses], or 500 for every other error.
func statusOf(err error) int {
	if errors.Is(err, ErrDestroyed) { // checked first, because it is an ErrNoKey, too
		return http.StatusGone
	}
	for status, is := range statuses() {
		if errors.Is(err, is) {
			return status
		}
	}
	return http.StatusInternalServerError
}

// remote is the [Holder] of another host, which serves it by [Handler].
type remote struct {
	name, base string // the name for people, and the URL
	client     http.Client
}

// Dial returns the holder of another host. base is a URL with the scheme https, such as
// "https://b.example:7443". name is for people. Dial itself does not connect; each call connects if
// it has to. Idle connections end after a minute, or with Close.
func Dial(name, base string, c *tls.Config) (Holder, error) {
	at, err := url.Parse(base)
	if err != nil || at.Scheme != "https" || at.Host == "" {
		return nil, fmt.Errorf("%w: the URL of %s, %q, is not an https URL", errInvalid, name, base)
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig, transport.Proxy = c.Clone(), nil
	transport.ForceAttemptHTTP2 = false // with HTTP/2, all calls would share one connection, and wait if it hangs
	// A map that is empty and not nil: otherwise the transport still negotiates HTTP/2.
	transport.TLSNextProto = map[string]func(string, *tls.Conn) http.RoundTripper{}
	transport.IdleConnTimeout = time.Minute
	return &remote{name: name, base: strings.TrimSuffix(base, "/"), client: http.Client{
		Transport: transport,
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return errors.New("a key holder does not redirect")
		},
	}}, nil
}

// Name returns the name that was passed to Dial.
func (r *remote) Name() string { return r.name }

// Close implements [Holder.Close]. It closes idle connections. Later calls still work, and connect
// again.
func (r *remote) Close() error {
	r.client.CloseIdleConnections()
	return nil
}

// Put implements [Holder.Put].
func (r *remote) Put(ctx context.Context, journal string, s Segment, k Key) error {
	_, err := r.call(ctx, http.MethodPut, journal, "keys/"+s.String(), k[:])
	return err
}

// Get implements [Holder.Get].
func (r *remote) Get(ctx context.Context, journal string, s Segment) (k Key, err error) {
	answer, err := r.call(ctx, http.MethodGet, journal, "keys/"+s.String(), nil)
	if err != nil {
		return k, err
	}
	return decoded(answer, takeKey)
}

// Keep implements [Holder.Keep].
func (r *remote) Keep(ctx context.Context, journal string, below Segment, live []Segment) error {
	_, err := r.call(ctx, http.MethodPut, journal, "kept", encoded(putKept, kept{below, live}))
	return err
}

// Mark implements [Holder.Mark].
func (r *remote) Mark(ctx context.Context, journal string, m Mark) error {
	_, err := r.call(ctx, http.MethodPut, journal, "mark", encoded(putMark, m))
	return err
}

// Seen implements [Holder.Seen].
func (r *remote) Seen(ctx context.Context, journal string) (highest Mark, term uint64, err error) {
	answer, err := r.call(ctx, http.MethodGet, journal, "seen", nil)
	if err != nil {
		return highest, 0, err
	}
	s, err := decoded(answer, takeSeen)
	return s.highest, s.term, err
}

// call sends a request about a journal to the other host, and returns the body of the answer. what
// is the end of the path, such as "keys/7.2". For a status that [statuses] lists, the error wraps
// the error of that status, such as [ErrNoKey]. An answer without the version of this protocol is
// an error, because it may be that of another server.
func (r *remote) call(ctx context.Context, method, journal, what string, body []byte) (answer []byte, err error) {
	if err := checkName(journal); err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, method, r.base+"/"+journal+"/"+what, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set(versionHeader, version)
	response, err := r.client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("the keys on host %s: %w", r.name, err)
	}
	defer response.Body.Close()
	answer, err = io.ReadAll(io.LimitReader(response.Body, mostBody))
	switch spoken := response.Header.Get(versionHeader); {
	case err != nil: // the body could not be read
	case spoken != version:
		err = fmt.Errorf("the answer %s is of version %.20q of the protocol, not %s: %.200q", response.Status, spoken,
			version, bytes.TrimSpace(answer))
	case response.StatusCode != http.StatusOK:
		err = fmt.Errorf("%s: %.200s", response.Status, bytes.TrimSpace(answer))
		if known := statuses()[response.StatusCode]; known != nil {
			err = fmt.Errorf("%w (%w)", known, err)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("the keys on host %s: %w", r.name, err)
	}
	return answer, nil
}
