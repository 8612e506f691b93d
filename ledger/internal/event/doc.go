// Package event holds what the log says, and how it is written. It rests on wire, merkle and
// api.
//
// The log is a Merkle tree whose leaves are the events. An event is public bytes and hidden ones.
// Its leaf holds the public bytes and a commitment to the hidden ones: a hash over a random salt
// and them. Without the salt nobody can guess what was hidden, however few possibilities there are.
// When salt and hidden bytes are destroyed, leaf and tree stay what they were.
//
// # Kinds
//
// An [Event] has a number, a time, and a [Change], which is what it says. Each [Kind] has a type of
// its own:
//
//	Created, TruthKeySet, NoiseKeySet   the ledger and its keys; a request settles none of them
//	QuestionDefined, PolicyDefined,     what later events refer to by a number
//	BuyerNamed
//	Enrolled, Withdrawn, EpochBegun     an object comes, goes, or has another value
//	TermsChanged                        an object is under other ceilings and prices from here on
//	TruthBound, Released                a chain is tied to its truth; a response is drawn
//	Charged, Answered                   what an answer about a panel costs each object; the answer
//	Reserved, Held, Cancelled           a reservation; each of its objects; its end
//	SaleMade, Sold                      a sale; each of its objects, with its response
//	ObjectRefused                       whom a request left out, and why
//	Stated, Forgotten                   an object's events listed, or destroyed
//	Settled                             the end of a request, or of a part of one, with what came of it
//
// An event holds every outcome, the drawn response included, so the state is a fold of the events.
// Time and kind are always public. A change about one object ([Personal]) is hidden; a sale's
// number and price stay public, and so does a request's key, because sums must add up and keys stay
// used when the object is forgotten. What is about nobody is hidden too, and is never erased.
//
// # Promises
//
// The encoding is canonical, and has a [Version]. Decoders return [errs.ErrCorrupt] for whatever
// this program does not write, and never panic. A number on disk, of a kind, reason, method or
// encoding, is never given a second meaning.
//
// The package has also what events are made of: a [Question] as it was defined, a [Response], the
// [Result] of a query, the [PanelSum] of a list of objects, and the [Form] by which a repeated
// request is recognized.
package event
