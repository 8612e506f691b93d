package input

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/output"
	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/rrchain"
)

// HostKeys are the flags for the secret keys of the host: by the truth key people are bound to
// their true values, and responses are drawn from noise keys ([ledger.Options]). Commands that only
// read need none, and open none of the files.
type HostKeys struct {
	Truth   string   `flag:"truth-key,reads"`           // the file with the key
	Noise   []string `flag:"noise-key,repeated,reads="` // NAME=FILE
	Current string   `flag:"noise-key-current,empty"`   // a NAME

	truthGiven, currentGiven bool
}

// Given tells whether any key is given.
func (k *HostKeys) Given() bool { return k.truthGiven || k.currentGiven || len(k.Noise) > 0 }

// Settle notes which flags are given, and refuses those without a file.
func (k *HostKeys) Settle(cmd *cobra.Command) error {
	k.truthGiven, k.currentGiven = cmd.Flags().Changed("truth-key"), cmd.Flags().Changed("noise-key-current")
	names := k.Names()
	for i, given := range k.Noise {
		if name, file, _ := strings.Cut(given, "="); name == "" || file == "" {
			// What is given instead may be the key itself: it is not repeated.
			return output.UsageError("such as --noise-key 2027=noise.key", "--noise-key is not NAME=FILE")
		}
		if slices.Contains(names[:i], names[i]) {
			return output.UsageError("", "--noise-key is given twice for %q", names[i])
		}
	}
	switch {
	case len(names) > 1 && !k.currentGiven:
		return output.UsageError("--noise-key-current NAME; nobody's key changes by it",
			"%d noise keys, and nothing says which is for people who are enrolled from now on", len(names))
	case k.Current != "" && !slices.Contains(names, k.Current):
		return output.UsageError("", "--noise-key-current is %q, and no --noise-key has that name", k.Current)
	case k.currentGiven && len(names) == 0:
		return output.UsageError("", "--noise-key-current is for --noise-key")
	}
	return nil
}

// Names returns the names of the noise keys, as they were given.
func (k *HostKeys) Names() []string {
	names := make([]string, len(k.Noise))
	for i, given := range k.Noise {
		names[i], _, _ = strings.Cut(given, "=")
	}
	return names
}

// Set reads the keys for a ledger that is to be opened for writing.
func (k *HostKeys) Set(ctx context.Context, s *Files, options *ledger.Options) (err error) {
	if options.ReadOnly {
		return nil
	}
	if k.truthGiven {
		if options.TruthKey, err = secret(ctx, s, "--truth-key", k.Truth); err != nil {
			return err
		}
	}
	if len(k.Noise) == 0 {
		return nil
	}
	keys := map[string][]byte{}
	for _, given := range k.Noise {
		name, file, _ := strings.Cut(given, "=")
		key, err := secret(ctx, s, "--noise-key "+name, file)
		if err != nil {
			return err
		}
		if len(key) != rrchain.NoiseKeySize {
			return output.InputError(secretHint, "--noise-key %s: the key in %q has %d bytes, not %d", name, file,
				len(key), rrchain.NoiseKeySize)
		}
		keys[name] = key
	}
	options.NoiseKey = ledger.NoiseKeys{Current: k.currentName(), Key: func(name string) ([]byte, error) {
		key, given := keys[name]
		if !given {
			return nil, output.UsageError("--noise-key "+name+"=FILE gives it",
				"this ledger has had a key of that name, which is not given")
		}
		return key, nil
	}}
	return nil
}

// currentName returns the name of the key for chains that begin.
func (k *HostKeys) currentName() string {
	if k.currentGiven {
		return k.Current
	}
	return k.Names()[0]
}

// leastSecret and mostSecret are the smallest and the largest number of bytes of a key.
// mostSecretFile is more than any file with one has.
const (
	leastSecret    = 16
	mostSecret     = 1 << 10
	mostSecretFile = 4 << 10
)

const secretHint = "such a file holds 32 random bytes, as they are or as 64 hexadecimal digits: " +
	"(umask 077; openssl rand -hex 32 > FILE)"

// secret reads a key from the file that a flag names. No error says anything of what is in the
// file.
func secret(ctx context.Context, s *Files, flag, path string) ([]byte, error) {
	if path == "-" {
		return nil, output.UsageError("", "%s: a key cannot be standard input", flag)
	}
	text, err := s.Bytes(ctx, path, mostSecretFile)
	if errors.Is(err, fs.ErrNotExist) && len(path) >= 2*leastSecret && allDigits(path) {
		return nil, output.UsageError(secretHint,
			"%s is given a key, not the name of a file with one; whoever sees this command line has it now", flag)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &output.Error{Kind: "not-found", Code: output.ExitMisuse, Hint: secretHint,
			Err: fmt.Errorf("%s: there is no key at %q", flag, path)}
	}
	if err != nil {
		return nil, err
	}
	key, ok := parseSecret(text)
	if !ok {
		return nil, output.InputError(secretHint, "%s: %q holds no key", flag, path)
	}
	WarnExposed(s.Out, path)
	return key, nil
}

// parseSecret reads a key: hexadecimal digits in one line, or 32 bytes as they are. (Of such bytes,
// drawn at random, all are digits once in 10³⁴ times.) Only before digits a byte order mark is no
// part of the key.
func parseSecret(text []byte) (key []byte, ok bool) {
	digits := strings.TrimRight(strings.TrimPrefix(string(text), "\ufeff"), "\r\n")
	if allDigits(digits) {
		key, err := hex.DecodeString(digits)
		return key, err == nil && len(key) >= leastSecret && len(key) <= mostSecret
	}
	return text, len(text) == rrchain.NoiseKeySize
}

func allDigits(text string) bool { return strings.Trim(text, "0123456789abcdefABCDEF") == "" }
