package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/ledgerhttp"
)

// steering is appended to names: escape sequences, a line end, and characters that reverse the text
// around them.
const steering = "\x1b[2J\u009b1m\r\nFORGED\t\u202e\u2066\u2028"

// renamed appends steering to some names in the responses of a server. No ledger accepts such
// names, but a stranger may have written the file or the server whose names a command prints.
func renamed(server http.Handler, names ...string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := httptest.NewRecorder()
		server.ServeHTTP(answer, r)
		text := answer.Body.Bytes()
		for _, name := range names {
			other, _ := json.Marshal(name + steering) // never fails
			text = bytes.ReplaceAll(text, []byte(`"`+name+`"`), other)
		}
		maps.Copy(w.Header(), answer.Header())
		w.Header().Del("Content-Length")
		w.WriteHeader(answer.Code)
		_, _ = w.Write(text)
	})
}

func TestCommands_NamesWithControlCharacters_AreEscaped(t *testing.T) {
	const question, value, buyer, object = "question-1", "value-1", "buyer-1", "object-1"
	dir := t.TempDir()
	db, people, bare := filepath.Join(dir, "l.db"), filepath.Join(dir, "people.csv"), filepath.Join(dir, "bare.csv")
	check.Must(t, os.WriteFile(people, []byte("id,v\n"+object+","+value+"\nobject-2,value-2\n"), 0o600))
	check.Must(t, os.WriteFile(bare, []byte("id\n"+object+"\nobject-2\nstranger\n"), 0o600))
	for _, line := range []string{
		"init", "question add question-1 --values value-1,value-2", "question add question-2 --values value-1,value-2",
		"enroll --question question-2 --objects PEOPLE --value-column v --cap 9",
		`enroll --question question-1 --objects PEOPLE --value-column v --cap 9 --policy {"kind":"market","max":"2","price":[["2",100]]}`,
		"sell --buyer buyer-1 --question question-1 --epsilon 1 --truth PEOPLE",
		"reserve --buyer buyer-1 --question question-1 --epsilon 2 --expires 2100-01-01T00:00:00Z",
		"raise --question question-2 --to 1 --truth PEOPLE", "epoch object-1 --question question-2", "raise --question question-2 --to 1 --truth PEOPLE",
	} {
		args := strings.Fields(strings.ReplaceAll(line, "PEOPLE", people))
		mustInvoke(t, append([]string{"--db", db}, args...)...)
	}
	l, err := ledger.Open(t.Context(), db, ledger.Options{})
	check.Must(t, err)
	defer func() { _ = l.Close() }()
	handler, err := ledgerhttp.New(l, ledgerhttp.Options{Gate: ledgerhttp.Holder{Name: "test", Role: "operator"}.Admit})
	check.Must(t, err)
	server := httptest.NewServer(renamed(handler, question, value, buyer, object))
	defer server.Close()
	for _, test := range [][2]string{ // a command line, and a name that it prints
		{"question list", question}, {"show object-1", object}, {"sales", buyer}, {"reservations", buyer}, {"buyers", buyer}, {"log", object},
		{"responses --question question-2 --epsilon 1", object}, {"responses --buyer buyer-1", object}, {"estimate --question question-2", value},
		{"budget --question question-1 --buyer buyer-1", question}, {"quote --buyer buyer-1 --question question-1 --epsilon 2", buyer},
		{"sell --buyer buyer-1 --question question-1 --epsilon 0.5 --partial", buyer},
		{"reserve --buyer buyer-1 --question question-1 --epsilon 1 --expires 1h", buyer},
		{"advance --truth PEOPLE", question},
		{"raise --question question-2 --to 20 --truth PEOPLE --partial", object},
		{"terms --question question-1 --objects BARE --no-policy --partial", object},
		{"answer --question question-1 --query majority:value-1 --epsilon 2 --quote", question},
		{`enroll --question question-1 --objects BARE --partial --cap 9 --policy {"kind":"fixed","ceiling":"1"}`, object},
		{"quote --buyer buyer-1 --question question-1 --epsilon 3", object},
		{"question add question-1 --values value-1,value-2", question},
		{"withdraw object-1", object}, {"stats", ""}, {"health", ""}, {"__complete sales --question q", ""},
	} {
		line, want := test[0], test[1]
		args := strings.Fields(strings.NewReplacer("PEOPLE", people, "BARE", bare).Replace(line))
		_, stdout, stderr := invoke(t, append([]string{"--addr", server.URL}, args...)...)
		for _, text := range []string{stdout, stderr} {
			check.That(t, !strings.ContainsAny(text, "\x1b\u009b\r\u202e\u2066\u2028") && !strings.Contains(text, "\nFORGED"), "%s: %q", line, text)
		}
		check.That(t, strings.Contains(stdout+stderr, want), "%s: %q is not in %s%s", line, want, stdout, stderr)
	}
}

// A checkpoint is printed unescaped, so a checkpoint with invisible characters is refused.
func TestCheckpoint_InvisibleCharacters_AreRefused(t *testing.T) {
	for text, want := range map[string]error{"log\n1\nroot\n\n— k sig\n": nil, "log\n1\x1b[2J\nroot\n": api.ErrCheckpoint, "log\u202e\n1\n": api.ErrCheckpoint} {
		_, _, err := checkpoint(t.Context(), noted{text: text})
		check.That(t, errors.Is(err, want), "%q: %v, want %v", text, err, want)
	}
}

// noted is a ledger with a checkpoint.
type noted struct {
	backend
	text string
}

func (n noted) Checkpoint(context.Context) ([]byte, error)     { return []byte(n.text), nil }
func (n noted) Head(context.Context, uint64) (api.Head, error) { return api.Head{}, nil }
