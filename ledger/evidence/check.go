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

// Checked is the result of verifying a receipt or a statement.
type Checked struct {
	// Head is the head of the log in the document's checkpoint; zero if the checkpoint cannot be
	// read.
	Head api.Head `json:"head"`
	// Signed means that one of the keys given to Verify, with the name of the log, signed the
	// checkpoint. Without a signature, a document without faults is only consistent with itself:
	// any person can make one.
	Signed bool `json:"signed"`
	// Cosigned lists the witnesses: the keys given to Verify that signed the checkpoint in
	// addition to the log's key. Each is the beginning of a verifier key, such as
	// "witness.example+1a2b3c4d". Only these signatures are verified. Ignored lists the unknown
	// keys of the other signatures. Those are not verified, and any holder of the document can
	// have added or removed some. Both are nil unless the document is Signed.
	Cosigned []string `json:"cosigned,omitempty"`
	Ignored  []string `json:"ignored,omitempty"` // name and key hash, as in Cosigned
	// Faults lists what is wrong. It has at most 1,001 entries; the last one then says that there
	// are more. One alteration may cause several faults. If keys were given and none of them
	// signed the checkpoint, only the head of the document is checked.
	Faults []Fault `json:"faults"`
}

// OK reports whether the document is signed and without faults. Then the log contains what the
// document says, if the holder of the log's key is trusted.
func (c Checked) OK() bool { return c.Signed && len(c.Faults) == 0 }

// Fault is an error in a document.
type Fault struct {
	// Item is the number of the response in a receipt or of the event in a statement, from 1; 0
	// for the document.
	Item   int    `json:"item,omitempty"`
	Event  uint64 `json:"event,omitempty"`  // the number of the event in the document, or 0
	Object string `json:"object,omitempty"` // the object that the item is about
	Text   string `json:"text"`             // English text for people; programs should not parse it
}

// String returns the fault as one line, for people.
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

// checker collects the faults of a document, and the leaves of its events.
type checker struct {
	Checked
	leaves []merkle.Leaf // of the events checked so far, for checkRoot
	read   bool          // whether the checkpoint could be read
}

// fault records a fault of the document as a whole. The format is that of [fmt.Sprintf].
func (v *checker) fault(format string, args ...any) { v.faultOf(item{}, format, args...) }

// item is the place of a fault: a response of a receipt or an event of a statement. The zero value
// is the document as a whole.
type item struct {
	number int    // of the response or event in its list, from 1
	event  uint64 // number of the event in the log
	object string // the object that it is about; "" for none
}

// faultOf records a fault at a place, with a text in the format of [fmt.Sprintf]. It cuts texts
// above maxFaultText bytes. Instead of the fault after the first maxFaults, it records that there
// are more, and ignores the others.
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

// Documents come from untrusted sources. These limits bound the memory for the faults of any
// document.
const (
	maxFaults    = 1000 // number of listed faults
	maxFaultText = 8192 // bytes of one fault: a response in unary encoding fits
)

// checkFormat checks the first field, which identifies the kind and version of a document.
func (v *checker) checkFormat(format, want string) {
	if format != want {
		v.fault("the format is %q; this program reads %q", format, want)
	}
}

// checkLog checks that a checkpoint is one of the ledger's log, and sets the head, the signature
// and the cosigners of the result. keys may be nil: then signatures are not checked.
//
// It returns whether the rest of the document is to be checked. That is not so if keys were given
// and none of them signed the checkpoint, because the rest could prove nothing.
func (v *checker) checkLog(about event.About, checkpoint string, keys note.Verifiers) bool {
	read, err := merkle.Read([]byte(checkpoint))
	if err != nil {
		v.fault("the checkpoint: %v", err)
		return keys == nil // without keys, the document is only compared with itself
	}
	v.Head, v.read = api.Head{Origin: read.Origin, Events: read.Size, Root: read.Root}, true
	if keys != nil {
		_, cosigners, err := openCosigned([]byte(checkpoint), keys)
		if v.Signed = err == nil; err != nil {
			v.fault("the checkpoint: %v", err)
		}
		v.Cosigned, v.Ignored = cosigners.Known, cosigners.Unknown
	}
	if origin := about.Origin(); v.Head.Origin != origin {
		v.fault("the checkpoint is of the log %q, the ledger's is %q", v.Head.Origin, origin)
	}
	return keys == nil || v.Signed
}

// proven is the evidence for an event: its place in the document, its salt, unless it is erased,
// and its leaf according to the document.
type proven struct {
	item
	fault string // the text of the fault if the event has another leaf
	salt  says.Hex
	leaf  tlog.Hash
}

// check computes the leaf of an event from the fields of the document, and records a fault if it is
// not the leaf in the document. In any case, it keeps the leaf in the document for checkRoot.
//
// ev has the fields and no salt, which check takes from p. If ev.Change is nil, the fields are
// invalid and a fault was already recorded, so check does not compare.
func (v *checker) check(ev event.Event, p proven) {
	v.leaves = append(v.leaves, merkle.Leaf{Index: ev.Number - 1, Hash: p.leaf})
	if ev.Change == nil {
		return
	}
	if ev.Erased == nil {
		if len(p.salt) != len(ev.Salt) {
			v.faultOf(p.item, "the salt has %d bytes instead of %d", len(p.salt), len(ev.Salt))
			return
		}
		copy(ev.Salt[:], p.salt)
	}
	if !event.InLog(ev.Time) {
		v.faultOf(p.item, "the time %v is not a time that a log can have", ev.Time)
		return
	}
	if ev.Leaf() != p.leaf {
		v.faultOf(p.item, "%s", p.fault)
	}
}

// checkRoot computes the root of the log from the leaves and the proof, and compares it with the
// root in the checkpoint. It must be called after all events were checked.
func (v *checker) checkRoot(proof []tlog.Hash) {
	if !v.read {
		return // checkLog has already recorded the fault
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
