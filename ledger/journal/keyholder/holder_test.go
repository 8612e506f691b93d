package keyholder_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluicedp/sluice/internal/pace"
	"github.com/sluicedp/sluice/ledger/journal"
	"github.com/sluicedp/sluice/ledger/journal/keyholder"
	"github.com/sluicedp/sluice/ledger/journal/keyholder/keyholdertest"
)

const name = "test:00112233445566778899aabbccddeeff"

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// reopening opens a directory each time anew.
func reopening(t *testing.T) func() *keyholder.Directory {
	path := filepath.Join(pace.Scratch(t), "keys")
	var d *keyholder.Directory
	t.Cleanup(func() { d.Close() })
	return func() *keyholder.Directory {
		if d != nil {
			must(t, d.Close())
		}
		var err error
		d, err = keyholder.OpenDirectory(path)
		must(t, err)
		return d
	}
}

func TestDirectory(t *testing.T) {
	keyholdertest.Run(t, func(t *testing.T) func() keyholder.Holder {
		open := reopening(t)
		return func() keyholder.Holder { return open() }
	})
}

// authority signs certificates.
type authority struct {
	*testing.T
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
}

func newAuthority(t *testing.T) *authority {
	a := &authority{T: t}
	root := a.sign("authority", nil)
	a.cert = root.Leaf
	return a
}

// sign makes a certificate, or that of the authority itself.
func (a *authority) sign(name string, change func(*x509.Certificate)) tls.Certificate {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(a.T, err)
	number, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	must(a.T, err)
	c := &x509.Certificate{
		SerialNumber: number, Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		DNSNames: []string{name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	parent, by := a.cert, a.key
	if parent == nil {
		c.IsCA, c.BasicConstraintsValid, c.KeyUsage = true, true, x509.KeyUsageCertSign
		a.key, parent, by = key, c, key
	}
	if change != nil {
		change(c)
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, key.Public(), by)
	must(a.T, err)
	leaf, err := x509.ParseCertificate(der)
	must(a.T, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

func (a *authority) pool() *x509.CertPool {
	p := x509.NewCertPool()
	p.AddCert(a.cert)
	return p
}

// serve shows a holder, and returns where.
func (a *authority) serve(h http.Handler, c *tls.Config) string {
	s := httptest.NewUnstartedServer(h)
	s.Config.ErrorLog = log.New(bytes.NewBuffer(nil), "", 0)
	s.TLS = c
	s.StartTLS()
	a.Cleanup(s.Close)
	return s.URL
}

func dial(t *testing.T, url string, c *tls.Config) *keyholder.Remote {
	t.Helper()
	r, err := keyholder.Dial("host b", url, c)
	must(t, err)
	t.Cleanup(func() { r.Close() })
	return r
}

func TestRemote(t *testing.T) {
	a := newAuthority(t)
	config := keyholder.Mutual(a.sign("host a", nil), a.pool())
	keyholdertest.Run(t, func(t *testing.T) func() keyholder.Holder {
		open := reopening(t)
		here := &authority{T: t}
		return func() keyholder.Holder { return dial(t, here.serve(keyholder.Handler(open()), config), config) }
	})
}

// Nobody reads a key, or puts one, who does not show a certificate of the authority; nor does anybody send one to who does not.
func TestStrangersAreRefused(t *testing.T) {
	a, b := newAuthority(t), newAuthority(t)
	good := keyholder.Mutual(a.sign("host a", nil), a.pool())
	late := a.sign("late", func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) })
	h := keyholdertest.NewMemory("b")
	segment, key := keyholder.Segment{Term: 1, Number: 1}, keyholder.Key{7}
	must(t, h.Put(t.Context(), name, segment, key))
	calls := 0
	h.Inject(func(string) error { calls++; return nil })

	none := &tls.Config{RootCAs: a.pool()}
	lax := &tls.Config{Certificates: good.Certificates} // asks nobody for a certificate
	asking := lax.Clone()
	asking.ClientAuth = tls.RequestClientCert // and does not verify it
	for what, c := range map[string]struct{ server, client *tls.Config }{
		"no certificate":                        {good, none},
		"of another authority":                  {good, keyholder.Mutual(b.sign("host a", nil), a.pool())},
		"signed by itself":                      {good, &tls.Config{RootCAs: a.pool(), Certificates: []tls.Certificate{b.sign("x", nil)}}},
		"expired":                               {good, keyholder.Mutual(late, a.pool())},
		"a server of another authority":         {keyholder.Mutual(b.sign("host b", nil), a.pool()), good},
		"an expired server":                     {keyholder.Mutual(late, a.pool()), good},
		"a server that asks for none":           {lax, good},
		"a server that asks, and verifies none": {asking, good},
	} {
		r := dial(t, a.serve(keyholder.Handler(h), c.server), c.client)
		k, err := r.Get(t.Context(), name, segment)
		if err == nil || k == key || errors.Is(err, keyholder.ErrNoKey) {
			t.Errorf("%s: %v", what, err)
		}
		if r.Put(t.Context(), name, segment, key) == nil || calls > 0 {
			t.Errorf("%s: the holder was called", what)
		}
	}
	if _, err := dial(t, a.serve(keyholder.Handler(h), good), good).Get(t.Context(), name, segment); err != nil || calls != 1 {
		t.Errorf("who has a certificate: %v", err)
	}
	for _, url := range []string{"http://127.0.0.1:1", "127.0.0.1:1", "", "https://", "file:///x"} {
		if _, err := keyholder.Dial("b", url, good); !errors.Is(err, keyholder.ErrInvalid) {
			t.Errorf("Dial(%q): %v", url, err)
		}
	}
}

// Plain HTTP is refused, even where somebody serves it.
func TestPlainHTTPIsRefused(t *testing.T) {
	h := keyholdertest.NewMemory("b")
	h.Inject(func(string) error { t.Error("the holder was called"); return nil })
	w := httptest.NewRecorder()
	keyholder.Handler(h).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/"+name+"/seen", nil))
	if w.Code != http.StatusForbidden {
		t.Errorf("status %d", w.Code)
	}
}

// An answer that is none, a redirection, or too large, is an error: nobody takes it that a key is kept.
func TestWhatIsNoHolderIsAnError(t *testing.T) {
	a := newAuthority(t)
	c := keyholder.Mutual(a.sign("host a", nil), a.pool())
	own := func(w http.ResponseWriter) { w.Header().Set("Sluice-Keyholder", "1") }
	for what, answer := range map[string]http.HandlerFunc{
		"another server":   func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "welcome") },
		"a newer version":  func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Sluice-Keyholder", "2") },
		"a redirection":    func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "https://127.0.0.1:1/", 307) },
		"no content":       func(w http.ResponseWriter, _ *http.Request) { own(w); w.WriteHeader(http.StatusNoContent) },
		"a failure":        func(w http.ResponseWriter, _ *http.Request) { own(w); w.WriteHeader(http.StatusInternalServerError) },
		"an ended request": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	} {
		r := dial(t, a.serve(answer, c), c)
		s := keyholder.Segment{Term: 1, Number: 1}
		_, got := r.Get(t.Context(), name, s)
		_, seen := r.Seen(t.Context(), name)
		for call, err := range map[string]error{
			"Put": r.Put(t.Context(), name, s, keyholder.Key{}), "Get": got, "Seen": seen,
			"Keep": r.Keep(t.Context(), name, s, nil), "Mark": r.Mark(t.Context(), name, keyholder.Mark{Term: 1}),
		} {
			if err == nil || errors.Is(err, keyholder.ErrNoKey) || !strings.Contains(err.Error(), "host b") {
				t.Errorf("%s: %s: %v", what, call, err)
			}
		}
	}
	for what, text := range map[string]string{"short": "short", "long": strings.Repeat("x", 33), "empty": ""} {
		r := dial(t, a.serve(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { own(w); fmt.Fprint(w, text) }), c), c)
		if _, err := r.Get(t.Context(), name, keyholder.Segment{Term: 1, Number: 1}); !errors.Is(err, keyholder.ErrInvalid) {
			t.Errorf("a %s key: %v", what, err)
		}
		if _, err := r.Seen(t.Context(), name); !errors.Is(err, keyholder.ErrInvalid) {
			t.Errorf("a %s answer: %v", what, err)
		}
	}
}

// What a host sends that cannot be is refused, and reaches no holder.
func TestBadRequestsAreRefused(t *testing.T) {
	a := newAuthority(t)
	c := keyholder.Mutual(a.sign("host a", nil), a.pool())
	h := keyholdertest.NewMemory("b")
	h.Inject(func(string) error { t.Error("the holder was called"); return nil })
	url := a.serve(keyholder.Handler(h), c)
	client := http.Client{Transport: &http.Transport{TLSClientConfig: c}}
	for what, body := range map[string]string{
		"PUT keys/1.1":    "short",
		"PUT keys/1":      strings.Repeat("k", 32),
		"PUT keys/1.1.1":  strings.Repeat("k", 32),
		"PUT keys/01.1":   strings.Repeat("k", 32),
		"PUT keys/1.+1":   strings.Repeat("k", 32),
		"PUT keys/-1.1":   strings.Repeat("k", 32),
		"GET keys/1.x":    "",
		"PUT kept":        `{"below":{"term":1,"number":1},"live":[],"more":1}`,
		"PUT kept ":       `{"below":{"term":-1,"number":1}}`,
		"PUT kept  ":      `{"below":{"term":1,"number":1}} {}`,
		"PUT mark":        `{"term":1,"events":1,"root":"00"}`,
		"PUT mark ":       `{"term":1,"events":1,"root":"` + strings.Repeat("x", 64) + `"}`,
		"PUT mark  ":      `{"term":1e99,"events":1,"root":"` + strings.Repeat("0", 64) + `"}`,
		"PUT mark   ":     strings.Repeat(" ", 2<<20),
		"DELETE keys/1.1": "", "GET kept": "", "POST mark": "", "GET mark": "",
	} {
		words := strings.Fields(what)
		request, err := http.NewRequestWithContext(t.Context(), words[0], url+"/"+name+"/"+words[1], strings.NewReader(body))
		must(t, err)
		response, err := client.Do(request)
		must(t, err)
		response.Body.Close()
		if response.StatusCode != http.StatusBadRequest && response.StatusCode != http.StatusMethodNotAllowed {
			t.Errorf("%s %.60s: %s", what, body, response.Status)
		}
	}
}

// A key gets into no text, whichever way it is printed.
func TestAKeyIsNotPrinted(t *testing.T) {
	k := keyholder.Key{'s', 'e', 'c', 'r', 'e', 't'}
	for _, text := range []string{fmt.Sprint(k), fmt.Sprintf("%v %+v %#v %x %s %q %d", k, k, k, k, k, k, k), fmt.Sprint(struct{ K keyholder.Key }{k})} {
		for _, bad := range []string{"secret", "736563", "115"} {
			if strings.Contains(text, bad) {
				t.Errorf("it is printed as %s", text)
			}
		}
	}
}

// holding says that a file of a directory has bytes.
func holding(t *testing.T, dir string, b []byte) (files []string) {
	t.Helper()
	must(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if bytes.Contains(text, b) {
			files = append(files, path)
		}
		return err
	}))
	return files
}

func openDirectory(t *testing.T, path string) *keyholder.Directory {
	t.Helper()
	d, err := keyholder.OpenDirectory(path)
	must(t, err)
	t.Cleanup(func() { d.Close() })
	return d
}

// What was destroyed is in no file, and what a crash has left is destroyed: of a key that did not get its name, and of one that was to be
// destroyed. The old file is overwritten before it is unlinked.
func TestKeysAreDestroyed(t *testing.T) {
	dir := filepath.Join(pace.Scratch(t), "keys")
	d := openDirectory(t, dir)
	key := keyholder.Key([]byte("thirty-two bytes of a secret key"))
	s := keyholder.Segment{Term: 1, Number: 1}
	must(t, d.Put(t.Context(), name, s, key))
	files := holding(t, dir, key[:])
	if len(files) != 1 {
		t.Fatalf("the key is in %v", files)
	}
	left, err := os.ReadFile(files[0])
	must(t, err)
	link := filepath.Join(dir, "link") // to see what becomes of the bytes
	must(t, os.Link(files[0], link))
	must(t, d.Keep(t.Context(), name, keyholder.Segment{Term: 1, Number: 2}, nil))
	if files := holding(t, dir, key[:]); len(files) > 0 {
		t.Errorf("the key is still in %v", files)
	}
	if text, err := os.ReadFile(link); err != nil || !bytes.Equal(text, make([]byte, len(left))) {
		t.Errorf("it was not overwritten: %q %v", text, err)
	}
	must(t, d.Close())
	must(t, os.WriteFile(files[0], left, 0o600))
	must(t, os.WriteFile(files[0]+".new", left, 0o600))
	d = openDirectory(t, dir)
	if _, err := d.Get(t.Context(), name, s); !errors.Is(err, keyholder.ErrDestroyed) {
		t.Errorf("a key that should be gone: %v", err)
	}
	if files := holding(t, dir, key[:]); len(files) > 0 {
		t.Errorf("the key is still in %v", files)
	}
}

// A directory is open once, for its owner only, and of no use after Close.
func TestADirectoryIsOpenOnce(t *testing.T) {
	dir := filepath.Join(pace.Scratch(t), "a", "keys")
	d := openDirectory(t, dir)
	if _, err := keyholder.OpenDirectory(dir); !errors.Is(err, journal.ErrInUse) {
		t.Errorf("a second time: %v", err)
	}
	must(t, d.Put(t.Context(), name, keyholder.Segment{Term: 1, Number: 1}, keyholder.Key{1}))
	must(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		must(t, err)
		info, err := e.Info()
		must(t, err)
		if info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s is open to others: %v", path, info.Mode())
		}
		return nil
	}))
	must(t, d.Close())
	must(t, d.Close())
	if _, err := d.Seen(t.Context(), name); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	openDirectory(t, dir)
}

// A file that is damaged, of another journal or segment, or of a newer program is an error, and never another key or mark.
func TestDamagedFilesAreErrors(t *testing.T) {
	const other = "test:ffeeddccbbaa99887766554433221100"
	fill := func(dir string) {
		d := openDirectory(t, dir)
		for _, n := range []string{name, other} {
			for number := range uint64(3) {
				s := keyholder.Segment{Term: 2, Number: number + 1}
				must(t, d.Put(t.Context(), n, s, keyholder.Key{byte(number), n[5]}))
			}
			must(t, d.Keep(t.Context(), n, keyholder.Segment{Term: 2, Number: 2}, []keyholder.Segment{{Term: 2, Number: 1}}))
			for events := range uint64(2) {
				must(t, d.Mark(t.Context(), n, keyholder.Mark{Term: 2, Position: journal.Position{Events: events + 1}}))
			}
		}
		must(t, d.Close())
	}
	look := func(dir string) error {
		d := openDirectory(t, dir)
		defer d.Close()
		var all error
		for number := range uint64(3) {
			k, err := d.Get(t.Context(), name, keyholder.Segment{Term: 2, Number: number + 1})
			if all = errors.Join(all, err); err == nil && k != (keyholder.Key{byte(number), name[5]}) {
				t.Error("another key")
			}
		}
		seen, err := d.Seen(t.Context(), name)
		if all = errors.Join(all, err); err == nil && seen.Mark.Position.Events != 2 {
			all = errors.Join(all, fmt.Errorf("the mark says %v", seen.Mark))
		}
		return all
	}
	folder := "test-" + name[5:]
	for _, file := range []string{"2.1.key", "2.3.key", "kept", "mark"} {
		change := func(what string, want error, do func(dir, path string)) {
			dir := filepath.Join(pace.Scratch(t), "keys")
			fill(dir)
			do(dir, filepath.Join(dir, folder, file))
			if err := look(dir); err == nil || want != nil && !errors.Is(err, want) {
				t.Errorf("%s: %s: %v", file, what, err)
			}
		}
		flip := func(at int) func(_, path string) {
			return func(_, path string) {
				text, err := os.ReadFile(path)
				must(t, err)
				if at < 0 {
					at += len(text)
				}
				text[at] ^= 1
				must(t, os.WriteFile(path, text, 0o600))
			}
		}
		damaged := journal.ErrCorrupt
		if file == "mark" {
			damaged = nil // the older of the two is left
		}
		if file != "mark" {
			change("cut", damaged, func(_, path string) { must(t, os.Truncate(path, 20)) })
			change("of another journal", damaged, func(dir, path string) {
				must(t, os.Rename(filepath.Join(dir, "test-"+other[5:], file), path))
			})
		}
		change("a bit at its end", damaged, flip(-1))
		change("a bit in its midst", damaged, flip(-30))
		version := map[string]int{"kept": 12, "mark": 512 + 12}[file]
		change("a newer version", journal.ErrVersion, flip(max(version, 11)))
	}
	dir := filepath.Join(pace.Scratch(t), "keys")
	fill(dir)
	must(t, os.Rename(filepath.Join(dir, folder, "2.3.key"), filepath.Join(dir, folder, "2.2.key")))
	if err := look(dir); !errors.Is(err, journal.ErrCorrupt) {
		t.Errorf("the key of another segment: %v", err)
	}
	must(t, os.WriteFile(filepath.Join(dir, folder, "x.key"), nil, 0o600))
	d := openDirectory(t, dir)
	if _, err := d.Seen(t.Context(), name); !errors.Is(err, journal.ErrCorrupt) {
		t.Errorf("a key of no segment: %v", err)
	}
	must(t, d.Close())
}

// Of two marks one may be torn by a power cut: the other counts. Both cannot.
func TestATornMark(t *testing.T) {
	dir := filepath.Join(pace.Scratch(t), "keys")
	d := openDirectory(t, dir)
	for events := range uint64(3) {
		must(t, d.Mark(t.Context(), name, keyholder.Mark{Term: 1, Position: journal.Position{Events: 10 + events}}))
	}
	must(t, d.Close())
	path := filepath.Join(dir, "test-"+name[5:], "mark")
	text, err := os.ReadFile(path)
	must(t, err)
	for _, c := range []struct {
		torn []int
		want uint64
	}{{nil, 12}, {[]int{0}, 11}, {[]int{512}, 12}, {[]int{0, 512}, 0}} {
		b := bytes.Clone(text)
		for _, at := range c.torn {
			clear(b[at+20 : at+40])
		}
		must(t, os.WriteFile(path, b, 0o600))
		d := openDirectory(t, dir)
		seen, err := d.Seen(t.Context(), name)
		if seen.Mark.Position.Events != c.want || (c.want == 0) != errors.Is(err, journal.ErrCorrupt) {
			t.Errorf("torn at %v: %v %v", c.torn, seen.Mark, err)
		}
		if err == nil { // the next one does not overwrite the one that is good
			must(t, d.Mark(t.Context(), name, keyholder.Mark{Term: 1, Position: journal.Position{Events: 20}}))
			must(t, d.Close())
			after, err := os.ReadFile(path)
			must(t, err)
			kept := 0
			for _, at := range []int{0, 512} {
				if bytes.Equal(after[at:at+65], b[at:at+65]) {
					kept++
				}
			}
			if kept != 1 {
				t.Errorf("torn at %v: %d marks were left alone", c.torn, kept)
			}
		}
		must(t, d.Close())
	}
}

// A directory that cannot be written to says so, and has not done what it was asked.
func TestADiskThatFails(t *testing.T) {
	dir := filepath.Join(pace.Scratch(t), "keys")
	d := openDirectory(t, dir)
	s := keyholder.Segment{Term: 1, Number: 1}
	must(t, d.Put(t.Context(), name, s, keyholder.Key{1}))
	folder := filepath.Join(dir, "test-"+name[5:])
	must(t, os.Mkdir(filepath.Join(folder, "1.2.key.new"), 0o700))
	must(t, os.Mkdir(filepath.Join(folder, "kept.new"), 0o700))
	if err := d.Put(t.Context(), name, keyholder.Segment{Term: 1, Number: 2}, keyholder.Key{2}); err == nil {
		t.Error("Put has kept a key where it cannot")
	}
	if err := d.Keep(t.Context(), name, keyholder.Segment{Term: 1, Number: 2}, nil); err == nil {
		t.Error("Keep has destroyed a key, and nobody would know")
	}
	if _, err := d.Get(t.Context(), name, s); err != nil {
		t.Error(err)
	}
}

// The segments of a mark and of what is kept print as JSON that says what they are.
func TestSegmentsInText(t *testing.T) {
	s := keyholder.Segment{Term: 7, Number: 2}
	text, err := json.Marshal(s)
	if string(text) != `{"term":7,"number":2}` || err != nil || s.String() != "7.2" {
		t.Errorf("%s %v", text, err)
	}
	if got, err := keyholder.ParseSegment("7.2"); got != s || err != nil {
		t.Errorf("%v %v", got, err)
	}
	for _, bad := range []string{"", "7", "7.", ".2", "7.2.1", "07.2", "7. 2", "-1.1", "7.2\n", "18446744073709551616.1"} {
		if _, err := keyholder.ParseSegment(bad); !errors.Is(err, keyholder.ErrInvalid) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// A host that hangs holds nobody up longer than they want to wait.
func TestAHolderThatHangs(t *testing.T) {
	a := newAuthority(t)
	c := keyholder.Mutual(a.sign("host a", nil), a.pool())
	over := make(chan struct{})
	r := dial(t, a.serve(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-over }), c), c)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := r.Put(ctx, name, keyholder.Segment{Term: 1, Number: 1}, keyholder.Key{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	close(over)
}
