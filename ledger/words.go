package ledger

import (
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/vocabulary"
)

// The words that a ledger, its hosts and those who verify its documents share are in package
// vocabulary, which links no database. Those that most hosts need have their names here, too.
type (
	// Question is a function of an object with a fixed list of labelled values.
	Question = vocabulary.Question
	// Encoding tells what a response to a question is.
	Encoding = vocabulary.Encoding
	// Mechanism is how a question in finite encoding is answered.
	Mechanism = vocabulary.Mechanism
	// Refusal explains why one object was refused.
	Refusal = vocabulary.Refusal
	// Reason says why an object was refused.
	Reason = vocabulary.Reason
	// Remedy says what would make a refused request possible.
	Remedy = vocabulary.Remedy
	// RefusedError reports that a request was refused as a whole because of some of its objects.
	RefusedError = vocabulary.RefusedError
	// AnswerQuote says what an answer about a panel would cost.
	AnswerQuote = vocabulary.AnswerQuote
	// Displaced is a level on offer that objects would lose by being charged for an answer.
	Displaced = vocabulary.Displaced
	// DisplacedError reports that an answer was refused because of such levels.
	DisplacedError = vocabulary.DisplacedError
	// Budget says what some people can answer to a question, as of an event.
	Budget = vocabulary.Budget
	// RefusalSum is how many objects are refused for a reason.
	RefusalSum = vocabulary.RefusalSum
	// Reconciled is what became of the rows about a question.
	Reconciled = vocabulary.Reconciled
	// NameList counts objects, and names the first of them.
	NameList = vocabulary.NameList
	// KeyConflictError names the idempotency key that was used before, for another request. It is
	// an [ErrKeyConflict].
	KeyConflictError = vocabulary.KeyConflictError
	// NameError says which character may not be in a name, and where. It is an [ErrInvalid].
	NameError = vocabulary.NameError
	// ClockError says that the clock is so far ahead of the log that it may well be wrong. It is an
	// [ErrClock].
	ClockError = vocabulary.ClockError
	// ReservationState is the present state of a reservation.
	ReservationState = vocabulary.ReservationState
	// ReservationError reports that a reservation is not open. It is an [ErrNotReserved].
	ReservationError = vocabulary.ReservationError
)

// The states of a reservation; package vocabulary describes them.
const (
	ReservationOpen      = vocabulary.ReservationOpen
	ReservationCaptured  = vocabulary.ReservationCaptured
	ReservationCancelled = vocabulary.ReservationCancelled
	ReservationExpired   = vocabulary.ReservationExpired
)

// The encodings; package vocabulary describes them.
const (
	Direct = vocabulary.Direct
	Unary  = vocabulary.Unary
	Finite = vocabulary.Finite
)

// MaxPanel is the largest number of objects of one answer, sale or reservation, and of the refusals
// that one result lists.
const MaxPanel = vocabulary.MaxPanel

// The reasons for refusing an object; package vocabulary describes them.
const (
	ChainCeiling  = vocabulary.ChainCeiling
	ObjectCap     = vocabulary.ObjectCap
	NotEnrolled   = vocabulary.NotEnrolled
	NoTruth       = vocabulary.NoTruth
	CapDiffers    = vocabulary.CapDiffers
	PolicyDiffers = vocabulary.PolicyDiffers
	Withdrawn     = vocabulary.Withdrawn
	NotForSale    = vocabulary.NotForSale
	NotOnOffer    = vocabulary.NotOnOffer
	BuyerRefused  = vocabulary.BuyerRefused
	SaleClosed    = vocabulary.SaleClosed
	NoNoiseKey    = vocabulary.NoNoiseKey
	NoTruthKey    = vocabulary.NoTruthKey
	EpochBegun    = vocabulary.EpochBegun
	HoldersFull   = vocabulary.HoldersFull
	Full          = vocabulary.Full
	NeedsConsent  = vocabulary.NeedsConsent
)

// CheckName returns nil if a text may be a name in a ledger: of an object, a question, a value, a
// buyer or an idempotency key. Otherwise it returns the [ErrInvalid] that every request with that
// name returns, most often a [*NameError]. what says in the error what is named. A host calls it
// where it takes names from people, such as in a sign-up form.
func CheckName(what, name string) error { return event.CheckName(what, name) }
