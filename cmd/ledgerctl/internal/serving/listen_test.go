package serving

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/input"
	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/output"
	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/testenv"
)

// issued writes a certificate, signed by parent or by itself, and its key.
func issued(t *testing.T, dir, name string, parent *tls.Certificate) (cert, key string, pair tls.Certificate) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check.Must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}, IsCA: parent == nil, BasicConstraintsValid: true,
	}
	by, signer := template, any(private)
	if parent != nil {
		by, err = x509.ParseCertificate(parent.Certificate[0])
		check.Must(t, err)
		signer = parent.PrivateKey
	}
	der, err := x509.CreateCertificate(rand.Reader, template, by, &private.PublicKey, signer)
	check.Must(t, err)
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	check.Must(t, err)
	cert, key = filepath.Join(dir, name+".crt"), filepath.Join(dir, name+".key")
	check.Must(t, os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	check.Must(t, os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), 0o600))
	pair, err = tls.LoadX509KeyPair(cert, key)
	check.Must(t, err)
	return cert, key, pair
}

func noFiles() *input.Files { return &input.Files{Out: &output.Printer{Quiet: true}} }

// With TLS, a client rejects a server of an unknown authority. With mutual TLS, the server also
// rejects such a client. A renewed certificate is used at once.
func TestListenOn_TLS_RequiresCertificates(t *testing.T) {
	dir := testenv.TempDir(t)
	_, _, ca := issued(t, dir, "ca", nil)
	_, _, otherCA := issued(t, dir, "other", nil)
	cert, key, _ := issued(t, dir, "server", &ca)
	_, _, client := issued(t, dir, "client", &ca)
	_, _, stranger := issued(t, dir, "stranger", &otherCA)
	pool := x509.NewCertPool()
	root, err := x509.ParseCertificate(ca.Certificate[0])
	check.Must(t, err)
	pool.AddCert(root)
	get := func(address string, config *tls.Config) error {
		c := &http.Client{Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}}
		response, err := c.Get("https://" + address)
		if err == nil {
			err = response.Body.Close()
		}
		return err
	}
	serve := func(s tlsFiles) string {
		l, err := listenOn(t.Context(), "127.0.0.1:0", s, noFiles(), unbounded)
		check.Must(t, err)
		server := &http.Server{Handler: http.NotFoundHandler()}
		go func() { _ = server.Serve(l) }()
		t.Cleanup(func() { _ = server.Close() })
		return l.Addr().String()
	}
	address := serve(tlsFiles{Cert: cert, Key: key})
	check.Must(t, get(address, &tls.Config{RootCAs: pool}))
	if get(address, &tls.Config{RootCAs: x509.NewCertPool()}) == nil || get(address, &tls.Config{RootCAs: pool, MaxVersion: tls.VersionTLS12}) == nil {
		t.Error("a client accepts an unknown authority, or TLS 1.2")
	}
	mutual := serve(tlsFiles{Cert: cert, Key: key, ClientCA: filepath.Join(dir, "ca.crt")})
	check.Must(t, get(mutual, &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{client}}))
	if get(mutual, &tls.Config{RootCAs: pool}) == nil || get(mutual, &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{stranger}}) == nil {
		t.Error("the server accepts a client without a certificate of its authority")
	}
	issued(t, dir, "server", &otherCA)
	check.That(t, get(address, &tls.Config{RootCAs: pool}) != nil, "a replaced certificate is still used")
}

// Addresses of other machines need TLS, and invalid files and addresses are refused.
func TestListenOn_UnsafeAddresses_AreRefused(t *testing.T) {
	dir := testenv.TempDir(t)
	cert, key, _ := issued(t, dir, "server", nil)
	pipe := filepath.Join(dir, "pipe")
	check.Must(t, makePipe(pipe))
	for _, c := range []struct {
		address string
		s       tlsFiles
	}{
		{"0.0.0.0:0", tlsFiles{}}, {":0", tlsFiles{}}, {"10.0.0.1:0", tlsFiles{}}, {"example.com:0", tlsFiles{}}, {"", tlsFiles{}}, {"127.0.0.1", tlsFiles{}},
		{"127.0.0.1:0", tlsFiles{Cert: cert}}, {"127.0.0.1:0", tlsFiles{Key: key}}, {"127.0.0.1:0", tlsFiles{ClientCA: cert}}, {"127.0.0.1:0", tlsFiles{Cert: key, Key: cert}},
		{"127.0.0.1:0", tlsFiles{Cert: cert, Key: key, ClientCA: key}}, {"unix:" + filepath.Join(dir, "s"), tlsFiles{Cert: cert, Key: key}}, {"unix:" + cert, tlsFiles{}},
		{"unix:", tlsFiles{}}, {"127.0.0.1:0", tlsFiles{Cert: pipe, Key: key}}, {"127.0.0.1:0", tlsFiles{Cert: cert, Key: pipe}}, {"unix:@sluice-test", tlsFiles{}}, {"unix:\x00sluice-test", tlsFiles{}},
	} {
		l, err := listenOn(t.Context(), c.address, c.s, noFiles(), unbounded)
		if err == nil {
			t.Errorf("%q with %+v is open", c.address, c.s)
			_ = l.Close()
		}
		if classed := (*output.Error)(nil); !errors.As(err, &classed) || classed.Code != output.ExitMisuse {
			t.Errorf("%q with %+v: %v", c.address, c.s, err)
		}
	}
}

func TestListenUnix_UnusablePath_ErrorHasItsKind(t *testing.T) {
	dir, err := os.MkdirTemp("", "l") // a socket's path is short
	check.Must(t, err)
	defer func() { _ = os.RemoveAll(dir) }()
	l, err := ListenUnix(filepath.Join(dir, "s"))
	check.Must(t, err)
	defer func() { _ = l.Close() }()
	check.Must(t, os.WriteFile(filepath.Join(dir, "file"), nil, 0o600))
	for name, want := range map[string]string{"s": "in-use", "file": "exists", "no/s": "not-found"} {
		_, err := ListenUnix(filepath.Join(dir, name))
		report, _ := output.Explain(err)
		check.That(t, err != nil && report.Kind == want, "%s: %v, kind %q; want %q", name, err, report.Kind, want)
		if want == "not-found" {
			check.That(t, strings.HasPrefix(report.Message, "cannot create the socket "), "%v", err)
		}
	}
}

// unbounded returns the listener without limits.
func unbounded(l net.Listener) net.Listener { return l }
