package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/pflag"
	"golang.org/x/mod/sumdb/note"

	"github.com/sluicedp/sluice/ledger"
)

// trust is the checkpoint that the ledger must go on from, whatever is done with it: an older copy, put in its
// place, would draw again what was drawn since.
type trust struct{ file, key string }

func (t *trust) flags(flags *pflag.FlagSet) {
	flags.StringVar(&t.file, "trust", "", "a `FILE` with the newest checkpoint: no command opens an older copy of the ledger (default $LEDGER_CHECKPOINT)")
	flags.StringVar(&t.key, "trust-key", "", "the log's verifier `KEY`, or @FILE with it, that signed the checkpoint (default $LEDGER_LOG_KEY)")
	marksFiles(flags, reads, byName, "trust")
	marksFiles(flags, reads, behind, "trust-key")
}

// settle takes what the flags do not give from the environment.
func (t *trust) settle() {
	if t.file == "" {
		t.file = os.Getenv("LEDGER_CHECKPOINT")
	}
	if t.key == "" {
		t.key = os.Getenv("LEDGER_LOG_KEY")
	}
}

// set has the ledger held against the checkpoint when it is opened.
func (t *trust) set(a *app, options *ledger.Options) error {
	if t.file == "" {
		return nil
	}
	if t.key == "" {
		return usageError(`give --trust-key, or $LEDGER_LOG_KEY, the log key that "ledgerctl init" printed`, "a checkpoint is to be trusted, and no key to check it by is given")
	}
	key, err := a.verifier("--trust-key", t.key)
	if err != nil {
		return err
	}
	signed, err := a.textOrFile("@"+t.file, maxCheckpoint)
	if errors.Is(err, fs.ErrNotExist) {
		return &fault{
			kind: "not-found", code: exitUsage, hint: `"ledgerctl audit checkpoint" makes one`,
			err: fmt.Errorf("there is no checkpoint at %q", t.file),
		}
	}
	options.Checkpoint, options.Verifiers = signed, note.VerifierList(key)
	return err
}
