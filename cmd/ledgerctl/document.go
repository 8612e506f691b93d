package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/mod/sumdb/note"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/fault"
	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/files"
	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/keys"
	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/output"
	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/words"
	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/evidence"
)

// What receipts and statements have in common.

// document is a receipt or a statement.
type document interface {
	Verify(note.Verifiers) evidence.Checked
}

// writeDocument writes a document in the one form that its reader accepts: nothing may be added to it, not even the
// end of a line.
func writeDocument(file *files.Output, d document) error {
	return file.Save(func(w io.Writer) error {
		text, err := json.Marshal(d)
		if err == nil {
			_, err = w.Write(text)
		}
		return err
	})
}

// oneFile completes the name of a file as the only argument.
func oneFile(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return nil, cobra.ShellCompDirectiveDefault
}

// verifyHelp explains what verifying a document shows.
const verifyHelp = `The ledger is not needed. Everything that was altered is named, and the exit code is then 4.

The log key, --vkey, should come from whoever keeps the ledger, not from the file itself. Without it nothing verifies,
since anybody can have made the file, and the exit code is 4. With --self, in its place, the file is only held against
itself: whether it is whole, but not who made it.`

// verdict is what verifying a document found.
type verdict struct {
	OK     bool `json:"ok"`     // nothing is wrong
	Signed bool `json:"signed"` // by --vkey
	evidence.Head
	// UnknownCosigners are the keys besides the log's whose signatures nobody looked at; see [evidence.Checked].
	UnknownCosigners []string `json:"unknown_cosigners,omitempty"`
	Problems         []string `json:"problems"`
	hint             string   // what may be the reason
}

// unsigned says what a document is worth that was verified without a key.
const unsigned = "without --vkey nobody's signature is checked: anybody can have made it"

// proofFlags are the flags of commands that verify a document.
type proofFlags struct {
	vkey keys.Verifier
	self bool
}

func (f *proofFlags) flags(cmd *cobra.Command) {
	f.vkey.Flag(cmd, "none, and then it does not verify")
	cmd.Flags().BoolVar(&f.self, "self", false, "only hold the file against itself, without a key")
}

// load returns the key, or nil for a file that is only held against itself, or not even that.
func (f *proofFlags) load(ctx context.Context, a *app) (note.Verifier, error) {
	key, err := f.vkey.Load(ctx, a.Files)
	if key != nil && f.self {
		return nil, fault.Usage("give one of them", "--vkey and --self exclude each other")
	}
	return key, err
}

// verify reads a document and verifies it. If it cannot be read, that is the only problem.
func verify[D document](a *app, cmd *cobra.Command, path string, f *proofFlags, read func([]byte) (D, error)) (d D, v verdict, err error) {
	key, err := f.load(cmd.Context(), a)
	if err != nil {
		return d, v, err
	}
	text, err := a.TextOrFile(cmd.Context(), "@"+path, evidence.MaxDocument+1)
	if err != nil {
		return d, v, err
	}
	if d, err = read(text); err != nil {
		v.Problems = []string{strings.TrimPrefix(err.Error(), ledger.ErrInvalid.Error()+": ")}
		v.hint = "it is not what this command reads, or was damaged or altered"
		return d, v, nil
	}
	var keys note.Verifiers
	v.Problems = []string{}
	switch {
	case key != nil:
		keys = note.VerifierList(key)
	case !f.self:
		v.Problems = []string{unsigned}
	}
	found := d.Verify(keys)
	v.Head, v.Signed, v.UnknownCosigners = found.Head, found.Signed, found.Ignored
	for _, p := range found.Faults {
		v.Problems = append(v.Problems, p.String())
	}
	v.OK = len(v.Problems) == 0 && (f.self || v.Signed)
	v.hint = "it was damaged or altered"
	switch {
	case f.self || v.Signed:
	case key != nil:
		v.hint += ", or --vkey is the key of another ledger"
	case len(v.Problems) == 1:
		v.hint = "--vkey KEY gives the log key; --self only asks whether the file agrees with itself"
	}
	return d, v, nil
}

// report prints a verdict, and returns it as an error if it is bad.
func (a *app) report(what, path string, v verdict, r output.Result) error {
	if err := a.Print(r); err != nil || v.OK {
		return err
	}
	return &fault.Fault{
		Kind: "problems", Code: fault.Integrity, Hint: v.hint,
		Err: fmt.Errorf("the %s %q does not verify: %s", what, path, words.Counted(len(v.Problems), "problem")),
	}
}

func (v verdict) Table(w io.Writer) {
	if v.Events > 0 {
		tableHead(w, v.Head)
	}
	switch {
	case !v.OK:
		fmt.Fprintf(w, "verifies\tNO: %s\n", words.Counted(len(v.Problems), "problem"))
	case !v.Signed:
		fmt.Fprint(w, "verifies\tagainst itself only: anybody can have made it\n")
	default:
		fmt.Fprint(w, "verifies\tyes, signed by the log key\n")
	}
	for _, key := range v.UnknownCosigners {
		fmt.Fprintf(w, "does not count\ta signature by %s, which anybody can have added\n", words.OneLine(key))
	}
	if len(v.Problems) > 0 {
		fmt.Fprintln(w, "\nWHAT IS WRONG")
	}
	for _, p := range v.Problems {
		fmt.Fprintln(w, words.OneLine(p))
	}
}
