package api

import (
	"fmt"

	"github.com/sluicedp/sluice/privacy"
)

// Reason is the reason for which an object was refused.
type Reason string

// The reasons for refusing an object.
const (
	// ChainCeiling: the policy of the chain does not allow the requested ε.
	ChainCeiling Reason = "chain-ceiling"
	// ObjectCap: the object would spend more than its cap over all its chains.
	ObjectCap Reason = "object-cap"
	// NotEnrolled: the object is not enrolled in the question.
	NotEnrolled Reason = "not-enrolled"
	// NoTruth: a draw is needed, and the host has no true value for the object. In a ledger with a
	// truth key the true value may also differ from the one that the chain began with. Only the
	// host's process learns which of the two it is, in TruthChanged of the result.
	NoTruth Reason = "no-truth"
	// CapDiffers: the object has another cap, Ceiling, than the requested one, Asked. Enrolling
	// does not change the cap; Ledger.ChangeTerms does.
	CapDiffers Reason = "cap-differs"
	// PolicyDiffers: the object is, or was, enrolled in the question with another policy. Enrolling
	// does not change the policy; Ledger.ChangeTerms does.
	PolicyDiffers Reason = "policy-differs"
	// Withdrawn: the object has withdrawn and was not enrolled in the question again.
	Withdrawn Reason = "withdrawn"
	// NotForSale: the object's policy has no terms of sale.
	NotForSale Reason = "not-for-sale"
	// NotOnOffer: the terms offer other levels: up to Ceiling, in steps of the terms' stride.
	NotOnOffer Reason = "not-on-offer"
	// BuyerRefused: the terms exclude the buyer.
	BuyerRefused Reason = "buyer-refused"
	// SaleClosed: the first day of the terms has not come yet, or their last day is over.
	SaleClosed Reason = "sale-closed"
	// NoNoiseKey: the chain began with a noise key, and the ledger was opened without that key. No
	// new response can be drawn.
	NoNoiseKey Reason = "no-noise-key"
	// NoTruthKey: a draw needs a true value, and the ledger has a truth key but was opened without
	// it.
	NoTruthKey Reason = "no-truth-key"
	// EpochBegun: the object's part of the reservation ended when the object began a new epoch
	// (Ledger.BeginEpoch).
	EpochBegun Reason = "epoch-begun"
	// NeedsConsent: the new terms may allow more than the object has agreed to. Why describes what.
	NeedsConsent Reason = "needs-consent"
	// HoldersFull: the number of buyers that hold or have reserved this level is the limit of the
	// terms.
	HoldersFull Reason = "holders-full"
	// Full: the object's chain would have more than 1,024 entries. Entries are levels, the buyers
	// of each level, and epochs that have ended; those that open reservations will add are
	// included. The reason is also used if the object has 128 open reservations and the request is
	// for another one. Waiting helps if a reservation, or a concurrent request, has the remaining
	// entries.
	Full Reason = "full"
	// NotAvailable: for any of these reasons. It is the only reason that buyers see, and is never
	// in the log.
	NotAvailable Reason = "not-available"
)

// Refusal explains why one object was refused. For [ChainCeiling] and [ObjectCap], the request
// would have cost Cost, and only Remaining was left. Remaining is Ceiling − Spent, less what
// concurrent requests and reservations hold.
type Refusal struct {
	Object    string          `json:"object"`    // by its name
	Reason    Reason          `json:"reason"`    // why the object is refused
	Ceiling   privacy.Epsilon `json:"ceiling"`   // the limit that applies: of the chain or of the object
	Spent     privacy.Epsilon `json:"spent"`     // of Ceiling
	Asked     privacy.Epsilon `json:"asked"`     // the ε of the request
	Cost      privacy.Epsilon `json:"cost"`      // what the request would have added to Spent
	Remaining privacy.Epsilon `json:"remaining"` // the most that could have been added to Spent
	// Remedy is what would help against Reason. After that there may be another reason.
	//   - "nothing": nothing helps
	//   - "waiting": until the policy allows more, the terms open, or a reservation ends
	//   - "enrolling": enrolling the object in the question
	//   - "truth": a true value of the object, from the host
	//   - "key": opening the ledger with the missing key
	//   - "less": only a lower ε; Largest is how much
	//   - "terms": changing the terms first, by Ledger.ChangeTerms
	//   - "consent": a consent of the object, which the host has to state
	Remedy string `json:"helps"`
	// Largest is the largest ε on offer, below Asked, at which the object would not have been
	// refused. It takes into account what was spent, held and recorded at that time, with the same
	// terms and the same buyer. Levels at or below a recorded level count, because they are free.
	// Levels that the buyer holds but that are not on offer any more do not count.
	//
	// It is 0 if there is no such ε. It is also 0 if the reason does not depend on ε: the object is
	// not enrolled, has withdrawn, or does not sell to the buyer now. And it is 0 for the capture
	// of a reservation.
	Largest privacy.Epsilon `json:"largest"`
	// Why describes for people what would be more, for NeedsConsent: 1 to 512 bytes of text. It is
	// "" for all other reasons.
	Why string `json:"why,omitempty"`
}

// String returns the refusal as a sentence for people. It contains the object's name, and never a
// true value.
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

// help returns what helps, as in "waiting helps", and the largest ε that would not be refused, if
// there is one.
func (r Refusal) help() string {
	if r.Largest.IsZero() {
		return r.Remedy + " helps"
	}
	return fmt.Sprintf("%s helps; the largest ε that would do is %s", r.Remedy, r.Largest)
}
