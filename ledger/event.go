package ledger

import (
	"crypto/sha256"
	"fmt"
	"time"

	"github.com/sluicedp/sluice/ledger/internal/wire"
	"github.com/sluicedp/sluice/privacy"
)

// event is one entry of the log. Its number is its key there.
type event struct {
	number uint64
	time   time.Time
	change change
	salt   salt
	// erased is the commitment to what an erased event said: nil for a whole one. Of the change, only what is
	// public is left.
	erased *commitment
}

// change is what an event says. It holds every outcome, the drawn response included, so that the
// state is a fold of the events.
type change interface {
	kind() kind
	// encode writes what is destroyed when the object that the event is about is forgotten.
	encode(*wire.Encoder)
}

// lasting is a change of which something outlives the object that it is about.
type lasting interface {
	change
	encodePublic(*wire.Encoder)
}

// personal is a change about one object. When the object is forgotten, all but its public part is erased.
type personal interface {
	change
	about() string // the object; "" once it is erased
}

// kind is stored as one byte. A number is never given a second meaning.
type kind uint8

const (
	kindCreated kind = iota + 1
	kindTruthKey
	kindQuestion
	kindPolicy
	kindEnrolled
	kindReleased
	kindSettled
	kindCharged
	kindAnswered
	kindBuyer
	kindReserved
	kindHeld
	kindCancelled
	kindSale
	kindSold
	kindWithdrawn
	kindBound
	kindRefused
	kindStated
	kindForgotten
	kindNoiseKey
	kindEpoch
)

func (k kind) String() string {
	names := [...]string{"", "created", "truth-key", "question", "policy", "enrolled", "released", "settled", "charged", "answered",
		"buyer", "reserved", "held", "cancelled", "sale", "sold", "withdrawn", "bound", "refused", "stated", "forgotten", "noise-key", "epoch"}
	if int(k) < len(names) {
		return names[k]
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// created begins the log.
type created struct {
	id       [16]byte // a random UUID
	currency string
	logKey   string
}

// truthKeySet says that from here on chains are bound to their truth by keyed hashes.
type truthKeySet struct{ check tag }

// questionDefined adds a question under the next free number.
type questionDefined struct {
	number uint32
	Question
}

// policyDefined gives a policy a number, by which chains refer to it.
type policyDefined struct {
	number uint32
	json   string
}

// enrolled begins the chain of an object and a question. cap is the object's from here on.
type enrolled struct {
	object   string
	question uint32
	policy   uint32 // 0 for none
	noise    uint32 // the key that the chain is drawn from; 0 for chance
	cap      privacy.Epsilon
}

// released records a response.
type released struct {
	object   string
	question uint32
	epsilon  privacy.Epsilon
	response
}

// charged adds the ε of an answer about a question to what an object has spent. The answered event of
// the same transaction follows.
type charged struct {
	object   string
	question uint32
	epsilon  privacy.Epsilon
}

// answered records the answer to a query about a panel of objects.
type answered struct {
	question uint32
	query    string            // as mechanism.ParseQuery reads it
	panel    [sha256.Size]byte // see inquiry.panelDigest
	objects  uint64            // the size of the panel
	epsilon  privacy.Epsilon
	result
	method method // methodFresh or methodDegrade; of a score also methodRaise or methodInsert
}

// buyerNamed gives a buyer a number, by which chains and sales refer to it.
type buyerNamed struct {
	number uint32
	name   string
}

// deal is what reservations and sales have in common. The events of its objects follow, and then those of
// the objects it leaves out.
type deal struct {
	sale     uint64 // its number; a reservation and the sale that comes of it have the same
	buyer    uint32
	question uint32
	epsilon  privacy.Epsilon
	objects  uint64
	price    uint64 // in all, in minor units of the currency
	refused  uint64 // objects left out
}

// reserved holds budget for a sale, at a price, until an instant.
type reserved struct {
	deal
	expires time.Time
}

// held is one object of the reservation before it.
type held struct {
	object string
	sale   uint64
	price  uint64
}

// cancelled ends a reservation.
type cancelled struct{ sale uint64 }

// saleMade begins a sale.
type saleMade struct {
	deal
	tally saleTally
}

// saleTally counts the objects of a sale by how their responses come about. Upgrades are those of
// which the buyer holds a lower level.
type saleTally struct{ draws, resales, degradations, insertions, upgrades uint64 }

// sold is one object of the sale before it, with its response, recorded now or before.
type sold struct {
	object string
	sale   uint64
	price  uint64
	response
}

// withdrawn ends the object's part in all questions, until it is enrolled again.
type withdrawn struct{ object string }

// truthBound ties the chain of an object to the truth that the draw behind it, or the answer, is made from.
type truthBound struct {
	object   string
	question uint32
	tag      tag
}

// epochBegun closes the chain of an object and begins a new one, about a value of its own.
type epochBegun struct {
	object   string
	question uint32
}

// objectRefused says whom a request left out, and why. The settled event of the request follows.
type objectRefused struct {
	question uint32
	Refusal
}

// stated lists all events about an object, so that a statement made of them can be seen to leave out
// none. It is the last of them.
type stated struct {
	object    string
	forgotten uint64   // the event that last destroyed what came before, or 0
	events    []uint64 // since then, in order
	account
}

// account is what an object has spent and earned.
type account struct {
	cap, spent privacy.Epsilon
	earned     uint64
}

// forgotten destroys all events about an object, and everything that was released of it. What it spent
// and earned stays, so that it cannot begin anew.
type forgotten struct {
	object string
	events uint64 // that are erased
	account
	chains []remnant // by rising question
}

// remnant is what stays of a chain.
type remnant struct {
	question uint32
	policy   uint32
	spent    privacy.Epsilon
}

// settled ends a request, or one part of a large one, and records what came of it, so that the same
// key gives the same result again. The events of the objects refused stand before it.
type settled struct {
	key     string
	digest  [sha256.Size]byte // of the request; zero once it is erased
	marks   marks             // of its fields, likewise
	first   uint64            // the first event of this part
	through uint64            // objects enrolled by later events do not belong to the request
	final   bool              // no further part follows
	counts  counts
	spent   uint64       // what it cost all objects together, in nano-nats
	refused uint64       // objects refused
	swept   []sweptCount // of a sweep, by question
	answer  uint64       // the event of the answer that the request got, if it asked for one
	sale    uint64       // the sale or reservation that the request made, if it did
	done    uint64       // of a part that is not the final one: how many of the objects named are dealt with
	// alone: the request names one object, and no other. Then its digest is as good as the request to anybody who
	// guesses, so it is erased with the object.
	alone  bool
	object string // the one, if it is alone; or the last one of a part that is not the final one, of a request for all
}

// sweptCount tells how many chains of a question a sweep raised, left unchanged and refused. The refused
// events come in the same order.
type sweptCount struct {
	question                   uint32
	raised, unchanged, refused uint64
}

// counts are the tallies of a request; what each means depends on the request.
type counts [3]uint64
