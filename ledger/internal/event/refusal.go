package event

import (
	"slices"
	"strings"

	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/wire"
)

// ReasonCodes returns the reasons that events contain. The number of a reason on disk is its
// position in the list, from 1, so a new reason must be added at the end.
func ReasonCodes() []api.Reason {
	return []api.Reason{
		api.ChainCeiling, api.ObjectCap, api.NotEnrolled, api.NoTruth,
		api.CapDiffers, api.PolicyDiffers, api.Withdrawn, api.NotForSale,
		api.NotOnOffer, api.BuyerRefused, api.SaleClosed, api.HoldersFull,
		api.NoNoiseKey, api.NoTruthKey, api.EpochBegun, api.NeedsConsent,
		api.Full,
	}
}

// RemedyCodes returns the remedies that events contain, numbered like [ReasonCodes]. It omits
// [RemedyPaying] and the remedies after it. They are for a changed quote, which no event contains.
func RemedyCodes() []string {
	all := Remedies()
	return all[:slices.Index(all, RemedyPaying)]
}

// coded encodes or decodes *v as one byte, which is its position in the list all, from 1. A value
// that is not in the list is encoded as 0. Decoding fails for 0, and for a number above the length
// of the list.
func coded[T comparable](x wire.Codec, v *T, all []T) {
	code := uint8(slices.Index(all, *v) + 1)
	x.U8(&code)
	d := x.Reads()
	switch {
	case d == nil: // x encodes
	case code < 1 || int(code) > len(all):
		d.Fail("unknown code %d", code)
	default:
		*v = all[code-1]
	}
}

// SortRefusals sorts refusals by the names of the objects, in place, and returns them.
func SortRefusals(refused []api.Refusal) []api.Refusal {
	slices.SortFunc(refused, func(a, b api.Refusal) int { return strings.Compare(a.Object, b.Object) })
	return refused
}
