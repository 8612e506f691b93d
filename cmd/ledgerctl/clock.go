package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/fault"
	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/words"
)

// atHelp explains the flag --at of commands that release or sell.
const atHelp = `With --at, the command works as if the clock said TIME. A TIME more than five minutes ahead of this machine's
clock is refused unless --clock-ahead confirms it, because what is then written cannot be undone: every later
event has at least that time, sales and reservations that end before it are closed for good, and "audit verify"
reports events of the future until that day. Before the last event of the log, ceilings are those of TIME, and
what is recorded has the time of that event: the log's time does not decrease. A TIME more than 366 days after that
event must be confirmed by --clock-ahead as well, like a clock that says so.`

// maxAhead is how far --at may be ahead of the machine's clock without --clock-ahead. "audit verify" reports events that are
// further ahead.
const maxAhead = 5 * time.Minute

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
	at, err := parseTime("--at", m.text, timeHint)
	if err == nil {
		a.clock = func() time.Time { return at }
	}
	return err
}

// timeHint says how a time is written.
const timeHint = "a time in RFC 3339, such as 2027-01-31T09:00:00Z or 2027-01-31T10:00:00+01:00"

// parseTime reads the time that a flag gives. The hint says what else the flag takes.
func parseTime(flag, text, hint string) (at time.Time, err error) {
	if err := at.UnmarshalText([]byte(text)); err != nil {
		return at, fault.Usage(hint, "%s %q is not a time", flag, text)
	}
	if at = at.UTC(); at.Year() < 1970 || at.Year() > 2261 {
		return at, fault.Usage(hint, "%s %q is not between the years 1970 and 2261", flag, text)
	}
	return at, nil
}

// confirmed returns the time of --clock-ahead, or the zero time without it.
func (a *app) confirmed() (time.Time, error) {
	if a.clockAhead == "" {
		return time.Time{}, nil
	}
	return parseTime("--clock-ahead", a.clockAhead, timeHint)
}

// checkAhead refuses to write with a time of --at that is ahead of the machine's clock, unless --clock-ahead confirms it.
func (a *app) checkAhead(confirmed time.Time) error {
	if a.clock == nil {
		return nil
	}
	at, now := a.clock(), time.Now()
	if at.Sub(now) <= maxAhead {
		return nil
	}
	const after = `every later event of the log has at least that time, sales and reservations that end before it are closed for good, and "audit verify" reports events of the future until that day`
	if !at.After(confirmed) {
		a.Warn(fmt.Sprintf("--at %s is ahead of this machine's clock: from now on, %s", words.Stamp(at), after))
		return nil
	}
	return &fault.Fault{
		Kind: "clock", Code: fault.Misuse,
		Hint: "correct TIME; --clock-ahead " + words.Stamp(at) + " accepts what is said here",
		Err: fmt.Errorf("--at %s is more than five minutes ahead of this machine's clock, which says %s; nothing was changed; if it is accepted, %s",
			words.Stamp(at), words.Stamp(now), after),
	}
}
