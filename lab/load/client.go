package main

import (
	"bytes"
	"context"
	_ "embed" // load.lua is in the program
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

//go:embed load.lua
var script []byte

// client returns the client of the server.
func (s *server) client(o options) way {
	if o.client == "wrk" {
		return &wrk{s, o}
	}
	return &looped{server: s, o: o, http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: o.callers,
		DisableCompression: true}}}
}

// wrk is the program of that name as a client.
type wrk struct {
	*server
	o options
}

// summary is the output of load.lua at the end.
type summary struct {
	Answered, Sent, Micros, P50, P99      int
	Connect, Read, Write, Status, Timeout int // numbers of failures
}

// call implements [way].
func (w *wrk) call(ctx context.Context, what kind, first int, lasting time.Duration) (turn, error) {
	file := filepath.Join(filepath.Dir(w.tokens), "load.lua")
	if err := os.WriteFile(file, script, 0o600); err != nil {
		return turn{}, err
	}
	command := exec.CommandContext(ctx, "wrk", "--threads", "1", "--connections", strconv.Itoa(w.o.callers),
		"--duration", lasting.String(), "--timeout", "1m",
		"--script", file, w.address, "--", string(what), strconv.Itoa(first), strconv.Itoa(w.o.objects), w.tokens)
	var output, result bytes.Buffer
	command.Stdout, command.Stderr = &output, &result
	before := w.time()
	if err := command.Run(); err != nil {
		return turn{}, fmt.Errorf("wrk: %w\n%s%s", err, output.Bytes(), result.Bytes())
	}
	server := w.time() - before
	var is summary
	if err := json.Unmarshal(result.Bytes(), &is); err != nil {
		return turn{}, fmt.Errorf("wrk: %w\n%s%s", err, output.Bytes(), result.Bytes())
	}
	if is.Connect+is.Read+is.Write+is.Status+is.Timeout > 0 {
		return turn{}, fmt.Errorf("wrk: requests failed: %s", result.Bytes())
	}
	return turn{
		answered: is.Answered, sent: is.Sent, took: micros(is.Micros), p50: micros(is.P50), p99: micros(is.P99),
		server: server, client: command.ProcessState.UserTime() + command.ProcessState.SystemTime(),
	}, nil
}

func micros(n int) time.Duration { return time.Duration(n) * time.Microsecond }

// looped is a client in this process.
type looped struct {
	*server
	o    options
	http *http.Client
}

// call implements [way].
func (l *looped) call(ctx context.Context, what kind, first int, lasting time.Duration) (turn, error) {
	text, err := os.ReadFile(l.tokens)
	if err != nil {
		return turn{}, err
	}
	tokens := strings.Fields(string(text))
	before, own := l.time(), ownTime()
	t, err := crowd(l.o.callers, lasting, func(i int) error {
		return l.ask(ctx, what, first+i, tokens[(first+i)%len(tokens)])
	})
	t.server, t.client = l.time()-before, ownTime()-own
	return t, err
}

// ask sends one request, whose response must have status 200.
func (l *looped) ask(ctx context.Context, what kind, n int, token string) error {
	r := callAt(n, l.o.objects)
	method, url, body := http.MethodPost, l.address+"/v1/releases", r.body()
	if what == reads {
		method, url, body = http.MethodGet, l.address+"/v1/object?object="+r.object, ""
	}
	request, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+token)
	if what == releases {
		request.Header.Set("Content-Type", "application/json")
		request.Header.Set("Idempotency-Key", strconv.Quote(r.key))
	}
	answer, err := l.http.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	said, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", answer.Status, said)
	}
	return err
}
