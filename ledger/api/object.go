package api

// ObjectRequest asks for something to be done about one object: that it withdraws, is forgotten, or
// gets a statement.
type ObjectRequest struct {
	Key    string `json:"-"`      // idempotency key, 1 to 256 bytes
	Object string `json:"object"` // by its name
}

// EpochRequest asks for a new epoch of an object in a question.
type EpochRequest struct {
	Key      string `json:"-"`        // idempotency key, 1 to 256 bytes
	Object   string `json:"object"`   // by its name
	Question string `json:"question"` // by its name
}
