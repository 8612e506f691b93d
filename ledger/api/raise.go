package api

import "github.com/sluicedp/sluice/privacy"

// Response is the answer of one object to a question at one ε. It never changes.
type Response struct {
	Object   string          `json:"object"`   // who answers
	Question string          `json:"question"` // by its name
	Epsilon  privacy.Epsilon `json:"epsilon"`  // the level
	Value    string          `json:"response"` // as the question's encoding puts it in words
	Event    uint64          `json:"event"`    // the event that recorded it
}

// RaiseRequest asks for the responses of many objects at one ε.
type RaiseRequest struct {
	Key      string          `json:"-"`                 // idempotency key, 1 to 256 bytes
	Question string          `json:"question"`          // by its name
	Epsilon  privacy.Epsilon `json:"epsilon"`           // above 0
	Objects  []string        `json:"objects,omitzero"`  // the objects, or
	All      bool            `json:"all,omitempty"`     // everyone enrolled in the question, who has not withdrawn
	Partial  bool            `json:"partial,omitempty"` // leave refused objects out, rather than refuse the request
	Truth    TruthFunc       `json:"-"`                 // asked for the objects whose current level lies below ε
	// Progress, if set, is called now and then with the number of objects done and the number in all,
	// on the goroutine of the caller. It may use the ledger, and delays no other caller. If it
	// panics, the panic continues when the transaction in progress has ended.
	Progress func(done, total int) `json:"-"`
}

// RaiseResult tells what a raise did. Drawn, Reused and Derived add up to the objects answered;
// with Refused and Unlisted, to all.
type RaiseResult struct {
	Drawn   int `json:"drawn"`   // drawn above the current level, charged to the object
	Reused  int `json:"reused"`  // recorded before at this ε, and free
	Derived int `json:"derived"` // drawn below the current level without the truth, and free
	// Refused were left out, only if the request was partial: the first [MaxPanel] of them.
	// ledger.Ledger.Refusals yields all.
	Refused  List[Refusal] `json:"refused"`
	Unlisted int           `json:"unlisted,omitempty"` // how many more were left out, or were and are forgotten since
	// TruthChanged are those of Refused whose true value is another than the one that their chain
	// began with (see ledger.Options.TruthKey). Who learns that somebody's value has changed learns
	// something about the values: this is for the host alone, and nobody else is told, nor is it
	// told again for the same key. Parts of the request that were carried out by an earlier call
	// are not in it.
	TruthChanged []string `json:"-"`
	// TruthInvalid are those of Refused whose true value is not one of the question's. It is for
	// the host alone, like TruthChanged.
	TruthInvalid []string `json:"-"`
	First        uint64   `json:"first"` // first and last event; other requests' events may lie between
	Last         uint64   `json:"last"`  // as First
}
