package evidence

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/sluicedp/sluice/ledger/api"
	says "github.com/sluicedp/sluice/ledger/event"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/merkle"
)

// Checked is what came of verifying a receipt or a statement.
type Checked struct {
	// Head is the log that the document is about, as its checkpoint names it; zero if that cannot
	// be read.
	Head api.Head `json:"head"`
	// Signed: one of the keys given to Verify, with the name of the log, signed the checkpoint.
	// Without that, a document without faults only agrees with itself: anybody can make one.
	Signed bool `json:"signed"`
	// Cosigned are the keys among those given to Verify that signed the checkpoint besides the
	// log's, as witnesses do: "witness.example+1a2b3c4d", the beginning of the verifier key. Only
	// these count. Ignored are the others whose signatures stand there: nobody looked at them, and
	// whoever passed the document on can have added them, or left out others. Both are nil unless
	// the document is Signed.
	Cosigned []string `json:"cosigned,omitempty"`
	Ignored  []string `json:"ignored,omitempty"` // by name and key hash, as in Cosigned
	// Faults are what is wrong, at most 1,001 of them: the last then says that there are more. One
	// alteration may show at several places. If keys were given and the signature does not fit,
	// nothing but the head of the document is checked.
	Faults []Fault `json:"faults"`
}

// OK tells whether the log says what the document says, on the word of whoever has the key.
func (c Checked) OK() bool { return c.Signed && len(c.Faults) == 0 }

// Fault is something in a document that cannot be right.
type Fault struct {
	// Item is the response of a receipt or the event of a statement, from 1; 0 for the document.
	Item   int    `json:"item,omitempty"`
	Event  uint64 `json:"event,omitempty"`  // the event that it says it is, or 0
	Object string `json:"object,omitempty"` // whom it is about
	Text   string `json:"text"`             // in English, for people; no program should read it
}

// String says the fault in a line, for people.
func (f Fault) String() string {
	switch {
	case f.Item == 0:
		return f.Text
	case f.Object == "":
		return fmt.Sprintf("no. %d, event %d: %s", f.Item, f.Event, f.Text)
	default:
		return fmt.Sprintf("no. %d, event %d, object %q: %s", f.Item, f.Event, f.Object, f.Text)
	}
}

// checker collects what is wrong with a document.
type checker struct {
	Checked
	leaves []merkle.Leaf
	read   bool // the checkpoint could be read
}

func (v *checker) fault(format string, args ...any) { v.faultOf(item{}, format, args...) }

// item is where a fault is.
type item struct {
	number int
	event  uint64
	object string
}

func (v *checker) faultOf(at item, format string, args ...any) {
	switch n := len(v.Faults); {
	case n < maxFaults:
		text := fmt.Sprintf(format, args...)
		if len(text) > maxFaultText {
			text = strings.ToValidUTF8(text[:maxFaultText], "") + "…"
		}
		v.Faults = append(v.Faults, Fault{at.number, at.event, at.object, text})
	case n == maxFaults:
		text := fmt.Sprintf("there are more than %d faults; the others are not listed", maxFaults)
		v.Faults = append(v.Faults, Fault{Text: text})
	}
}

// Documents are written by strangers. The faults of one take little memory, whatever it says.
const (
	maxFaults    = 1000 // that are listed
	maxFaultText = 8192 // bytes of one: a response in unary encoding fits
)

// checkFormat checks the first field, by which programs tell documents apart.
func (v *checker) checkFormat(format, want string) {
	if format != want {
		v.fault("the format is %q; this program reads %q", format, want)
	}
}

// checkLog checks that a checkpoint is one of the ledger, and reads what it says. keys may be nil.
// It returns false if they are not and none of them signed it: then the rest of the document is not
// worth the work.
func (v *checker) checkLog(about event.About, checkpoint string, keys note.Verifiers) bool {
	read, err := merkle.Read([]byte(checkpoint))
	if err != nil {
		v.fault("the checkpoint: %v", err)
		return keys == nil
	}
	v.Head, v.read = api.Head{Origin: read.Origin, Events: read.Size, Root: read.Root}, true
	if keys != nil {
		_, beside, err := openCosigned([]byte(checkpoint), keys)
		if v.Signed = err == nil; err != nil {
			v.fault("the checkpoint: %v", err)
		}
		v.Cosigned, v.Ignored = beside.Known, beside.Unknown
	}
	if origin := about.Origin(); v.Head.Origin != origin {
		v.fault("the checkpoint is of the log %q, the ledger's is %q", v.Head.Origin, origin)
	}
	return keys == nil || v.Signed
}

// proven tells how an event stands in the log: its place in the list of items that it belongs to,
// its salt, unless it is erased, and the leaf that the document says it has.
type proven struct {
	item
	what string // the fault if it does not have that leaf
	salt says.Hex
	leaf tlog.Hash
}

// check holds an event, as the fields of the document say it is, against its leaf. A nil change is
// one that the fields do not make; that was said.
func (v *checker) check(ev event.Event, p proven) {
	v.leaves = append(v.leaves, merkle.Leaf{Index: ev.Number - 1, Hash: p.leaf})
	if ev.Change == nil {
		return
	}
	if ev.Erased == nil {
		if len(p.salt) != len(ev.Salt) {
			v.faultOf(p.item, "a salt of %d bytes; it has %d", len(p.salt), len(ev.Salt))
			return
		}
		copy(ev.Salt[:], p.salt)
	}
	if !event.InLog(ev.Time) {
		v.faultOf(p.item, "the time %v is none of a log", ev.Time)
		return
	}
	if ev.Leaf() != p.leaf {
		v.faultOf(p.item, "%s", p.what)
	}
}

// checkRoot holds all leaves against the root, by their proof.
func (v *checker) checkRoot(proof []tlog.Hash) {
	if !v.read {
		return // what is wrong with the checkpoint was said
	}
	slices.SortFunc(v.leaves, func(a, b merkle.Leaf) int { return cmp.Compare(a.Index, b.Index) })
	root, err := merkle.Root(v.Head.Events, v.leaves, proof)
	if err != nil {
		v.fault("the proof does not belong to these events and this checkpoint: %v", err)
	} else if root != v.Head.Root {
		v.fault("the leaves and the proof do not give the root of the checkpoint: " +
			"one of these hashes was altered, or the events are not in that log")
	}
}
