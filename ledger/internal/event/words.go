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

// Remedies returns all remedies. Events number those before [api.RemedyPaying] by their places: a new
// one goes right before it.
func Remedies() []api.Remedy {
	return []api.Remedy{
		api.RemedyNothing, api.RemedyWaiting, api.RemedyEnrolling, api.RemedyTruth, api.RemedyKey, api.RemedyLess,
		api.RemedyTerms, api.RemedyConsent, api.RemedyPaying, api.RemedyQuoting,
	}
}

// Encodings returns all encodings. Events number them by their places: a new one goes to the end.
func Encodings() []api.Encoding { return []api.Encoding{api.Direct, api.Unary, api.Finite} }

// ReservationStates returns all states.
func ReservationStates() []api.ReservationState {
	return []api.ReservationState{
		api.ReservationOpen, api.ReservationCaptured, api.ReservationCancelled, api.ReservationExpired,
	}
}

// CheckReservationStates refuses what is no state.
func CheckReservationStates(states []api.ReservationState) error {
	for _, one := range states {
		if !slices.Contains(ReservationStates(), one) {
			return errs.Invalid("reservations: %.256q is no state; the states are %q", one, ReservationStates())
		}
	}
	return nil
}

// Unexplained returns refusals as the buyer of an order may see them: of which objects, at which ε,
// and nothing else.
func Unexplained(all []api.Refusal) []api.Refusal {
	out := make([]api.Refusal, len(all))
	for i, r := range all {
		out[i] = api.Refusal{Object: r.Object, Reason: api.NotAvailable, Asked: r.Asked, Remedy: api.RemedyNothing}
	}
	return out
}
