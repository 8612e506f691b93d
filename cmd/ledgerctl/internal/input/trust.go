package input

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/mod/sumdb/note"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/output"
	"github.com/sluicedp/sluice/ledger"
)

// Trust is the checkpoint that the ledger must go on from, whatever is done with it: an older copy,
// put in its place, would draw again what was drawn since.
type Trust struct {
	File     string `flag:"trust,reads"`      // the file with the checkpoint
	Key      string `flag:"trust-key,reads@"` // the verifier key that signed it, or @FILE
	keyGiven bool   // by the flag
}

// Settle takes what the flags do not give from the environment.
func (t *Trust) Settle() {
	t.keyGiven = t.Key != ""
	if t.File == "" {
		t.File = os.Getenv("LEDGER_CHECKPOINT")
	}
	if t.Key == "" {
		t.Key = os.Getenv("LEDGER_LOG_KEY")
	}
}

// Set has the ledger held against the checkpoint when it is opened.
func (t *Trust) Set(ctx context.Context, s *Files, options *ledger.Options) error {
	// Whoever gives a key expects that something is checked by it.
	if t.File == "" && t.keyGiven {
		return output.UsageError("give --trust FILE, or $LEDGER_CHECKPOINT, the checkpoint that the key has signed",
			"--trust-key needs --trust")
	}
	if t.File == "" {
		return nil
	}
	if t.Key == "" {
		return output.UsageError(`give --trust-key, or $LEDGER_LOG_KEY, the log key that "ledgerctl init" printed`,
			"a checkpoint is to be trusted, and no key to check it by is given")
	}
	key, err := verifier(ctx, s, "--trust-key", t.Key)
	if err != nil {
		return err
	}
	signed, err := s.TextOrFile(ctx, "@"+t.File, MaxCheckpoint)
	if errors.Is(err, fs.ErrNotExist) {
		return &output.Error{
			Kind: "not-found", Code: output.ExitMisuse, Hint: `"ledgerctl audit checkpoint" makes one`,
			Err: fmt.Errorf("there is no checkpoint at %q", t.File),
		}
	}
	options.Checkpoint, options.Verifiers = signed, note.VerifierList(key)
	return err
}

// MaxCheckpoint is more than any checkpoint has, in bytes.
const MaxCheckpoint = 1 << 20
