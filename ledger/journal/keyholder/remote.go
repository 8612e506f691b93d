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
	mostBody = 1 << 20 // bytes of a request or an answer
	speaks   = "Sluice-Keyholder"
	version  = "2" // under that header, in each request and answer: else something else has sent it
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

// Handler shows a holder to other hosts. It refuses every request that does not come with a
// certificate which the server has verified ([Mutual]). Set the timeouts of the [http.Server], as
// of any.
//
//	PUT, GET  /JOURNAL/keys/7.2
//	PUT       /JOURNAL/kept
//	PUT       /JOURNAL/mark
//	GET       /JOURNAL/seen
//
// A key is its bytes; other bodies have the fields of the files of [OpenDirectory]. Requests and
// answers have the version of this protocol in their header Sluice-Keyholder.
func Handler(h Holder) http.Handler {
	mux := http.NewServeMux()
	handle := func(pattern string, do func(r *http.Request, journal string, body []byte) (answer []byte, err error)) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set(speaks, version)
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
			_, _ = w.Write(answer) // a caller that does not get it asks again
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

// seen is what [Holder.Seen] returns.
type seen struct {
	highest Mark
	term    uint64
}

func putSeen(e *wire.Encoder, s seen) {
	putMark(e, s.highest)
	e.U64(s.term)
}

func takeSeen(d *wire.Decoder) (s seen) {
	s.highest = takeMark(d)
	s.term = d.U64()
	return s
}

func takeKey(d *wire.Decoder) (k Key) {
	d.Array(k[:])
	return k
}

// decoded returns the fields of a body, which has nothing else.
func decoded[T any](body []byte, take func(*wire.Decoder) T) (fields T, err error) {
	d := &wire.Decoder{Rest: body}
	fields = take(d)
	if err := d.Done(); err != nil {
		return fields, fmt.Errorf("%w: a body of %d bytes: %v", errInvalid, len(body), err)
	}
	return fields, nil
}

// verified lets through only requests with a certificate that was verified, of this version: the
// bodies of version 1 are JSON, which might be taken for fields.
func verified(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.TLS == nil || len(r.TLS.VerifiedChains) == 0:
			http.Error(w, "only for hosts with a certificate of the authority", http.StatusForbidden)
		case r.Header.Get(speaks) != version:
			http.Error(w, "only for keyholders of version "+version, http.StatusBadRequest)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// statuses are the errors that a caller tells apart.
func statuses() map[int]error {
	return map[int]error{
		http.StatusNotFound: ErrNoKey, http.StatusGone: ErrDestroyed, http.StatusConflict: errConflict,
		http.StatusBadRequest: errInvalid,
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

// remote is the [Holder] of another host, which serves it by [Handler].
type remote struct {
	name, base string
	client     http.Client
}

// Dial returns the holder of another host, at a URL that begins with https, such as
// "https://b.example:7443". Each call connects when it has to. Close closes idle connections, which
// also end after a minute. name is for people.
func Dial(name, base string, c *tls.Config) (Holder, error) {
	at, err := url.Parse(base)
	if err != nil || at.Scheme != "https" || at.Host == "" {
		return nil, fmt.Errorf("%w: the URL of %s, %q, is none of https", errInvalid, name, base)
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig, transport.Proxy = c.Clone(), nil
	transport.ForceAttemptHTTP2 = false // one connection that hangs would hold up all calls
	transport.TLSNextProto = map[string]func(string, *tls.Conn) http.RoundTripper{}
	transport.IdleConnTimeout = time.Minute
	return &remote{name: name, base: strings.TrimSuffix(base, "/"), client: http.Client{
		Transport: transport,
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return errors.New("a holder does not send elsewhere")
		},
	}}, nil
}

// Name is what was given to Dial.
func (r *remote) Name() string { return r.name }

// Close is [Holder.Close].
func (r *remote) Close() error {
	r.client.CloseIdleConnections()
	return nil
}

// Put is [Holder.Put].
func (r *remote) Put(ctx context.Context, journal string, s Segment, k Key) error {
	_, err := r.call(ctx, http.MethodPut, journal, "keys/"+s.String(), k[:])
	return err
}

// Get is [Holder.Get].
func (r *remote) Get(ctx context.Context, journal string, s Segment) (k Key, err error) {
	answer, err := r.call(ctx, http.MethodGet, journal, "keys/"+s.String(), nil)
	if err != nil {
		return k, err
	}
	return decoded(answer, takeKey)
}

// Keep is [Holder.Keep].
func (r *remote) Keep(ctx context.Context, journal string, below Segment, live []Segment) error {
	_, err := r.call(ctx, http.MethodPut, journal, "kept", encoded(putKept, kept{below, live}))
	return err
}

// Mark is [Holder.Mark].
func (r *remote) Mark(ctx context.Context, journal string, m Mark) error {
	_, err := r.call(ctx, http.MethodPut, journal, "mark", encoded(putMark, m))
	return err
}

// Seen is [Holder.Seen].
func (r *remote) Seen(ctx context.Context, journal string) (highest Mark, term uint64, err error) {
	answer, err := r.call(ctx, http.MethodGet, journal, "seen", nil)
	if err != nil {
		return highest, 0, err
	}
	s, err := decoded(answer, takeSeen)
	return s.highest, s.term, err
}

// call makes a request, and returns the body of the answer.
func (r *remote) call(ctx context.Context, method, journal, what string, body []byte) (answer []byte, err error) {
	if err := checkName(journal); err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, method, r.base+"/"+journal+"/"+what, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set(speaks, version)
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
