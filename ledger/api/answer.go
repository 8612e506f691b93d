package api

import "github.com/sluicedp/sluice/privacy"

// AnswerRequest requests the answer to a query about the true values of a panel of objects.
type AnswerRequest struct {
	Key      string `json:"-"`        // idempotency key, 1 to 256 bytes
	Question string `json:"question"` // by its name
	// Query is "majority:VALUE", "threshold:VALUE:N", "plurality" or "winner"; see
	// [mechanism.ParseQuery].
	Query   string          `json:"query"`
	Epsilon privacy.Epsilon `json:"epsilon"`          // above 0
	Objects []string        `json:"objects,omitzero"` // the panel, at most MaxPanel objects; or All
	All     bool            `json:"all,omitempty"`    // the panel is every object that is enrolled in the question now
	// Partial leaves refused objects out of the panel, instead of refusing the request.
	Partial bool `json:"partial,omitempty"`
	// AcceptLoss answers even if the charge takes levels on offer off the market ([Displaced]). It
	// is not part of the request that the idempotency key identifies.
	AcceptLoss bool `json:"accept_loss,omitempty"`
	// Truth is called for all objects of the panel that can be charged, unless the answer is
	// recorded.
	Truth TruthFunc `json:"-"`
}

// AnswerResult is the answer to a query.
type AnswerResult struct {
	Answer  string          `json:"answer"`  // "yes" or "no", or a value of the question
	Epsilon privacy.Epsilon `json:"epsilon"` // of the request
	Objects uint64          `json:"objects"` // the size of the panel, without objects that were left out
	Charged privacy.Epsilon `json:"charged"` // to each object of the panel by this request; 0 if it was free
	// Refused are the objects that were left out, if the request was partial. For a recorded answer
	// these are the objects that were left out when it was first given. Objects that were forgotten
	// since are not listed.
	Refused                    List[Refusal] `json:"refused"`
	TruthChanged, TruthInvalid []string      `json:"-"`     // among Refused, for the host only; see [RaiseResult]
	Event                      uint64        `json:"event"` // the event that recorded the answer
}
