package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/sumdb/note"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/serving"
	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/ledgerhttp"
)

// servedName is an environment variable. If it is set, scripts run their commands on a served
// ledger.
const servedName = "SLUICE_TEST_SERVED"

// runHere runs a command line in this process, on the file or on a server, and returns the exit
// code.
func runHere(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	if os.Getenv(servedName) == "" || !needsLedger(args) {
		return run(args, stdin, stdout, stderr)
	}
	code, err := runServed(args, stdin, stdout, stderr)
	if err != nil {
		fmt.Fprintln(stderr, "serve:", err)
		return 99
	}
	return code
}

// needsLedger reports whether a command line uses the existing ledger ledger.db and can use a
// server.
func needsLedger(args []string) bool {
	if _, err := os.Stat("ledger.db"); err != nil || len(args) == 0 {
		return false
	}
	for _, own := range []string{"--db", "--at", "--clock-ahead", "--truth-key", "--noise-key"} { // need the file
		if slices.ContainsFunc(args, func(arg string) bool { return arg == own || strings.HasPrefix(arg, own+"=") }) {
			return false
		}
	}
	command := slices.IndexFunc(args, func(arg string) bool { return !strings.HasPrefix(arg, "-") })
	return command >= 0 && args[command] != "init" && !slices.Contains(args, "verify") && !slices.Contains(args, "--help")
}

// runServed serves the ledger while a command line runs.
func runServed(args []string, stdin io.Reader, stdout, stderr io.Writer) (code int, err error) {
	var options ledger.Options
	if text, err := os.ReadFile("ledger.db.key"); err == nil {
		if options.Signer, err = note.NewSigner(strings.TrimSpace(string(text))); err != nil {
			return 0, err
		}
	}
	l, err := ledger.Open(context.Background(), "ledger.db", options)
	if errors.Is(err, api.ErrInUse) { // by the script itself
		return run(args, stdin, stdout, stderr), nil
	}
	if err != nil {
		return 0, err
	}
	defer func() { _ = l.Close() }()
	handler, err := ledgerhttp.New(l, ledgerhttp.Options{Gate: ledgerhttp.Holder{Name: "test", Role: "operator"}.Admit})
	if err != nil {
		return 0, err
	}
	dir, err := os.MkdirTemp("", "sl")
	if err != nil {
		return 0, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	at, err := serving.ListenUnix(filepath.Join(dir, "s"))
	if err != nil {
		return 0, err
	}
	server := handler.Server()
	go func() { _ = server.Serve(at) }()
	defer func() { _ = server.Shutdown(context.Background()) }()
	return run(append([]string{"--addr", "unix:" + filepath.Join(dir, "s")}, args...), stdin, stdout, stderr), nil
}
