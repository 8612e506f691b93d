package api

import "time"

// About describes what a ledger was created with.
type About struct {
	ID       string    `json:"id"`       // a random UUID
	Created  time.Time `json:"created"`  // by the clock of the machine
	Currency string    `json:"currency"` // for example "USD"
	LogKey   string    `json:"log_key"`  // the verifier key of the log; "" if the host gave none
	// Origin is the name of the log in checkpoints. It is the name in LogKey, or a name that is
	// made from ID.
	Origin string `json:"origin"`
	// MissingJournal is the name of the journal that was missing when the file was opened with
	// ledger.Options.WithoutJournal. Otherwise it is "".
	MissingJournal string `json:"missing_journal,omitempty"`
}
