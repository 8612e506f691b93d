package output

import (
	"cmp"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/event"
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
)

// WriteEvent writes an event on one line for people: its number, its time, its kind, and its
// fields.
func WriteEvent(w io.Writer, ev event.Event) {
	fmt.Fprintf(w, "%6d  %s  %-9s", ev.Number, ev.Time.Format("2006-01-02T15:04:05.000Z07:00"), ev.Kind())
	if ev.Erased {
		fmt.Fprint(w, " erased")
	}
	if refused, is := ev.Says.(event.ObjectRefused); is && !ev.Erased {
		writeField(w, "object", refused.Refusal.Object)
		writeField(w, "question", refused.Question)
		writeRefusal(w, refused.Refusal)
	} else if says := reflect.ValueOf(ev.Says); says.IsValid() && !says.IsZero() {
		for _, f := range fieldsOf(says) {
			writeField(w, f.label, f.value)
		}
	}
	fmt.Fprintln(w)
}

// eventField is a field of an event.
type eventField struct {
	label string
	value any
}

// fieldsOf returns the fields of a detail that have a key in JSON, in the order of a line.
func fieldsOf(detail reflect.Value) (all []eventField) {
	for i := range detail.NumField() {
		f := detail.Type().Field(i)
		label, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch label = strings.ReplaceAll(label, "_", "-"); {
		case label == "-":
			continue
		case f.Name == "Spent":
			label = "spent" // in JSON it is the epsilon of a forgotten object
		case label == "left-out":
			label = "refused"
		case label == "mechanism":
			label = "levels"
		}
		all = append(all, eventField{label, detail.Field(i).Interface()})
	}
	order := strings.Fields("id object question values encoding levels noise-key epsilon query sale buyer objects " +
		"key counts refused response method price expires policy cap consent spent")
	place := func(f eventField) int {
		if i := slices.Index(order, f.label); i >= 0 {
			return i
		}
		return len(order)
	}
	slices.SortStableFunc(all, func(a, b eventField) int { return cmp.Compare(place(a), place(b)) })
	return all
}

// writeField writes a field after a blank. It leaves out empty texts, and counts and numbers of
// sales that are 0.
func writeField(w io.Writer, label string, value any) {
	text := ""
	switch v := value.(type) {
	case string:
		if label == "response" {
			v = Brief(v)
		}
		text = Quoted(v)
	case api.Encoding:
		text = Quoted(string(v))
	case []string:
		text = Quoted(strings.ReplaceAll(Listed(v), ", ", ","))
	case *api.Mechanism:
		if v != nil {
			text = Quoted(strings.ReplaceAll(Listed(LevelsOf(v)), ", ", ","))
		}
	case *policy.Policy:
		if v != nil {
			text = v.String()
		}
	case policy.Policy:
		text = v.String()
	case [3]uint64:
		text = fmt.Sprintf("%d,%d,%d", v[0], v[1], v[2])
	case privacy.Epsilon:
		text = Quoted(v.String())
	case time.Time:
		text = Quoted(Stamp(v))
	case uint64:
		if v != 0 {
			text = fmt.Sprint(v)
		}
	default:
		text = fmt.Sprint(v)
	}
	if text != "" {
		fmt.Fprintf(w, " %s=%s", label, text)
	}
}

func writeRefusal(w io.Writer, r api.Refusal) {
	fmt.Fprintf(w, " reason=%s asked=%s", r.Reason, r.Asked)
	if r.Reason == api.ChainCeiling || r.Reason == api.ObjectCap {
		fmt.Fprintf(w, " cost=%s ceiling=%s spent=%s remaining=%s", r.Cost, r.Ceiling, r.Spent, r.Remaining)
	}
	if r.Why != "" {
		fmt.Fprintf(w, " why=%s", Quoted(r.Why))
	}
	fmt.Fprintf(w, " helps=%s", r.Remedy)
	if !r.Largest.IsZero() {
		fmt.Fprintf(w, " largest=%s", r.Largest)
	}
}

// LevelsOf returns the ε of a mechanism, rising.
func LevelsOf(m *api.Mechanism) []string {
	var all []string
	for _, epsilon := range m.Family.Epsilons() {
		all = append(all, epsilon.String())
	}
	return all
}
