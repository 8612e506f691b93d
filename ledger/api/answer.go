package api

import "github.com/sluicedp/sluice/privacy"

// AnswerRequest asks a query about the true values of a panel of objects.
type AnswerRequest struct {
	Key      string `json:"-"`        // idempotency key, 1 to 256 bytes
	Question string `json:"question"` // by its name
	// Query is "majority:VALUE", "threshold:VALUE:N", "plurality" or "winner"; see
	// [mechanism.ParseQuery].
	Query   string          `json:"query"`
	Epsilon privacy.Epsilon `json:"epsilon"`          // above 0
	Objects []string        `json:"objects,omitzero"` // the panel, at most MaxPanel objects, or
	All     bool            `json:"all,omitempty"`    // everyone enrolled in the question by now
	// Partial: leave refused objects out of the panel, rather than refuse the request
	Partial bool `json:"partial,omitempty"`
	// AcceptLoss answers even if the charge takes levels on offer off the market ([Displaced]).
	// It is no part of what the key stands for.
	AcceptLoss bool `json:"accept_loss,omitempty"`
	// Truth: asked for all objects of the panel, unless the answer is recorded
	Truth TruthFunc `json:"-"`
}

// AnswerResult is the answer to a query.
type AnswerResult struct {
	Answer  string          `json:"answer"`  // "yes" or "no", or a value of the question
	Epsilon privacy.Epsilon `json:"epsilon"` // of the answer
	Objects uint64          `json:"objects"` // the size of the panel, without those left out
	Charged privacy.Epsilon `json:"charged"` // to each object of the panel, by this request: ε, or 0
	// Refused were left out, only if the request was partial. Of a recorded answer they are those
	// that were left out when it was first given, without those forgotten since.
	Refused                    List[Refusal] `json:"refused"`
	TruthChanged, TruthInvalid []string      `json:"-"`     // of those refused, for the host alone: see [RaiseResult]
	Event                      uint64        `json:"event"` // the event that recorded the answer
}
