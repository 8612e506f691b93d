package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/sluicedp/sluice/internal/httpapi"
)

// server is a ledger that ledgerctl serves, as a host would: on a port of this machine, with a file
// of tokens, and its log in a file.
type server struct {
	command *exec.Cmd
	address string // http://HOST:PORT
	tokens  string // the file of the tokens themselves, one on each line
	log     *os.File
}

// startServer serves a ledger. Each caller has a token, for each token is bounded in how much may
// be asked with it.
func startServer(ctx context.Context, o options, path string) (_ *server, err error) {
	s := &server{tokens: path + ".secrets"}
	if err := writeTokens(o.callers, path+".tokens", s.tokens); err != nil {
		return nil, err
	}
	if s.log, err = os.Create(path + ".log"); err != nil {
		return nil, err
	}
	s.command = exec.CommandContext(ctx, o.program, "--db", path, "--json", "serve", "--listen", "127.0.0.1:0")
	s.command.Cancel = func() error { return s.command.Process.Signal(syscall.SIGTERM) }
	s.command.WaitDelay = time.Minute
	s.command.Stderr = s.log
	told, err := s.command.StdoutPipe()
	if err != nil {
		return nil, errors.Join(err, s.log.Close())
	}
	if err := s.command.Start(); err != nil {
		return nil, errors.Join(err, s.log.Close())
	}
	var where struct {
		Address string `json:"addr"`
	}
	if err := json.NewDecoder(told).Decode(&where); err != nil {
		return nil, errors.Join(fmt.Errorf("%s serve: %w", o.program, err), s.stop())
	}
	s.address = where.Address
	return s, nil
}

// writeTokens makes tokens, and writes the file of the server, which has their hashes, and that of
// the callers.
func writeTokens(n int, hashes, secrets string) error {
	var file httpapi.TokenFile
	var lines bytes.Buffer
	for i := range n {
		token := httpapi.NewToken()
		lines.WriteString(token + "\n")
		file.Tokens = append(file.Tokens,
			httpapi.Token{Name: fmt.Sprint("caller ", i), Role: "operator",
				SHA256: httpapi.HashToken(token)})
	}
	text, err := json.Marshal(file)
	if err != nil {
		return err
	}
	return errors.Join(os.WriteFile(hashes, text, 0o600), os.WriteFile(secrets, lines.Bytes(), 0o600))
}

// stop has the server end, and returns what it said if it did not end well.
func (s *server) stop() error {
	_ = s.command.Process.Signal(os.Interrupt) // if it has ended, Wait says how
	err := s.command.Wait()
	if err != nil {
		said, _ := os.ReadFile(s.log.Name())
		err = fmt.Errorf("ledgerctl serve: %w\n%s", err, said[max(0, len(said)-2000):])
	}
	return errors.Join(err, s.log.Close())
}

// time returns how much of the processor's time the server has taken; 0 where the system does not
// tell.
func (s *server) time() time.Duration {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.command.Process.Pid))
	if err != nil {
		return 0
	}
	return timeIn(string(text))
}

// timeIn returns the time of user and system in a text like /proc/1/stat, in which they are counted
// in hundredths of a second. They are the 14th and 15th field; the second is a name in parentheses,
// which may have anything in it.
func timeIn(stat string) time.Duration {
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	if len(fields) < 13 {
		return 0
	}
	user, _ := strconv.ParseInt(fields[11], 10, 64)
	system, _ := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+system) * 10 * time.Millisecond
}
