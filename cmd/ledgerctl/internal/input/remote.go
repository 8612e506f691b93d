package input

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/http"
	"os"
	"strings"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/output"
	"github.com/sluicedp/sluice/ledger/ledgerclient"
)

// Remote are the flags for a ledger that another process has open and serves.
type Remote struct {
	Address string `flag:"addr"`            // "" for none
	Token   string `flag:"token,reads"`     // the file with the token
	CA      string `flag:"addr-ca,reads"`   // the file with the authorities of the server
	Cert    string `flag:"addr-cert,reads"` // the file with the certificate of this client
	Key     string `flag:"addr-key,reads"`  // the file with the key of Cert
}

// Dial returns the ledger behind the address.
func (r *Remote) Dial(ctx context.Context, s *Files) (*ledgerclient.Client, error) {
	token, err := r.secret(ctx, s)
	if err != nil {
		return nil, err
	}
	config, err := r.tls(ctx, s)
	if err != nil {
		return nil, err
	}
	// No proxy: of what stands between, nobody may read.
	transport := &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true}
	return ledgerclient.Dial(ctx, r.Address, ledgerclient.Options{Token: token,
		HTTP: &http.Client{Transport: transport}})
}

// secret returns the token.
func (r *Remote) secret(ctx context.Context, s *Files) (string, error) {
	if r.Token == "" {
		return os.Getenv("LEDGER_TOKEN"), nil
	}
	if r.Token == "-" {
		return "", output.UsageError("", "--token cannot be standard input")
	}
	text, err := s.TextOrFile(ctx, "@"+r.Token, maxKey)
	if err != nil {
		return "", err
	}
	token := strings.TrimSpace(string(text))
	if token == "" || strings.ContainsAny(token, " \r\n\t") {
		return "", output.InputError(`"ledgerctl token add" prints one`, "--token: %q holds no token", r.Token)
	}
	WarnExposed(s.Out, r.Token)
	return token, nil
}

func (r *Remote) tls(ctx context.Context, s *Files) (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS13}
	if r.CA != "" {
		pool, err := Pool(ctx, s, "--addr-ca", r.CA)
		if err != nil {
			return nil, err
		}
		config.RootCAs = pool
	}
	switch {
	case (r.Cert == "") != (r.Key == ""):
		return nil, output.UsageError("", "--addr-cert and --addr-key go together")
	case r.Cert != "":
		pair, err := Pair(ctx, s, r.Cert, r.Key)
		if err != nil {
			return nil, output.InputError("", "--addr-cert, --addr-key: %w", err)
		}
		WarnExposed(s.Out, r.Key)
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// Pair reads a certificate and its key from two files.
func Pair(ctx context.Context, s *Files, cert, key string) (tls.Certificate, error) {
	if cert == "-" || key == "-" {
		return tls.Certificate{}, errors.New("a certificate and its key cannot be standard input")
	}
	shown, err := s.TextOrFile(ctx, "@"+cert, maxCertificates)
	if err != nil {
		return tls.Certificate{}, err
	}
	secret, err := s.TextOrFile(ctx, "@"+key, maxKey)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.X509KeyPair(shown, secret)
}

// Pool reads the certificates of a file that a flag names.
func Pool(ctx context.Context, s *Files, flag, path string) (*x509.CertPool, error) {
	text, err := s.TextOrFile(ctx, "@"+path, maxCertificates)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, output.InputError("", "%s: %q holds no certificates in PEM", flag, path)
	}
	return pool, nil
}

// maxCertificates is more than any file of certificates has, in bytes.
const maxCertificates = 4 << 20
