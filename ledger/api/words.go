package api

// Reasons returns all reasons.
func Reasons() []Reason {
	return []Reason{
		ChainCeiling, ObjectCap, NotEnrolled, NoTruth, CapDiffers, PolicyDiffers, Withdrawn, NotForSale,
		NotOnOffer, BuyerRefused, SaleClosed, NoNoiseKey, NoTruthKey, EpochBegun, NeedsConsent, HoldersFull,
		Full, NotAvailable,
	}
}

// Remedies returns all remedies. Events number those before [RemedyPaying] by their places: a new
// one goes right before it.
func Remedies() []Remedy {
	return []Remedy{
		RemedyNothing, RemedyWaiting, RemedyEnrolling, RemedyTruth, RemedyKey, RemedyLess, RemedyTerms,
		RemedyConsent, RemedyPaying, RemedyQuoting,
	}
}

// Encodings returns all encodings. Events number them by their places: a new one goes to the end.
func Encodings() []Encoding { return []Encoding{Direct, Unary, Finite} }
