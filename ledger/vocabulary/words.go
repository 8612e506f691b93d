package vocabulary

// Reasons returns all reasons.
func Reasons() []Reason {
	return []Reason{
		ChainCeiling, ObjectCap, NotEnrolled, NoTruth, CapDiffers, PolicyDiffers, Withdrawn, NotForSale, NotOnOffer, BuyerRefused, SaleClosed,
		NoNoiseKey, NoTruthKey, EpochBegun, NeedsConsent, HoldersFull, Full, NotAvailable,
	}
}

// Remedies returns all remedies.
func Remedies() []Remedy {
	return []Remedy{
		RemedyNothing, RemedyWaiting, RemedyEnrolling, RemedyTruth, RemedyKey, RemedyLess, RemedyTerms, RemedyConsent, RemedyPaying, RemedyQuoting,
	}
}

// Encodings returns all encodings.
func Encodings() []Encoding { return []Encoding{Direct, Unary, Finite} }
