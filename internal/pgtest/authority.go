package pgtest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Authority signs certificates for the hosts of a test.
type Authority struct {
	t    testing.TB
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
}

// NewAuthority returns an authority with a new key and a self-signed certificate.
func NewAuthority(t testing.TB) *Authority {
	t.Helper()
	a := &Authority{t: t}
	a.cert = a.Sign("authority", nil).Leaf
	return a
}

// Sign returns a certificate, with its key, for a host at 127.0.0.1 and the addresses at. It is
// valid for servers and clients, for an hour. If change is not nil, it may change the certificate
// before it is signed. The first call, by NewAuthority, makes the authority's own certificate.
func (a *Authority) Sign(name string, change func(*x509.Certificate), at ...net.IP) tls.Certificate {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	a.must(err)
	c := &x509.Certificate{
		Subject:     pkix.Name{CommonName: name},
		NotBefore:   time.Now().Add(-time.Hour),
		NotAfter:    time.Now().Add(time.Hour),
		DNSNames:    []string{name},
		IPAddresses: append(at, net.IPv4(127, 0, 0, 1)),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	parent, by := a.cert, a.key
	if parent == nil { // self-signed
		c.IsCA, c.BasicConstraintsValid, c.KeyUsage = true, true, x509.KeyUsageCertSign
		a.key, parent, by = key, c, key
	}
	if change != nil {
		change(c)
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, key.Public(), by)
	a.must(err)
	leaf, err := x509.ParseCertificate(der)
	a.must(err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

// Pool returns a pool that contains only the authority's certificate.
func (a *Authority) Pool() *x509.CertPool {
	p := x509.NewCertPool()
	p.AddCert(a.cert)
	return p
}

// Files signs a certificate for a host and writes it, its key and the authority's certificate to
// dir, as host.pem, host.key and authority.pem.
func (a *Authority) Files(dir, host string, at ...net.IP) {
	a.t.Helper()
	c := a.Sign(host, nil, at...)
	key, err := x509.MarshalECPrivateKey(c.PrivateKey.(*ecdsa.PrivateKey))
	a.must(err)
	for name, block := range map[string]*pem.Block{
		"host.pem": {Type: "CERTIFICATE", Bytes: c.Certificate[0]}, "host.key": {Type: "EC PRIVATE KEY", Bytes: key},
		"authority.pem": {Type: "CERTIFICATE", Bytes: a.cert.Raw},
	} {
		a.must(os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600))
	}
}

func (a *Authority) must(err error) {
	a.t.Helper()
	if err != nil {
		a.t.Fatal(err)
	}
}
