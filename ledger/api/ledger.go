package api

import "time"

// About tells what a ledger was created with.
type About struct {
	ID       string    `json:"id"`       // a random UUID
	Created  time.Time `json:"created"`  // by the clock of the machine
	Currency string    `json:"currency"` // such as "USD"
	LogKey   string    `json:"log_key"`  // the verifier key of the log, if the host gave one
	Origin   string    `json:"origin"`   // what checkpoints call the log: the name of that key, or one made of the ID
	// MissingJournal is the name of the journal without which the file was opened
	// (ledger.Options.WithoutJournal); else "".
	MissingJournal string `json:"missing_journal,omitempty"`
}
