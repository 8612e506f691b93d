package main

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/mod/sumdb/note"

	"github.com/sluicedp/sluice/ledger"
)

// maxKey is more than any key has, in bytes.
const maxKey = 64 << 10

// secretPrefix begins every signing key. No message may contain one.
const secretPrefix = "PRIVATE+KEY+"

// signerFlag is the flag --signer.
type signerFlag struct{ path string }

func (f *signerFlag) flag(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.path, "signer", "", `the `+"`FILE`"+` with the signing key that "ledgerctl init" wrote (default: the ledger's name and .key)`)
	marksFiles(cmd.Flags(), reads, byName, "signer")
}

func (f *signerFlag) file(a *app) string {
	if f.path == "" {
		return a.db + ".key"
	}
	return f.path
}

// load reads the signing key. No error says anything of what is in the file.
func (f *signerFlag) load(a *app, cmd *cobra.Command) (note.Signer, error) {
	path := f.file(a)
	text, err := a.textOrFile("@"+path, maxKey)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &fault{
			kind: "not-found", code: exitUsage, hint: `"ledgerctl init" made one together with the ledger; --signer FILE says where it is now`,
			err: fmt.Errorf("there is no signing key at %q", path),
		}
	}
	if err != nil {
		return nil, err
	}
	signer, err := note.NewSigner(strings.TrimSpace(string(text)))
	if err == nil {
		a.warnExposed(path)
		return signer, nil
	}
	what := "holds no signing key"
	if _, err := note.NewVerifier(strings.TrimSpace(string(text))); err == nil {
		what = "holds a log key, by which signatures are checked, not the signing key"
	}
	return nil, inputError(`a signing key is one line that begins with `+secretPrefix+`, as "ledgerctl init" wrote it`, "%q %s", path, what)
}

// withSigner opens the ledger together with the key that signs its log.
func (a *app) withSigner(mode access, signer note.Signer, use func(*ledger.Ledger) error) error {
	opened := false
	err := a.withOptions(ledger.Options{ReadOnly: bool(mode), Signer: signer}, func(l *ledger.Ledger) error {
		opened = true
		if err := checkSigner(signer, l.About().LogKey); err != nil {
			return err
		}
		return use(l)
	})
	if !opened && errors.Is(err, ledger.ErrInvalid) {
		return &fault{kind: "usage", code: exitUsage, hint: otherSigner, err: err}
	}
	return err
}

const otherSigner = `--signer FILE names the key that "ledgerctl init" wrote for this ledger`

// checkSigner refuses a key whose signatures nobody could check who has the ledger's log key.
func checkSigner(signer note.Signer, logKey string) error {
	ours, err := note.NewVerifier(logKey)
	if err != nil {
		return nil // the ledger names no key
	}
	if ours.Name() != signer.Name() || ours.KeyHash() != signer.KeyHash() {
		return usageError(otherSigner, "the signing key %s is not the one of this ledger's log key, %s", keyID(signer.Name(), signer.KeyHash()), keyID(ours.Name(), ours.KeyHash()))
	}
	return nil
}

// keyID is the beginning of a verifier key, by which people know it.
func keyID(name string, hash uint32) string { return fmt.Sprintf("%s+%08x", name, hash) }

// vkeyFlag is the flag --vkey.
type vkeyFlag struct{ text string }

func (f *vkeyFlag) flag(cmd *cobra.Command, otherwise string) {
	cmd.Flags().StringVar(&f.text, "vkey", "", "the log's verifier `KEY`, which \"ledgerctl init\" printed as log key, or @FILE with it (default: "+otherwise+")")
	marksFiles(cmd.Flags(), reads, behind, "vkey")
}

// load returns the key, or nil if none is given.
func (f *vkeyFlag) load(a *app, cmd *cobra.Command) (note.Verifier, error) {
	if !cmd.Flags().Changed("vkey") {
		return nil, nil
	}
	return a.verifier("--vkey", f.text)
}

// verifier reads a verifier key that a flag gave.
func (a *app) verifier(flag, given string) (note.Verifier, error) {
	text, err := a.textOrFile(given, maxKey)
	if err != nil {
		return nil, err
	}
	key := strings.TrimSpace(string(text))
	verifier, err := note.NewVerifier(key)
	switch {
	case err == nil:
		return verifier, nil
	case key == "":
		return nil, usageError("", "%s is empty", flag)
	case strings.HasPrefix(key, secretPrefix):
		// Whoever checks should not have it: it would prove nothing to them.
		return nil, usageError("the log key is the public one of the pair", "%s is given a signing key, which must stay secret", flag)
	default:
		return nil, usageError(`it looks like sluice-1a2b3c4d+5e6f7a8b+AaBb…; "ledgerctl init" printed it as log key; @FILE reads it from a file`, "%s is no verifier key", flag)
	}
}
