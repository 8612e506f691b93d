package ledgerhttp

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/httpapi"
	"github.com/sluicedp/sluice/internal/testenv"
)

// tokensAt is a gate whose file has one token, with a clock that the test moves.
type tokensAt struct {
	*tokens
	t           testing.TB
	token, file string // the file's text
	clock       time.Time
}

func newTokensAt(t testing.TB) *tokensAt {
	a := &tokensAt{t: t, token: httpapi.NewToken(), clock: time.Now()}
	a.file = fmt.Sprintf(`{"tokens":[{"name":"a","role":"auditor","sha256":"%s"}]}`, httpapi.HashToken(a.token))
	path := filepath.Join(testenv.TempDir(t), "tokens.json")
	check.Must(t, os.WriteFile(path, []byte(a.file), 0o600))
	a.tokens = check.Value(openTokens(path, nil))(t)
	a.now, a.markSince = func() time.Time { return a.clock }, a.clock
	a.read(true)
	return a
}

// read fails unless the token is known or unknown, as wanted.
func (a *tokensAt) read(want bool) {
	a.t.Helper()
	_, known := a.admit(&http.Request{Header: http.Header{"Authorization": {"Bearer " + a.token}}})
	check.Need(a.t, known == want, "the token is known: %v; want %v", known, want)
}

// settle has the file lie for as long as it must before its mark is believed, and the clock of its
// disk tick.
func (a *tokensAt) settle() {
	a.t.Helper()
	a.read(true)
	a.clock = a.clock.Add(settleTime - 1)
	a.read(true)
	check.Need(a.t, !a.isSettled, "the mark is believed too early")
	a.clock = a.clock.Add(1)
	a.read(true)
	check.Need(a.t, runtime.GOOS != "linux" || a.isSettled, "the file is read for each request")
	is := check.Value(os.Stat(a.path))(a.t)
	beside := a.path + ".tick"
	for tick := is; tick.ModTime().Equal(is.ModTime()); {
		check.Must(a.t, os.WriteFile(beside, []byte("x"), 0o600))
		tick = check.Value(os.Stat(beside))(a.t)
	}
}

// other is the file's text with another token, of the same size.
func (a *tokensAt) other() string {
	return strings.Replace(a.file, httpapi.HashToken(a.token), httpapi.HashToken(httpapi.NewToken()), 1)
}

// Any change of a file that was unchanged for long is seen by the next request.
func TestTokens_AnyChangeOfTheFile_CountsAtOnce(t *testing.T) {
	for name, change := range map[string]func(a *tokensAt, before os.FileInfo) error{
		"written": func(a *tokensAt, _ os.FileInfo) error { return os.WriteFile(a.path, []byte(a.other()), 0o600) },
		"written, with the time of before": func(a *tokensAt, before os.FileInfo) error {
			if err := os.WriteFile(a.path, []byte(a.other()), 0o600); err != nil {
				return err
			}
			return os.Chtimes(a.path, before.ModTime(), before.ModTime())
		},
		"replaced, with the time of before": func(a *tokensAt, before os.FileInfo) error {
			next := a.path + ".next"
			if err := os.WriteFile(next, []byte(a.other()), 0o600); err != nil {
				return err
			}
			if err := os.Chtimes(next, before.ModTime(), before.ModTime()); err != nil {
				return err
			}
			return os.Rename(next, a.path)
		},
		"shorter": func(a *tokensAt, _ os.FileInfo) error { return os.Truncate(a.path, 10) },
		"gone":    func(a *tokensAt, _ os.FileInfo) error { return os.Remove(a.path) },
		"a directory": func(a *tokensAt, _ os.FileInfo) error {
			if err := os.Remove(a.path); err != nil {
				return err
			}
			return os.Mkdir(a.path, 0o700)
		},
	} {
		t.Run(name, func(t *testing.T) {
			a := newTokensAt(t)
			a.settle()
			before := check.Value(os.Stat(a.path))(t)
			check.Must(t, change(a, before))
			a.read(false)
			a.read(false)
			check.Must(t, os.RemoveAll(a.path))
			check.Must(t, os.WriteFile(a.path, []byte(a.file), 0o600))
			a.read(true)
		})
	}
}

// Two changes within one tick of the disk's clock leave the same mark, so a recently changed file
// is read for each request.
func TestTokens_ChangesInOneTick_AreSeen(t *testing.T) {
	a := newTokensAt(t)
	a.settle()
	for range 100 {
		check.Must(t, os.WriteFile(a.path, []byte(a.other()), 0o600))
		a.read(false)
		check.Must(t, os.WriteFile(a.path, []byte(a.file), 0o600))
		a.read(true)
	}
}

// Only a token that is in the file now, and is sent correctly, is admitted. While the file cannot
// be read, no token is.
func TestTokens_NotInTheFile_AreRefused(t *testing.T) {
	path := filepath.Join(testenv.TempDir(t), "tokens.json")
	token, other := httpapi.NewToken(), httpapi.NewToken()
	check.Need(t, token != other && strings.HasPrefix(token, "sluice_") && len(token) >= 40, "%s, %s", token, other)
	file := `{"tokens":[{"name":"a","role":"buyer","whom":"acme","sha256":"` + httpapi.HashToken(token) + `"}]}`
	_, err := openTokens(path, nil)
	check.Need(t, err != nil, "there is no file")
	check.Must(t, os.WriteFile(path, []byte(file), 0o600))
	faults := 0
	tokens := check.Value(openTokens(path, func(error) { faults++ }))(t)
	admit := func(values ...string) bool {
		holder, known := tokens.admit(&http.Request{Header: http.Header{"Authorization": values}})
		check.That(t, !known || holder == Holder{"a", roleBuyer, "acme"}, "%+v", holder)
		return known
	}
	for _, good := range []string{"Bearer " + token, "bearer " + token, "BEARER  " + token} {
		check.That(t, admit(good), "%q is not let in", good)
	}
	for _, bad := range [][]string{nil, {""}, {token}, {"Bearer"}, {"Bearer "}, {"Bearer " + other}, {"Basic " + token}, {"Bearer " + httpapi.HashToken(token)}, {"Bearer " + token[:len(token)-1]}, {"Bearer " + token, "Bearer " + token}} {
		check.That(t, !admit(bad...), "%q is let in", bad)
	}
	for _, broken := range []string{"", "x", `{"tokens":[],"x":1}`, `{"tokens":[]}{}`, strings.Replace(file, "buyer", "king", 1), strings.Replace(file, `"whom":"acme",`, "", 1), strings.ToUpper(file), strings.Replace(file, `"sha256"`, `"name":"b","sha256"`, 1), strings.Replace(file, "buyer", "auditor", 1), strings.Replace(file, "]", `,{"name":"b","role":"operator","sha256":"`+httpapi.HashToken(token)+`"}]`, 1)} {
		check.Must(t, os.WriteFile(path, []byte(broken), 0o600))
		before := faults
		for range 2 {
			check.That(t, !admit("Bearer "+token), "%q lets in", broken)
		}
		check.That(t, faults == before+1, "%q: fault was called %d times", broken, faults-before)
		_, err := httpapi.ReadTokens([]byte(broken))
		check.That(t, err != nil, "%q is read", broken)
		check.Must(t, os.WriteFile(path, []byte(file), 0o600))
		check.Need(t, admit("Bearer "+token), "what is mended is not read again")
	}
	check.Must(t, os.Remove(path))
	check.That(t, !admit("Bearer "+token), "a token is admitted without a file")
}
