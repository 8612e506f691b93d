package output

import (
	"fmt"
	"io"
	"reflect"
	"strings"
	"time"

	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/event"
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
)

// WriteEvent writes an event on one line for people: its number, time and kind, and its members by
// their keys in JSON. Empty texts, and counts, ε and numbers that are 0, are left out. Amounts are
// in the currency of the ledger.
func WriteEvent(w io.Writer, ev event.Event, currency string) {
	line := fmt.Sprintf("%6d  %s  %-9s", ev.Number, ev.Time.Format("2006-01-02T15:04:05.000Z07:00"), ev.Kind())
	if ev.Erased {
		line += " erased"
	}
	if says := reflect.ValueOf(ev.Says); says.IsValid() && !says.IsZero() {
		line += membersLine(membersOf(says), currency)
	}
	fmt.Fprintln(w, escaped(line))
}

// membersLine returns the members of an event, each after a space.
func membersLine(all []member, currency string) (line string) {
	for _, m := range all {
		if refusal, is := m.value.(api.Refusal); is {
			line += membersLine(membersOf(reflect.ValueOf(refusal)), currency)
		} else if text := wordOf(m, currency); text != "" && !m.isHidden {
			line += " " + m.key + "=" + text
		}
	}
	return line
}

// wordOf returns the value of a member as one word without spaces, in quotes if necessary, or "" to
// leave it out.
func wordOf(m member, currency string) string {
	switch value := shown(m, currency).(type) {
	case string:
		return Quoted(value)
	case []string:
		return Quoted(strings.ReplaceAll(Listed(value), ", ", ","))
	case [3]uint64:
		return fmt.Sprintf("%d,%d,%d", value[0], value[1], value[2])
	case *api.Mechanism:
		if value != nil {
			return Quoted(strings.ReplaceAll(Listed(LevelsOf(value)), ", ", ","))
		}
	case *policy.Policy:
		if value != nil {
			return value.String()
		}
	case policy.Policy:
		return value.String()
	case time.Time:
		return Quoted(Stamp(value))
	case uint64:
		if value != 0 {
			return fmt.Sprint(value)
		}
	case privacy.Epsilon:
		if !value.IsZero() {
			return value.String()
		}
	default:
		return Quoted(fmt.Sprint(value))
	}
	return ""
}

// LevelsOf returns the ε of a mechanism in ascending order.
func LevelsOf(m *api.Mechanism) []string {
	var all []string
	for _, epsilon := range m.Family.Epsilons() {
		all = append(all, epsilon.String())
	}
	return all
}
