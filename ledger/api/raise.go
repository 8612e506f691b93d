package api

import "github.com/sluicedp/sluice/privacy"

// Response is the answer of one object to a question at one ε. It never changes.
type Response struct {
	Object   string          `json:"object"`   // the object that answers, by its name
	Question string          `json:"question"` // by its name
	Epsilon  privacy.Epsilon `json:"epsilon"`  // the level
	Value    string          `json:"response"` // formatted as the question's encoding defines
	Event    uint64          `json:"event"`    // the event that recorded it
}

// RaiseRequest requests the responses of many objects at one ε.
type RaiseRequest struct {
	Key      string          `json:"-"`                // idempotency key, 1 to 256 bytes
	Question string          `json:"question"`         // by its name
	Epsilon  privacy.Epsilon `json:"epsilon"`          // above 0
	Objects  []string        `json:"objects,omitzero"` // the objects; or All
	// All raises every object that is enrolled in the question and has not withdrawn.
	All bool `json:"all,omitempty"`
	// Partial leaves refused objects out, instead of refusing the request.
	Partial bool      `json:"partial,omitempty"`
	Truth   TruthFunc `json:"-"` // called for objects whose current level is below ε
	// Progress, if set, is called now and then with the number of objects done and the total. It is
	// called on the goroutine of the caller, may use the ledger, and delays no other caller. If it
	// panics, the panic continues after the transaction in progress has ended.
	Progress func(done, total int) `json:"-"`
}

// RaiseResult reports what a raise did. Drawn, Reused and Derived add up to the number of objects
// that have a response. With Refused and Unlisted they add up to the number of all objects.
type RaiseResult struct {
	Drawn   int `json:"drawn"`   // drawn above the current level, charged to the object
	Reused  int `json:"reused"`  // recorded before at this ε, at no cost
	Derived int `json:"derived"` // derived below the current level without a true value, at no cost
	// Refused are the objects that were left out, if the request was partial: the first [MaxPanel]
	// of them. ledger.Ledger.Refusals yields all.
	Refused List[Refusal] `json:"refused"`
	// Unlisted is the number of objects left out that Refused does not list, including objects that
	// were forgotten since.
	Unlisted int `json:"unlisted,omitempty"`
	// TruthChanged are the objects of Refused whose true value differs from the one that their
	// chain began with (see ledger.Options.TruthKey). That a value has changed reveals something
	// about the values. This field is therefore for the host only, and a repeated request with the
	// same key does not return it again. It does not cover parts of the request that an earlier
	// call executed.
	TruthChanged []string `json:"-"`
	// TruthInvalid are the objects of Refused whose true value is not one of the question's values.
	// It is for the host only, like TruthChanged.
	TruthInvalid []string `json:"-"`
	First        uint64   `json:"first"` // first event of the request; other requests' events may be between
	Last         uint64   `json:"last"`  // last event of the request
}
