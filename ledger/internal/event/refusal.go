package event

import (
	"slices"
	"strings"

	"github.com/sluicedp/sluice/ledger/internal/wire"
	"github.com/sluicedp/sluice/ledger/vocabulary"
	"github.com/sluicedp/sluice/privacy"
)

// ReasonCodes lists the reasons that events give. The number of a reason on disk is its place, from 1: a new one goes to the end.
func ReasonCodes() []vocabulary.Reason {
	return []vocabulary.Reason{
		vocabulary.ChainCeiling, vocabulary.ObjectCap, vocabulary.NotEnrolled, vocabulary.NoTruth, vocabulary.CapDiffers, vocabulary.PolicyDiffers,
		vocabulary.Withdrawn, vocabulary.NotForSale, vocabulary.NotOnOffer, vocabulary.BuyerRefused, vocabulary.SaleClosed, vocabulary.HoldersFull, vocabulary.NoNoiseKey, vocabulary.NoTruthKey, vocabulary.EpochBegun,
	}
}

// RemedyCodes lists what events say helps, numbered as [ReasonCodes] are. What helps against a quote that has become another is in no
// event.
func RemedyCodes() []vocabulary.Remedy {
	return []vocabulary.Remedy{vocabulary.RemedyNothing, vocabulary.RemedyWaiting, vocabulary.RemedyEnrolling, vocabulary.RemedyTruth, vocabulary.RemedyKey, vocabulary.RemedyLess}
}

func encodeRefusal(e *wire.Encoder, r vocabulary.Refusal) {
	e.Text(r.Object)
	e.U8(codeOf(ReasonCodes(), r.Reason))
	e.U8(codeOf(RemedyCodes(), r.Remedy))
	for _, v := range []privacy.Epsilon{r.Ceiling, r.Spent, r.Asked, r.Cost, r.Remaining, r.Largest} {
		e.Epsilon(v)
	}
}

func decodeRefusal(d *wire.Decoder) vocabulary.Refusal {
	r := vocabulary.Refusal{Object: d.Text()}
	r.Reason = fromCode(d, ReasonCodes())
	r.Remedy = fromCode(d, RemedyCodes())
	for _, field := range []*privacy.Epsilon{&r.Ceiling, &r.Spent, &r.Asked, &r.Cost, &r.Remaining, &r.Largest} {
		*field = d.Epsilon()
	}
	return r
}

// codeOf returns the number of a value, or 0 if it has none.
func codeOf[T comparable](codes []T, value T) uint8 {
	for i, code := range codes {
		if code == value {
			return uint8(i + 1)
		}
	}
	return 0
}

// fromCode reads the number of a value.
func fromCode[T any](d *wire.Decoder, codes []T) (value T) {
	code := int(d.U8())
	if code < 1 || code > len(codes) {
		d.Fail("unknown code %d", code)
		return value
	}
	return codes[code-1]
}

// SortRefusals sorts refusals by the names of the objects, in place, and returns them.
func SortRefusals(refused []vocabulary.Refusal) []vocabulary.Refusal {
	slices.SortFunc(refused, func(a, b vocabulary.Refusal) int { return strings.Compare(a.Object, b.Object) })
	return refused
}
