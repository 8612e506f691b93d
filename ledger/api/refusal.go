package api

import (
	"fmt"

	"github.com/sluicedp/sluice/privacy"
)

// Reason says why an object was refused.
type Reason string

// The reasons for refusing an object.
const (
	// ChainCeiling: the chain's policy does not allow the ε asked for.
	ChainCeiling Reason = "chain-ceiling"
	// ObjectCap: over all its chains the object would spend more than its cap.
	ObjectCap Reason = "object-cap"
	// NotEnrolled: the object is not enrolled in the question.
	NotEnrolled Reason = "not-enrolled"
	// NoTruth: a draw is needed, and the host has no true value for the object; or, in a ledger
	// with a truth key, another than the one that the chain began with. Only the host's process is
	// told which, beside the result (TruthChanged).
	NoTruth Reason = "no-truth"
	// CapDiffers: the object is known with another cap, Ceiling, than the one Asked for. Enrolling
	// does not change it; Ledger.ChangeTerms does.
	CapDiffers Reason = "cap-differs"
	// PolicyDiffers: the object is, or was, enrolled in the question with another policy. Enrolling
	// does not change it; Ledger.ChangeTerms does.
	PolicyDiffers Reason = "policy-differs"
	// Withdrawn: the object has withdrawn and was not enrolled in the question again.
	Withdrawn Reason = "withdrawn"
	// NotForSale: the object's policy has no terms of sale.
	NotForSale Reason = "not-for-sale"
	// NotOnOffer: the terms offer other levels: up to Ceiling, in steps of their stride.
	NotOnOffer Reason = "not-on-offer"
	// BuyerRefused: the terms bar the buyer.
	BuyerRefused Reason = "buyer-refused"
	// SaleClosed: the terms' first day has not come yet, or their last is over.
	SaleClosed Reason = "sale-closed"
	// NoNoiseKey: the chain began with a noise key that the ledger was opened without, so nothing
	// new can be drawn.
	NoNoiseKey Reason = "no-noise-key"
	// NoTruthKey: a draw from the truth is needed, and the ledger has a truth key that it was
	// opened without.
	NoTruthKey Reason = "no-truth-key"
	// EpochBegun: what was reserved of the object ended when it began a new epoch
	// (Ledger.BeginEpoch).
	EpochBegun Reason = "epoch-begun"
	// NeedsConsent: new terms may allow more than the object has agreed to. Why says what.
	NeedsConsent Reason = "needs-consent"
	// HoldersFull: as many buyers as the terms allow hold this level, or have reserved it.
	HoldersFull Reason = "holders-full"
	// Full: the object's chain of responses would have more than 1,024 entries (levels, the buyers
	// of each, epochs that have ended), with those that open reservations will add; or the object
	// has 128 open reservations, and the request is for another one. Waiting helps if a reservation,
	// or a request that is running, has the rest.
	Full Reason = "full"
	// NotAvailable: for any reason. It is the only one that buyers read, and is in no log.
	NotAvailable Reason = "not-available"
)

// Refusal explains why one object was refused. For the two budget reasons, the request would have
// cost Cost where only Remaining = Ceiling − Spent (less what running orders hold) was left.
type Refusal struct {
	Object    string          `json:"object"`    // by its name
	Reason    Reason          `json:"reason"`    // what stood in the way
	Ceiling   privacy.Epsilon `json:"ceiling"`   // the ceiling that binds: the chain's or the object's
	Spent     privacy.Epsilon `json:"spent"`     // used up under that ceiling
	Asked     privacy.Epsilon `json:"asked"`     // the ε of the request
	Cost      privacy.Epsilon `json:"cost"`      // what it would have added to Spent
	Remaining privacy.Epsilon `json:"remaining"` // what could have been added
	// Remedy is what would help against Reason. When it has helped, there may be another reason.
	//   - "nothing"
	//   - "waiting": until the policy allows more, the terms open, or a reservation ends
	//   - "enrolling": the object, in the question
	//   - "truth": a true value of the object, from the host
	//   - "key": opening the ledger with it
	//   - "less": a lower ε, and nothing else; Largest is how much
	//   - "terms": changing them first, by Ledger.ChangeTerms
	//   - "consent": that of the object, which the host has to state
	Remedy string `json:"helps"`
	// Largest is the largest ε on offer, below Asked, at which the object would not have been
	// refused when it was: with what was spent, held and recorded then, on the same terms, for the
	// same buyer. What is recorded already, or lies below, counts: it is free. What the buyer
	// holds, but is on offer no more, does not count. It is 0 if there is none, and where the
	// reason has nothing to do with ε: who is not enrolled, has withdrawn, or does not sell to the
	// buyer now, and what a reservation that is carried out meets.
	Largest privacy.Epsilon `json:"largest"`
	// Why says what would be more, of NeedsConsent: 1 to 512 bytes of text for people. It is ""
	// for all other reasons.
	Why string `json:"why,omitempty"`
}

// String says the refusal in a sentence, for people. It names the object, and never a truth.
func (r Refusal) String() string {
	switch r.Reason {
	case ChainCeiling, ObjectCap:
		return fmt.Sprintf("object %q: %s: ε=%s asked, which costs %s; the ceiling is %s, %s is spent, %s remains (%s)",
			r.Object, r.Reason, r.Asked, r.Cost, r.Ceiling, r.Spent, r.Remaining, r.help())
	case CapDiffers:
		return fmt.Sprintf("object %q: %s: its cap is %s, not %s (changing its %s helps)",
			r.Object, r.Reason, r.Ceiling, r.Asked, r.Remedy)
	case PolicyDiffers:
		return fmt.Sprintf("object %q: %s (changing its %s helps)", r.Object, r.Reason, r.Remedy)
	case NeedsConsent:
		return fmt.Sprintf("object %q: %s: %s (%s)", r.Object, r.Reason, r.Why, r.help())
	case NotAvailable:
		return fmt.Sprintf("object %q: not available at ε=%s", r.Object, r.Asked)
	default:
		return fmt.Sprintf("object %q: %s (%s)", r.Object, r.Reason, r.help())
	}
}

// help says what helps, and what would do at once.
func (r Refusal) help() string {
	if r.Largest.IsZero() {
		return r.Remedy + " helps"
	}
	return fmt.Sprintf("%s helps; the largest ε that would do is %s", r.Remedy, r.Largest)
}
