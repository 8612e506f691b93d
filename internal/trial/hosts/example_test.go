//go:build unix

package hosts

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/pgtest"
	"github.com/sluicedp/sluice/internal/testenv"
	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/journal/keyholder"
	"github.com/sluicedp/sluice/ledger/journal/pgjournal"
)

// openHere opens the ledger on host a, as a standby. Host b may lead, or take over.
func openHere(ctx context.Context, dir, database, b string) (*ledger.Ledger, error) {
	own, err := keyholder.OpenDirectory(filepath.Join(dir, "keys")) // closed with the process
	if err != nil {
		return nil, err
	}
	certificates, err := mutual(dir)
	if err != nil {
		return nil, err
	}
	other, err := keyholder.Dial("b", b, certificates)
	if err != nil {
		return nil, err
	}
	server := &http.Server{
		Addr: ":7443", Handler: keyholder.Handler(own), TLSConfig: certificates,
		ReadTimeout: 10 * time.Second, WriteTimeout: 10 * time.Second,
	}
	go server.ListenAndServeTLS("", "") // host b gets keys from here, and stores its own

	return ledger.Open(ctx, filepath.Join(dir, "panel.db"), ledger.Options{
		Standby: true,
		Journal: pgjournal.For(pgjournal.Options{
			Database: database, Host: "a", Keys: own, Others: []keyholder.Holder{other}, Synchronous: true,
		}),
	})
}

// mutual reads the certificate of this host, and the certificate of the authority that signed those
// of all hosts.
func mutual(dir string) (*tls.Config, error) {
	own, err := tls.LoadX509KeyPair(filepath.Join(dir, "host.pem"), filepath.Join(dir, "host.key"))
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(filepath.Join(dir, "authority.pem"))
	if err != nil {
		return nil, err
	}
	authority := x509.NewCertPool()
	if !authority.AppendCertsFromPEM(text) {
		return nil, errors.New("read authority.pem: it has no certificate")
	}
	return keyholder.Mutual(own, authority), nil
}

// The example in the documentation works.
func TestExampleOfTheDocumentation_Works(t *testing.T) {
	s := pgtest.Start(t)
	s.Standby(t, "one")
	s.SetSynchronous(t, "one")
	dir := testenv.TempDir(t)
	newFile(t, filepath.Join(dir, "panel.db"))
	authority := pgtest.NewAuthority(t)
	authority.Files(dir, "a")
	b := setting{Dir: filepath.Join(dir, "b"), Name: "b", Database: s.Address("postgres"), Listen: freeAddress(t), Peers: map[string]string{"a": "https://127.0.0.1:7443"}}
	check.Must(t, os.Mkdir(b.Dir, 0o700))
	authority.Files(b.Dir, "b")
	start(t, b)
	keys := newKeyDirectory(t)
	l := check.Value(ledger.Open(t.Context(), filepath.Join(dir, "panel.db"), ledger.Options{Journal: pgjournal.For(pgjournal.Options{
		Database: s.Address("postgres"), Host: "a", Keys: keys, Others: []keyholder.Holder{keys},
	})}))(t)
	check.Must(t, l.Close())
	l = check.Value(openHere(t.Context(), dir, s.Address("postgres"), "https://"+b.Listen))(t)
	l = check.Value(l.TakeOver(t.Context()))(t)
	check.Must(t, l.DefineQuestion(t.Context(), "another", api.Question{Name: "another", Values: []string{"yes", "no"}}))
	check.Must(t, l.Close())
}
