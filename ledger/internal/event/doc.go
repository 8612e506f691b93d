// Package event defines the events of the log and their encoding. It depends on wire, merkle and
// api.
//
// The log is a Merkle tree with the events as leaves. An event has public and hidden bytes. Its
// leaf contains the public bytes and a commitment to the hidden bytes, which is a hash of a random
// salt and the hidden bytes. Without the salt, the hidden bytes cannot be guessed, even if there
// are few possibilities. After salt and hidden bytes are destroyed, the leaf and the tree are
// unchanged.
//
// # Kinds
//
// An [Event] has a number, a time, and a [Change], which is its content. Each [Kind] has a type of
// change:
//
//	Created, TruthKeySet, NoiseKeySet   the ledger and its keys; no Settled follows
//	QuestionDefined, PolicyDefined,     definitions, to which later events refer by number
//	BuyerNamed
//	Enrolled, Withdrawn, EpochBegun     an object is enrolled, withdraws, or has another value
//	TermsChanged                        an object has other ceilings and prices from here on
//	TruthBound, Released                a chain is bound to its true value; a response is drawn
//	Charged, Answered                   what an answer costs each object of a panel; the answer
//	Reserved, Held, Cancelled           a reservation; each of its objects; its end
//	SaleMade, Sold                      a sale; each of its objects, with its response
//	ObjectRefused                       an object that a request left out, and why
//	Stated, Forgotten                   an object's events listed, or destroyed
//	Settled                             the end of a request or of a part of it, with the result
//
// An event contains every outcome, including the drawn response, so the state is a fold of the
// events. Time and kind are always public. A change about one object ([Personal]) is hidden. The
// number and the price of a sale stay public, because sums must add up. The key of a request stays
// public, because a key remains used when the object is forgotten.
// Changes about no object are hidden too, and are never erased.
//
// # Guarantees
//
// The encoding is canonical and has a [Version]. Decoders return [errs.ErrCorrupt] for any bytes
// that this program does not write, and never panic. A number on disk, of a kind, reason, method
// or encoding, never gets a second meaning.
//
// The package also has the parts of events: a [Question] as it was defined, a [Response], the
// [Result] of a query, the [PanelSum] of a list of objects, and the [Form] that identifies a
// repeated request.
package event
