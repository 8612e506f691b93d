package main

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

//go:embed measure/*.go
var program embed.FS

// side is a process that measures one checkout.
type side struct {
	commit  string
	process *exec.Cmd
	stdin   io.WriteCloser
	answers *json.Decoder
}

// turn is one measurement of a row, of one operation.
type turn struct {
	Wall   time.Duration `json:"wall"`
	CPU    time.Duration `json:"cpu"`
	Allocs float64       `json:"allocs"`
}

// newSide builds the program against a checkout, and starts it with its ledgers in a new directory.
func newSide(ctx context.Context, checkout, dir string, o options) (*side, error) {
	checkout, err := filepath.Abs(checkout)
	if err != nil {
		return nil, err
	}
	binary, err := build(ctx, checkout, dir)
	if err != nil {
		return nil, err
	}
	s := &side{commit: checkout}
	git := exec.CommandContext(ctx, "git", "-C", checkout, "describe", "--always", "--dirty", "--exclude", "*")
	if text, err := git.Output(); err == nil { // a checkout need not be of git
		s.commit = strings.TrimSpace(string(text)) + " in " + checkout
	}
	s.process = exec.CommandContext(ctx, binary, dir, strconv.Itoa(o.people), strconv.Itoa(o.releases))
	s.process.Stderr = os.Stderr
	if s.stdin, err = s.process.StdinPipe(); err != nil {
		return nil, err
	}
	stdout, err := s.process.StdoutPipe()
	if err != nil {
		return nil, err
	}
	s.answers = json.NewDecoder(stdout)
	return s, s.process.Start()
}

// build builds the program in a temporary module that replaces Sluice with the checkout.
func build(ctx context.Context, checkout, dir string) (binary string, err error) {
	source := filepath.Join(dir, "source")
	if err := os.CopyFS(source, program); err != nil {
		return "", err
	}
	const module = "module sluice-gate\n\ngo 1.26.0\n\nrequire github.com/sluicedp/sluice v0.0.0\n\n" +
		"replace github.com/sluicedp/sluice => %s\n"
	text := fmt.Sprintf(module, strconv.Quote(checkout))
	sums, err := os.ReadFile(filepath.Join(checkout, "go.sum"))
	err = errors.Join(err,
		os.WriteFile(filepath.Join(source, "go.mod"), []byte(text), 0o600),
		os.WriteFile(filepath.Join(source, "go.sum"), sums, 0o600))
	if err != nil {
		return "", err
	}
	binary = filepath.Join(dir, "measure")
	command := exec.CommandContext(ctx, "go", "build", "-mod=mod", "-o", binary, "./measure")
	command.Dir = source
	command.Env = append(os.Environ(), "GOWORK=off")
	if output, err := command.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, output)
	}
	return binary, nil
}

// measure makes the process run the operations of a row once.
func (s *side) measure(row string) (one turn, err error) {
	if _, err := io.WriteString(s.stdin, row+"\n"); err != nil {
		return one, err
	}
	return one, s.answers.Decode(&one)
}

// stop ends the process.
func (s *side) stop() error { return errors.Join(s.stdin.Close(), s.process.Wait()) }
