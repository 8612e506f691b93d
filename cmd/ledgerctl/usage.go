package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/output"
)

// started marks the errors of commands, apart from those of cobra, which are all wrong usage.
type started struct{ error }

func (s *started) Unwrap() error { return s.error }

// action is a command's work. All commands are run through it.
func action(work func(cmd *cobra.Command, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		if err := work(cmd, args); err != nil {
			return &started{err}
		}
		return nil
	}
}

// asUsage classes what cobra found wrong with a command line.
func asUsage(cmd *cobra.Command, err error) error {
	var classed *output.Error
	var ours *started
	if errors.As(err, &classed) || errors.As(err, &ours) {
		return err
	}
	if text := output.WrongValue(err); text != "" {
		return output.UsageError(fmt.Sprintf("run %q", cmd.CommandPath()+" --help"), "%s", text)
	}
	text, suggested, found := strings.Cut(err.Error(), "\n\nDid you mean this?")
	if found {
		return output.UsageError("did you mean "+strings.Join(strings.Fields(suggested), " or ")+"?", "%s", text)
	}
	return output.UsageError(fmt.Sprintf("run %q", cmd.CommandPath()+" --help"), "%s", text)
}

// wantsJSON tells whether a command line asks for JSON, even if it is too broken to be parsed.
func wantsJSON(args []string) bool {
	if end := slices.Index(args, "--"); end >= 0 {
		args = args[:end]
	}
	return slices.Contains(args, "--json") || slices.Contains(args, "--json=true")
}
