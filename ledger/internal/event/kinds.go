package event

import (
	"crypto/sha256"
	"fmt"
	"time"

	"github.com/sluicedp/sluice/ledger/internal/wire"
	"github.com/sluicedp/sluice/ledger/vocabulary"
	"github.com/sluicedp/sluice/privacy"
)

// Event is one entry of the log.
type Event struct {
	Number uint64    // from 1; its key in the log
	Time   time.Time // never before that of the event before
	Change Change    // what it says
	Salt   Salt      // hides what is erased with the object
	// Erased is the commitment to what an erased event said: nil for a whole one. Of the change, only what is
	// public is left.
	Erased *Commitment
	// Withheld is the commitment to what [Withhold] left out of the change of an event; nil for a whole one.
	Withheld *Commitment
}

// Change is what an event says. It holds every outcome, the drawn response included, so that the
// state is a fold of the events.
type Change interface {
	Kind() Kind // by which its bytes are read again
	// Fields describes what is destroyed when the object that the event is about is forgotten.
	Fields(wire.Codec)
}

// lasting is a change of which something outlives the object that it is about.
type lasting interface {
	Change
	public(wire.Codec)
}

// withholding is a change of which a part is withheld from buyers: their receipts have a commitment in its place, because it depends on
// what others bought.
type withholding interface {
	Change
	withheld(wire.Codec) // what follows on the fields
}

// Personal is a change about one object. When the object is forgotten, all but its public part is erased.
type Personal interface {
	Change
	About() string // the object; "" once it is erased
}

// Kind is stored as one byte. A number is never given a second meaning.
type Kind uint8

// The kinds of events, by the types of their changes.
const (
	KindCreated   Kind = iota + 1 // [Created]
	KindTruthKey                  // [TruthKeySet]
	KindQuestion                  // [QuestionDefined]
	KindPolicy                    // [PolicyDefined]
	KindEnrolled                  // [Enrolled]
	KindReleased                  // [Released]
	KindSettled                   // [Settled]
	KindCharged                   // [Charged]
	KindAnswered                  // [Answered]
	KindBuyer                     // [BuyerNamed]
	KindReserved                  // [Reserved]
	KindHeld                      // [Held]
	KindCancelled                 // [Cancelled]
	KindSale                      // [SaleMade]
	KindSold                      // [Sold]
	KindWithdrawn                 // [Withdrawn]
	KindBound                     // [TruthBound]
	KindRefused                   // [ObjectRefused]
	KindStated                    // [Stated]
	KindForgotten                 // [Forgotten]
	KindNoiseKey                  // [NoiseKeySet]
	KindEpoch                     // [EpochBegun]
	KindTerms                     // [TermsChanged]
)

func (k Kind) String() string {
	names := [...]string{"", "created", "truth-key", "question", "policy", "enrolled", "released", "settled", "charged", "answered",
		"buyer", "reserved", "held", "cancelled", "sale", "sold", "withdrawn", "bound", "refused", "stated", "forgotten", "noise-key", "epoch", "terms"}
	if int(k) < len(names) {
		return names[k]
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// Created begins the log.
type Created struct {
	ID       [16]byte // a random UUID
	Currency string   // of all prices, such as "USD"
	LogKey   string   `audit:"the log key"` // the verifier key of the log, "" for none
}

// TruthKeySet says that from here on chains are bound to their truth by keyed hashes. Check tells whether a key is the one.
type TruthKeySet struct{ Check Tag }

// QuestionDefined adds a question under the next free number.
type QuestionDefined struct {
	Number uint32 // from 1, by which all else refers to it
	vocabulary.Question
}

// PolicyDefined gives a policy a number, by which chains refer to it.
type PolicyDefined struct {
	Number uint32 // from 1
	JSON   string // as package policy writes it
}

// Enrolled begins the chain of an object and a question. Cap is the object's from here on.
type Enrolled struct {
	Object   string          // by name
	Question uint32          // by number
	Policy   uint32          // 0 for none
	Noise    uint32          // the key that the chain is drawn from; 0 for chance
	Cap      privacy.Epsilon // over all questions
}

// TermsChanged puts the chain of an object and a question under another policy, and the object under another cap, from here on. It says
// both, also if one of them stays.
type TermsChanged struct {
	Object   string          // by name
	Question uint32          // by number
	Policy   uint32          // 0 for none
	Cap      privacy.Epsilon // over all questions
	Consent  string          // the host's word that the object agreed; "" if nothing is more than before
}

// Released records a response.
type Released struct {
	Object   string          // by name
	Question uint32          // by number
	Epsilon  privacy.Epsilon // the response's level
	Response
}

// Charged adds the ε of an answer about a question to what an object has spent. The answered event of
// the same transaction follows.
type Charged struct {
	Object   string          // by name
	Question uint32          // by number
	Epsilon  privacy.Epsilon // what is added
}

// Answered records the answer to a query about a panel of objects.
type Answered struct {
	Question uint32            // by number
	Query    string            // as mechanism.ParseQuery reads it
	Panel    [sha256.Size]byte // [PanelOf] those asked for; erased with each of them
	Objects  uint64            // the size of the panel
	Epsilon  privacy.Epsilon   // of the answer
	Result
	Method Method // MethodFresh or MethodDegrade; of a score also MethodRaise or MethodInsert
	Base   uint64 // the event of the answer that it was raised or derived from; 0 for a fresh one
}

// BuyerNamed gives a buyer a number, by which chains and sales refer to it.
type BuyerNamed struct {
	Number uint32 // from 1
	Name   string // as in an order
}

// Deal is what reservations and sales have in common. The events of its objects follow, and then those of
// the objects it leaves out.
type Deal struct {
	Sale     uint64          // its number; a reservation and the sale that comes of it have the same
	Buyer    uint32          // by number
	Question uint32          // by number
	Epsilon  privacy.Epsilon // of the responses
	Objects  uint64          // how many take part
	Price    uint64          // in all, in minor units of the currency
	Refused  uint64          // objects left out
}

// Reserved holds budget for a sale, at a price, until an instant.
type Reserved struct {
	Deal
	Expires time.Time // from then on it holds nothing
}

// Held is one object of the reservation before it.
type Held struct {
	Object string // by name
	Sale   uint64 // the number of the reservation
	Price  uint64 // of the object, in minor units
	Policy uint32 // of its chain then, whose prices are promised; 0 for none
}

// Cancelled ends a reservation.
type Cancelled struct{ Sale uint64 }

// SaleMade begins a sale.
type SaleMade struct {
	Deal
	Tally SaleTally // the objects by how they answer
}

// Sold is one object of the sale before it, with its response, recorded now or before.
type Sold struct {
	Object string // by name
	Sale   uint64 // its number
	Price  uint64 // to the object, in minor units
	Response
}

// Withdrawn ends the object's part in all questions, until it is enrolled again.
type Withdrawn struct{ Object string }

// TruthBound ties the chain of an object to the truth that the draw behind it, or the answer, is made from.
type TruthBound struct {
	Object   string // by name
	Question uint32 // by number
	Tag      Tag    // a keyed hash of the value
}

// EpochBegun closes the chain of an object and begins a new one, about a value of its own.
type EpochBegun struct {
	Object   string // by name
	Question uint32 // by number
}

// ObjectRefused says whom a request left out, and why. The settled event of the request follows.
type ObjectRefused struct {
	Question uint32 // by number
	vocabulary.Refusal
}

// Stated lists all events about an object, so that a statement made of them can be seen to leave out
// none. It is the last of them.
type Stated struct {
	Object    string   // by name
	Forgotten uint64   // the event that last destroyed what came before, or 0
	Events    []uint64 // since then, in order
	Account
}

// Account is what an object has spent and earned.
type Account struct {
	Cap, Spent privacy.Epsilon // of the object, and what all chains have cost it
	Earned     uint64          // by sales, in minor units
}

// Forgotten destroys all events about an object, and everything that was released of it. What it spent
// and earned stays, so that it cannot begin anew.
type Forgotten struct {
	Object string // by name: that stays
	Events uint64 // that are erased
	Account
	Chains []Remnant // by rising question
}

// Remnant is what stays of a chain.
type Remnant struct {
	Question uint32          // by number
	Policy   uint32          // by number, 0 for none
	Spent    privacy.Epsilon // which still counts
}

// Settled ends a request, or one part of a large one, and records what came of it, so that the same
// key gives the same result again. The events of the objects refused stand before it.
type Settled struct {
	Key     string            // the idempotency key
	Digest  [sha256.Size]byte // of the request, but for what is about several objects; zero once it is erased
	Marks   Marks             // of its fields, likewise
	Named   bool              // the request says something of several objects, and this is its first part
	Names   Sum               // of what it says of them; zero once it is erased
	Again   Wanted            // the responses handed out again, if the request got any; likewise
	First   uint64            // the first event of this part
	Through uint64            // objects enrolled by later events do not belong to the request
	Final   bool              // no further part follows
	Counts  Counts            // of this part
	Spent   uint64            // what it cost all objects together, in nano-nats
	Refused uint64            // objects refused
	Swept   []SweptCount      // of a sweep, by question
	Answer  uint64            // the event of the answer that the request got, if it asked for one
	Sale    uint64            // the sale or reservation that the request made, if it did
	Done    uint64            // of a part that is not the final one: how many of the objects named are dealt with
	// Alone: the request names one object, and no other. Then its digest is as good as the request to anybody who
	// guesses, so it is erased with the object.
	Alone  bool
	Object string // the one, if it is alone; or the last one of a part that is not the final one, of a request for all
}

// Wanted is the question, by number, and the ε at which a request wants responses.
type Wanted struct {
	Question uint32          // 0 for none
	Epsilon  privacy.Epsilon // above 0
}

// SweptCount tells how many chains of a question a sweep raised, left unchanged and refused. The refused
// events come in the same order.
type SweptCount struct {
	Question                   uint32 // by number
	Raised, Unchanged, Refused uint64 // how many chains; an event for each refused one says why
}

// Counts are the tallies of a request; what each means depends on the request.
type Counts [3]uint64

// MaxNoiseKeys is the largest number of noise keys of a ledger. A ledger with a host's keys reads them all when it is opened.
const MaxNoiseKeys = 1024

// NoiseKeySet gives a noise key a number, by which chains refer to it. Check tells whether a key is the one.
type NoiseKeySet struct {
	Number uint32 // from 1
	Name   string // what the host calls it
	Check  Tag    // by which the key is recognized
}
