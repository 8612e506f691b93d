package event

import (
	"slices"

	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/errs"
)

// Reasons returns all reasons.
func Reasons() []api.Reason {
	return []api.Reason{
		api.ChainCeiling, api.ObjectCap, api.NotEnrolled, api.NoTruth, api.CapDiffers, api.PolicyDiffers,
		api.Withdrawn, api.NotForSale, api.NotOnOffer, api.BuyerRefused, api.SaleClosed, api.NoNoiseKey,
		api.NoTruthKey, api.EpochBegun, api.NeedsConsent, api.HoldersFull, api.Full, api.NotAvailable,
	}
}

// The remedies, which [api.Refusal] and [api.QuoteError] describe.
const (
	RemedyNothing   = "nothing"
	RemedyWaiting   = "waiting"
	RemedyEnrolling = "enrolling"
	RemedyTruth     = "truth"
	RemedyKey       = "key"
	RemedyLess      = "less"
	RemedyTerms     = "terms"
	RemedyConsent   = "consent"
	RemedyPaying    = "paying"
	RemedyQuoting   = "quoting"
)

// Remedies returns all remedies. Events number those before [RemedyPaying] by their positions, so
// a new remedy must be added right before it.
func Remedies() []string {
	return []string{
		RemedyNothing, RemedyWaiting, RemedyEnrolling, RemedyTruth, RemedyKey, RemedyLess,
		RemedyTerms, RemedyConsent, RemedyPaying, RemedyQuoting,
	}
}

// The encodings, which [api.Question] describes.
const (
	EncodingDirect = "direct"
	EncodingUnary  = "unary"
	EncodingFinite = "finite"
)

// Encodings returns all encodings. Events number them by their positions, so a new one must be
// added at the end.
func Encodings() []string { return []string{EncodingDirect, EncodingUnary, EncodingFinite} }

// The states of reservations, which [api.Reservation] describes.
const (
	ReservationOpen      = "open"
	ReservationCaptured  = "captured"
	ReservationCancelled = "cancelled"
	ReservationExpired   = "expired"
)

// ReservationStates returns all states.
func ReservationStates() []string {
	return []string{
		ReservationOpen, ReservationCaptured, ReservationCancelled, ReservationExpired,
	}
}

// CheckReservationStates returns [errs.ErrInvalid] if one of the states is not in
// [ReservationStates].
func CheckReservationStates(states []string) error {
	for _, one := range states {
		if !slices.Contains(ReservationStates(), one) {
			return errs.Invalid("reservations: unknown state %.256q; the states are %q", one, ReservationStates())
		}
	}
	return nil
}

// Unexplained returns copies of refusals as the buyer of an order may see them. They have only the
// object and the requested ε. Their reason is [api.NotAvailable], and their remedy [RemedyNothing].
func Unexplained(all []api.Refusal) []api.Refusal {
	out := make([]api.Refusal, len(all))
	for i, r := range all {
		out[i] = api.Refusal{Object: r.Object, Reason: api.NotAvailable, Asked: r.Asked, Remedy: RemedyNothing}
	}
	return out
}
