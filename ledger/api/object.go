package api

// ObjectRequest is a request about one object: to withdraw it, to forget it, or to make its
// statement.
type ObjectRequest struct {
	Key    string `json:"-"`      // idempotency key, 1 to 256 bytes
	Object string `json:"object"` // by its name
}

// EpochRequest requests a new epoch of an object in a question.
type EpochRequest struct {
	Key      string `json:"-"`        // idempotency key, 1 to 256 bytes
	Object   string `json:"object"`   // by its name
	Question string `json:"question"` // by its name
}
