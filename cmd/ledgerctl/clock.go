package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/fault"
	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/words"
)

// atHelp explains the flag --at of commands that release or sell.
const atHelp = `With --at, the command works as if the clock said TIME. Ahead of the machine's clock that is for trials:
what is released or sold early cannot be taken back. Behind the last event of the log, ceilings are those
of TIME all the same, and what is recorded bears the time of that event: the log does not run back. A TIME more
than 366 days after that event must be confirmed by --clock-ahead, like a clock that says so.`

// moment is the flag --at.
type moment struct{ text string }

func (m *moment) flag(cmd *cobra.Command) {
	cmd.Flags().StringVar(&m.text, "at", "", "work as if the clock said `TIME`, such as 2027-01-31T09:00:00Z (default: now)")
}

// set makes the given time that of all further work. Policies and logs know no times before 1970 or after 2261.
func (m *moment) set(a *app, cmd *cobra.Command) error {
	if !cmd.Flags().Changed("at") {
		return nil
	}
	at, err := parseTime("--at", m.text)
	if err == nil {
		a.clock = func() time.Time { return at }
	}
	return err
}

// parseTime reads the time that a flag gives.
func parseTime(flag, text string) (at time.Time, err error) {
	const hint = "a time in RFC 3339, such as 2027-01-31T09:00:00Z or 2027-01-31T10:00:00+01:00"
	if err := at.UnmarshalText([]byte(text)); err != nil {
		return at, fault.Usage(hint, "%s %q is not a time", flag, text)
	}
	if at = at.UTC(); at.Year() < 1970 || at.Year() > 2261 {
		return at, fault.Usage(hint, "%s %q is not between the years 1970 and 2261", flag, text)
	}
	return at, nil
}

// warnAhead warns before something happens earlier than it should.
func (a *app) warnAhead() {
	if a.clock == nil || !a.clock().After(time.Now()) {
		return
	}
	a.Warn(fmt.Sprintf("--at %s lies ahead of this machine's clock: what is released or sold early cannot be taken back, and the log's time will not run back behind it", words.Stamp(a.clock())))
}
