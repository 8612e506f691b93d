package input

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/pflag"
	"golang.org/x/mod/sumdb/note"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/output"
	"github.com/sluicedp/sluice/ledger"
)

// Trust is the checkpoint that the ledger must go on from, whatever is done with it: an older copy,
// put in its place, would draw again what was drawn since.
type Trust struct {
	file, key string
	keyGiven  bool // by the flag
}

// Flags adds the flags to all commands.
func (t *Trust) Flags(flags *pflag.FlagSet) {
	flags.StringVar(&t.file, "trust", "",
		"a `FILE` with the newest checkpoint: no command opens an older copy of the ledger "+
			"(default $LEDGER_CHECKPOINT)")
	flags.StringVar(&t.key, "trust-key", "",
		"the log's verifier `KEY`, or @FILE with it, that signed the checkpoint (default $LEDGER_LOG_KEY)")
	Mark(flags, Reads, ByName, "trust")
	Mark(flags, Reads, Behind, "trust-key")
}

// Settle takes what the flags do not give from the environment.
func (t *Trust) Settle() {
	t.keyGiven = t.key != ""
	if t.file == "" {
		t.file = os.Getenv("LEDGER_CHECKPOINT")
	}
	if t.key == "" {
		t.key = os.Getenv("LEDGER_LOG_KEY")
	}
}

// Set has the ledger held against the checkpoint when it is opened.
func (t *Trust) Set(ctx context.Context, s *Files, options *ledger.Options) error {
	// Whoever gives a key expects that something is checked by it.
	if t.file == "" && t.keyGiven {
		return output.UsageError("give --trust FILE, or $LEDGER_CHECKPOINT, the checkpoint that the key has signed",
			"--trust-key needs --trust")
	}
	if t.file == "" {
		return nil
	}
	if t.key == "" {
		return output.UsageError(`give --trust-key, or $LEDGER_LOG_KEY, the log key that "ledgerctl init" printed`,
			"a checkpoint is to be trusted, and no key to check it by is given")
	}
	key, err := verifier(ctx, s, "--trust-key", t.key)
	if err != nil {
		return err
	}
	signed, err := s.TextOrFile(ctx, "@"+t.file, MaxCheckpoint)
	if errors.Is(err, fs.ErrNotExist) {
		return &output.Error{
			Kind: "not-found", Code: output.ExitMisuse, Hint: `"ledgerctl audit checkpoint" makes one`,
			Err: fmt.Errorf("there is no checkpoint at %q", t.file),
		}
	}
	options.Checkpoint, options.Verifiers = signed, note.VerifierList(key)
	return err
}

// MaxCheckpoint is more than any checkpoint has, in bytes.
const MaxCheckpoint = 1 << 20
