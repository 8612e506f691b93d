package input

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"golang.org/x/mod/sumdb/note"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/output"
	"github.com/sluicedp/sluice/internal/ledgerfile"
)

// maxKey is more than any key has, in bytes.
const maxKey = 64 << 10

// secretPrefix begins every signing key. No message may contain one.
const secretPrefix = "PRIVATE+KEY+"

// Signer is the flag --signer.
type Signer struct {
	Path string `flag:"signer,reads"` // the file, or "" for the one beside the ledger
}

// SignerFile is where the signing key of a ledger is unless a flag names another file.
func SignerFile(db string) string { return ledgerfile.Beside(db, ledgerfile.SigningKey) }

// Load reads the signing key. No error says anything of what is in the file.
func (f *Signer) Load(ctx context.Context, s *Files, db string) (note.Signer, error) {
	path := cmp.Or(f.Path, SignerFile(db))
	text, err := s.TextOrFile(ctx, "@"+path, maxKey)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &output.Error{
			Kind: "not-found", Code: output.ExitMisuse,
			Hint: `"ledgerctl init" made one together with the ledger; --signer FILE says where it is now`,
			Err:  fmt.Errorf("there is no signing key at %q", path),
		}
	}
	if err != nil {
		return nil, err
	}
	signer, err := note.NewSigner(strings.TrimSpace(string(text)))
	if err == nil {
		WarnExposed(s.Out, path)
		return signer, nil
	}
	what := "holds no signing key"
	if _, err := note.NewVerifier(strings.TrimSpace(string(text))); err == nil {
		what = "holds a log key, by which signatures are checked, not the signing key"
	}
	return nil, output.InputError("a signing key is one line that begins with "+secretPrefix+
		`, as "ledgerctl init" wrote it`, "%q %s", path, what)
}

// OtherSigner is the hint against a key that is not the ledger's.
const OtherSigner = `--signer FILE names the key that "ledgerctl init" wrote for this ledger`

// CheckSigner refuses a key whose signatures nobody could check who has the ledger's log key.
func CheckSigner(signer note.Signer, logKey string) error {
	ours, err := note.NewVerifier(logKey)
	if err != nil {
		return nil // the ledger names no key
	}
	if ours.Name() != signer.Name() || ours.KeyHash() != signer.KeyHash() {
		return output.UsageError(OtherSigner, "the signing key %s is not the one of this ledger's log key, %s",
			keyID(signer.Name(), signer.KeyHash()), keyID(ours.Name(), ours.KeyHash()))
	}
	return nil
}

// keyID is the beginning of a verifier key, by which people know it.
func keyID(name string, hash uint32) string { return fmt.Sprintf("%s+%08x", name, hash) }

// Verifier is the flag --vkey.
type Verifier struct {
	Text string `flag:"vkey,reads@"`
}

// Load returns the key, or nil if none is given.
func (f *Verifier) Load(ctx context.Context, s *Files) (note.Verifier, error) {
	if f.Text == "" {
		return nil, nil
	}
	return verifier(ctx, s, "--vkey", f.Text)
}

// verifier reads a verifier key that a flag gave.
func verifier(ctx context.Context, s *Files, flag, given string) (note.Verifier, error) {
	text, err := s.TextOrFile(ctx, given, maxKey)
	if err != nil {
		return nil, err
	}
	key := strings.TrimSpace(string(text))
	verifier, err := note.NewVerifier(key)
	switch {
	case err == nil:
		return verifier, nil
	case key == "":
		return nil, output.UsageError("", "%s is empty", flag)
	case strings.HasPrefix(key, secretPrefix):
		// Whoever checks should not have it: it would prove nothing to them.
		return nil, output.UsageError("the log key is the public one of the pair",
			"%s is given a signing key, which must stay secret", flag)
	default:
		return nil, output.UsageError(`it looks like sluice-1a2b3c4d+5e6f7a8b+AaBb…; "ledgerctl init" printed it `+
			"as log key; @FILE reads it from a file", "%s is no verifier key", flag)
	}
}
