package ledger

import (
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/api"
)

// The words that a ledger, its hosts and those who verify its documents share are in package
// vocabulary, which links no database. Those that most hosts need have their names here, too.
type (
	// Question is a function of an object with a fixed list of labelled values.
	Question = api.Question
	// Encoding tells what a response to a question is.
	Encoding = api.Encoding
	// Mechanism is how a question in finite encoding is answered.
	Mechanism = api.Mechanism
	// Refusal explains why one object was refused.
	Refusal = api.Refusal
	// Reason says why an object was refused.
	Reason = api.Reason
	// Remedy says what would make a refused request possible.
	Remedy = api.Remedy
	// RefusedError reports that a request was refused as a whole because of some of its objects.
	RefusedError = api.RefusedError
	// AnswerQuote says what an answer about a panel would cost.
	AnswerQuote = api.AnswerQuote
	// Displaced is a level on offer that objects would lose by being charged for an answer.
	Displaced = api.Displaced
	// DisplacedError reports that an answer was refused because of such levels.
	DisplacedError = api.DisplacedError
	// Budget says what some people can answer to a question, as of an event.
	Budget = api.Budget
	// RefusalSum is how many objects are refused for a reason.
	RefusalSum = api.RefusalSum
	// Reconciled is what became of the rows about a question.
	Reconciled = api.Reconciled
	// NameList counts objects, and names the first of them.
	NameList = api.NameList
	// KeyConflictError names the idempotency key that was used before, for another request. It is
	// an [ErrKeyConflict].
	KeyConflictError = api.KeyConflictError
	// NameError says which character may not be in a name, and where. It is an [ErrInvalid].
	NameError = api.NameError
	// ClockError says that the clock is so far ahead of the log that it may well be wrong. It is an
	// [ErrClock].
	ClockError = api.ClockError
	// ReservationState is the present state of a reservation.
	ReservationState = api.ReservationState
	// ReservationError reports that a reservation is not open. It is an [ErrNotReserved].
	ReservationError = api.ReservationError
)

// The states of a reservation; package vocabulary describes them.
const (
	ReservationOpen      = api.ReservationOpen
	ReservationCaptured  = api.ReservationCaptured
	ReservationCancelled = api.ReservationCancelled
	ReservationExpired   = api.ReservationExpired
)

// The encodings; package vocabulary describes them.
const (
	Direct = api.Direct
	Unary  = api.Unary
	Finite = api.Finite
)

// MaxPanel is the largest number of objects of one answer, sale or reservation, and of the refusals
// that one result lists.
const MaxPanel = api.MaxPanel

// The reasons for refusing an object; package vocabulary describes them.
const (
	ChainCeiling  = api.ChainCeiling
	ObjectCap     = api.ObjectCap
	NotEnrolled   = api.NotEnrolled
	NoTruth       = api.NoTruth
	CapDiffers    = api.CapDiffers
	PolicyDiffers = api.PolicyDiffers
	Withdrawn     = api.Withdrawn
	NotForSale    = api.NotForSale
	NotOnOffer    = api.NotOnOffer
	BuyerRefused  = api.BuyerRefused
	SaleClosed    = api.SaleClosed
	NoNoiseKey    = api.NoNoiseKey
	NoTruthKey    = api.NoTruthKey
	EpochBegun    = api.EpochBegun
	HoldersFull   = api.HoldersFull
	Full          = api.Full
	NeedsConsent  = api.NeedsConsent
)

// CheckName returns nil if a text may be a name in a ledger: of an object, a question, a value, a
// buyer or an idempotency key. Otherwise it returns the [ErrInvalid] that every request with that
// name returns, most often a [*NameError]. what says in the error what is named. A host calls it
// where it takes names from people, such as in a sign-up form.
func CheckName(what, name string) error { return event.CheckName(what, name) }
