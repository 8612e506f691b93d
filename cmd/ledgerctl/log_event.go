package main

import (
	"cmp"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/words"
	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/event"
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
)

// writeEvent writes an event on one line for people: its number, its time, its kind, and its fields.
func writeEvent(w io.Writer, ev ledger.Event) {
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

// field is a field of an event.
type field struct {
	label string
	value any
}

// fieldsOf returns the fields of a detail that have a key in JSON, in the order of a line.
func fieldsOf(detail reflect.Value) (all []field) {
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
		all = append(all, field{label, detail.Field(i).Interface()})
	}
	order := strings.Fields("id object question values encoding levels noise-key epsilon query sale buyer objects key " +
		"counts refused response method price expires policy cap consent spent")
	place := func(f field) int {
		if i := slices.Index(order, f.label); i >= 0 {
			return i
		}
		return len(order)
	}
	slices.SortStableFunc(all, func(a, b field) int { return cmp.Compare(place(a), place(b)) })
	return all
}

// writeField writes a field after a blank. It leaves out empty texts, and counts and numbers of sales
// that are 0.
func writeField(w io.Writer, label string, value any) {
	text := ""
	switch v := value.(type) {
	case string:
		if label == "response" {
			v = words.Brief(v)
		}
		text = words.Quoted(v)
	case ledger.Encoding:
		text = words.Quoted(string(v))
	case []string:
		text = words.Quoted(strings.ReplaceAll(words.Listed(v), ", ", ","))
	case *ledger.Mechanism:
		if v != nil {
			text = words.Quoted(strings.ReplaceAll(words.Listed(levelsOf(v)), ", ", ","))
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
		text = words.Quoted(v.String())
	case time.Time:
		text = words.Quoted(words.Stamp(v))
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

func writeRefusal(w io.Writer, r ledger.Refusal) {
	fmt.Fprintf(w, " reason=%s asked=%s", r.Reason, r.Asked)
	if r.Reason == ledger.ChainCeiling || r.Reason == ledger.ObjectCap {
		fmt.Fprintf(w, " cost=%s ceiling=%s spent=%s remaining=%s", r.Cost, r.Ceiling, r.Spent, r.Remaining)
	}
	if r.Why != "" {
		fmt.Fprintf(w, " why=%s", words.Quoted(r.Why))
	}
	fmt.Fprintf(w, " helps=%s", r.Remedy)
	if !r.Largest.IsZero() {
		fmt.Fprintf(w, " largest=%s", r.Largest)
	}
}
