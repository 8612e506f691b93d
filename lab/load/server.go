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

// server is a ledger that ledgerctl serves as for a host: on a port of this machine, with a token
// file, and with its log in a file.
type server struct {
	command *exec.Cmd
	address string // http://HOST:PORT
	tokens  string // file with the tokens of the callers, one on each line
	log     *os.File
}

// startServer serves a ledger. Each caller has its own token, because the rate of each token is
// limited.
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
	printed, err := s.command.StdoutPipe()
	if err != nil {
		return nil, errors.Join(err, s.log.Close())
	}
	if err := s.command.Start(); err != nil {
		return nil, errors.Join(err, s.log.Close())
	}
	var where struct {
		Address string `json:"addr"`
	}
	if err := json.NewDecoder(printed).Decode(&where); err != nil {
		return nil, errors.Join(fmt.Errorf("%s serve: %w", o.program, err), s.stop())
	}
	s.address = where.Address
	return s, nil
}

// writeTokens creates tokens, and writes the token file of the server, which has their hashes, and
// the file of the callers.
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

// stop ends the server. If the server fails, the error has the end of its log.
func (s *server) stop() error {
	_ = s.command.Process.Signal(os.Interrupt) // an error means that it has ended; Wait returns why
	err := s.command.Wait()
	if err != nil {
		text, _ := os.ReadFile(s.log.Name())
		err = fmt.Errorf("ledgerctl serve: %w\n%s", err, text[max(0, len(text)-2000):])
	}
	return errors.Join(err, s.log.Close())
}

// time returns the processor time of the server, or 0 if the system does not report it.
func (s *server) time() time.Duration {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.command.Process.Pid))
	if err != nil {
		return 0
	}
	return timeIn(string(text))
}

// timeIn returns the user and system time in a text like /proc/1/stat. They are the 14th and 15th
// field, in hundredths of a second. The second field is a name in parentheses, which may contain
// any character.
func timeIn(stat string) time.Duration {
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	if len(fields) < 13 {
		return 0
	}
	user, _ := strconv.ParseInt(fields[11], 10, 64)
	system, _ := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+system) * 10 * time.Millisecond
}
