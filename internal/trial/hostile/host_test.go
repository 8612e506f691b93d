package hostile

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/privacy"
)

// What the environment tells a process that is to be a host, and not the tests.
const (
	hostPath = "SLUICE_PROCESSES_PATH"
	hostMode = "SLUICE_PROCESSES_MODE" // "read" or "write", or "no sockets": write, and make no socket
)

const (
	reading   = "read"
	writing   = "write"
	noSockets = "no sockets"
)

// said is what a host says of an open or a call.
type said struct {
	Kind  string // "" if it went well
	Text  string // of the error
	Value string // of the response
	Took  time.Duration
}

// typedErrors are the errors that a host tells apart.
func typedErrors() map[string]error {
	return map[string]error{"in use": api.ErrInUse, "replaced": api.ErrReplaced, "read-only": api.ErrReadOnly, "stopped": api.ErrStopped}
}

func sayOf(value string, err error, since time.Time) said {
	out := said{Value: value, Took: time.Since(since)}
	if err != nil {
		out.Kind, out.Text = "another error", err.Error()
		for kind, target := range typedErrors() {
			if errors.Is(err, target) {
				out.Kind = kind
			}
		}
	}
	return out
}

// serveHost opens a ledger and says how that went, and then the same of a call for each line that it is given: "draw KEY
// NANOS" raises ann's chain, "read" looks at her, "copy PATH" makes a backup.
func serveHost(path, mode string, in io.Reader, out io.Writer) error {
	if mode == noSockets {
		if err := forbidSockets(); err != nil {
			return err
		}
	}
	say := json.NewEncoder(out)
	since := time.Now()
	l, err := ledger.Open(context.Background(), path, ledger.Options{ReadOnly: mode == reading})
	if saying := say.Encode(sayOf("", err, since)); err != nil || saying != nil {
		return saying
	}
	for lines := bufio.NewScanner(in); lines.Scan(); {
		since := time.Now()
		value, err := call(l, lines.Text())
		if err := say.Encode(sayOf(value, err, since)); err != nil {
			return err
		}
	}
	return l.Close()
}

func call(l *ledger.Ledger, line string) (value string, err error) {
	ctx := context.Background()
	var what, key string
	var nanos int64
	if _, err := fmt.Sscan(line, &what, &key, &nanos); err != nil {
		return "", err
	}
	switch what {
	case "copy":
		_, err = l.Backup(ctx, key, nil)
		return "", err
	case "compact":
		return "", l.Compact(ctx, nil)
	case "read":
		o, err := l.Object(ctx, "ann")
		if err != nil {
			return "", err
		}
		return o.Chains[0].Response, nil
	}
	epsilon, err := privacy.EpsilonFromNano(nanos)
	if err != nil {
		return "", err
	}
	r, err := l.Release(ctx, api.ReleaseRequest{Key: key, Question: "vote", Object: "ann", Epsilon: epsilon, TrueValue: "yes"})
	return r.Value, err
}

// host is a process that has a ledger open, or was refused it.
type host struct {
	opened said
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *json.Decoder
}

// startHost lets a process open a ledger, and does not wait until it has.
func startHost(t testing.TB, path, mode string) *host {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), hostPath+"="+path, hostMode+"="+mode)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	h := &host{cmd: cmd, in: in, out: json.NewDecoder(out)}
	t.Cleanup(func() { _, _ = h.in.Close(), h.cmd.Wait() })
	return h
}

func (h *host) wait(t testing.TB) *host {
	t.Helper()
	must(t, h.out.Decode(&h.opened))
	return h
}

// openHost lets a process open a ledger.
func openHost(t testing.TB, path, mode string) *host {
	t.Helper()
	return startHost(t, path, mode).wait(t)
}

// ask has a host make a call.
func (h *host) ask(t testing.TB, what, key string, nanos int64) (out said) {
	t.Helper()
	_, err := fmt.Fprintln(h.in, what, key, nanos)
	must(t, err)
	must(t, h.out.Decode(&out))
	return out
}

// end lets a host close its ledger.
func (h *host) end(t testing.TB) {
	t.Helper()
	must(t, h.in.Close())
	must(t, h.cmd.Wait())
}
