package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/mod/sumdb/note"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/input"
	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/output"
	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/evidence"
)

// document is a receipt or a statement.
type document interface {
	Verify(note.Verifiers) evidence.Checked
}

// writeDocument writes a document in the one form that its reader accepts: nothing may be added to
// it, not even the end of a line.
func writeDocument(file *input.Output, d document) error {
	return file.Save(func(w io.Writer) error {
		text, err := json.Marshal(d)
		if err == nil {
			_, err = w.Write(text)
		}
		return err
	})
}

// documentOut adds the flags --signer and --out to a command that makes a document.
func (a *app) documentOut(cmd *cobra.Command, out *string, what string) {
	a.signer.Flag(cmd)
	cmd.Flags().StringVar(out, "out", "", "the `FILE` for the "+what+", as JSON, "+ownerOnly)
	input.Mark(cmd.Flags(), input.Writes, input.ByName, "out")
	require(cmd, "out")
}

func (a *app) receiptCommand() *cobra.Command {
	return output.Group("receipt", "say whether to make or to verify a receipt",
		a.receiptMakeCommand(), a.receiptVerifyCommand())
}

// writeReceipt makes the receipt of a sale, and writes it to a file.
func writeReceipt(ctx context.Context, l book, sale uint64, file *input.Output) (evidence.Receipt, error) {
	r, err := l.Receipt(ctx, sale)
	if err == nil {
		err = writeDocument(file, r)
	}
	return r, err
}

func (a *app) receiptMakeCommand() *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:               "make SALE --out FILE",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.saleNumbers,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.receiptMake(cmd.Context(), args[0],
				out)
		},
	}
	a.documentOut(cmd, &out, "receipt")
	return cmd
}

func (a *app) receiptMake(ctx context.Context, number, path string) error {
	sale, err := strconv.ParseUint(number, 10, 64)
	if err != nil {
		return output.UsageError(salesHint, "%q is not the number of a sale", number)
	}
	if err := a.loadSigner(ctx); err != nil {
		return err
	}
	file, err := a.NewOutput("--out", path)
	if err != nil {
		return err
	}
	defer file.Discard()
	var out output.Fields
	err = a.with(ctx, reading, func(l book) error {
		receipt, err := writeReceipt(ctx, l, sale, file)
		out = newSold(receipt)
		return err
	})
	if errors.Is(err, ledger.ErrUnknown) {
		return &output.Error{Kind: "unknown", Code: output.ExitMisuse, Hint: salesHint, Err: err}
	}
	if err != nil {
		return err
	}
	out.Add("out", "receipt", path)
	return a.Print(out)
}

const salesHint = `"ledgerctl sell" printed the number; "ledgerctl sales" lists it with every sale`

func (a *app) receiptVerifyCommand() *cobra.Command {
	return verifyCommand(a, "receipt", &cobra.Command{
		Use:               "verify FILE",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: oneFile,
	}, evidence.ReadReceipt, newSold)
}

func (a *app) statementCommand() *cobra.Command {
	return output.Group("statement", "say whether to make or to verify a statement",
		a.statementMakeCommand(), a.statementVerifyCommand())
}

func (a *app) statementMakeCommand() *cobra.Command {
	var path string
	cmd := &cobra.Command{
		Use:  "make OBJECT --out FILE",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return a.statementMake(cmd, args[0], path) },
	}
	a.keyFlag(cmd, "")
	a.documentOut(cmd, &path, "statement")
	return cmd
}

func (a *app) statementMake(cmd *cobra.Command, object, path string) error {
	if err := a.loadSigner(cmd.Context()); err != nil {
		return err
	}
	file, err := a.NewOutput("--out", path)
	if err != nil {
		return err
	}
	defer file.Discard()
	return unknownPerson(a.change(cmd, func(ctx context.Context, l book) (string, output.Result, error) {
		statement, err := l.Statement(ctx, a.key, object)
		if err == nil {
			err = output.Unfinished("the statement is recorded, but not written", 0, writeDocument(file, statement))
		}
		out := newStated(statement)
		out.Add("key", "key", a.key)
		out.Add("out", "statement", path)
		return "the statement is recorded", out, err
	}))
}

func (a *app) statementVerifyCommand() *cobra.Command {
	return verifyCommand(a, "statement", &cobra.Command{
		Use:               "verify FILE",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: oneFile,
	}, evidence.ReadStatement, newStated)
}

// proofFlags are the flags of commands that verify a document.
type proofFlags struct {
	vkey input.Verifier
	self bool
}

// load returns the key, or nil for a file that is only held against itself, or not even that.
func (f *proofFlags) load(ctx context.Context, a *app) (note.Verifier, error) {
	key, err := f.vkey.Load(ctx, a.Files)
	if key != nil && f.self {
		return nil, output.UsageError("give one of them", "--vkey and --self exclude each other")
	}
	return key, err
}

// verifyCommand completes a command that verifies a document. said returns what the document says.
func verifyCommand[D document](a *app, what string, cmd *cobra.Command, read func([]byte) (D, error),
	said func(D) output.Fields) *cobra.Command {
	var f proofFlags
	cmd.Args = cobra.ExactArgs(1)
	cmd.ValidArgsFunction = oneFile
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		d, v, err := verify(a, cmd, args[0], &f, read)
		if err != nil {
			return err
		}
		var out output.Fields
		out.Add("ok", "", v.ok)
		out.Add("signed", "", v.checked.Signed)
		out.Inline(v.checked.Head)
		out.AddNonZero("unknown_cosigners", "", v.checked.Ignored)
		out.Add("problems", "", v.problems)
		if v.unread {
			out.Inline(said(d))
		} else {
			out = append(out, said(d)...)
		}
		v.describe(&out)
		if err := a.Print(out); err != nil || v.ok {
			return err
		}
		return &output.Error{
			Kind: "problems", Code: output.ExitIntegrity, Hint: v.hint,
			Err: fmt.Errorf("the %s %q does not verify: %s", what, args[0], output.Counted(len(v.problems), "problem")),
		}
	}
	input.MarkArguments(cmd, input.Reads)
	f.vkey.Flag(cmd, "none, and then it does not verify")
	cmd.Flags().BoolVar(&f.self, "self", false, "only hold the file against itself, without a key")
	return cmd
}

// oneFile completes the name of a file as the only argument.
func oneFile(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return nil, cobra.ShellCompDirectiveDefault
}

// verdict is the result of verifying a document.
type verdict struct {
	ok       bool
	unread   bool // the file is no such document
	checked  evidence.Checked
	problems []string
	hint     string // what may be the reason
}

// verify reads a document and verifies it. If it cannot be read, that is the only problem.
func verify[D document](a *app, cmd *cobra.Command, path string, f *proofFlags, read func([]byte) (D, error)) (d D,
	v verdict, err error) {
	key, err := f.load(cmd.Context(), a)
	if err != nil {
		return d, v, err
	}
	text, err := a.TextOrFile(cmd.Context(), "@"+path, evidence.MaxDocument+1)
	if err != nil {
		return d, v, err
	}
	if d, err = read(text); err != nil {
		v.unread = true
		v.problems = []string{strings.TrimPrefix(err.Error(), ledger.ErrInvalid.Error()+": ")}
		v.hint = "it is not what this command reads, or was damaged or altered"
		return d, v, nil
	}
	var keys note.Verifiers
	switch {
	case key != nil:
		keys = note.VerifierList(key)
	case !f.self:
		v.problems = []string{"without --vkey no signature is checked: the document may be forged"}
	}
	v.checked = d.Verify(keys)
	for _, p := range v.checked.Faults {
		v.problems = append(v.problems, p.String())
	}
	v.ok = len(v.problems) == 0 && (f.self || v.checked.Signed)
	v.hint = "it was damaged or altered"
	switch {
	case f.self || v.checked.Signed:
	case key != nil:
		v.hint += ", or --vkey is the key of another ledger"
	case len(v.problems) == 1:
		v.hint = "--vkey KEY gives the log key; --self only asks whether the file agrees with itself"
	}
	return d, v, nil
}

// describe adds the verdict to a table.
func (v verdict) describe(out *output.Fields) {
	if v.checked.Head.Events > 0 {
		addHead(out, v.checked.Head)
	}
	switch {
	case !v.ok:
		out.Add("", "verifies", "NO: "+output.Counted(len(v.problems), "problem"))
	case !v.checked.Signed:
		out.Add("", "verifies", "against itself only: the document may be forged")
	default:
		out.Add("", "verifies", "yes, signed by the log key")
	}
	for _, key := range v.checked.Ignored {
		out.Add("", "does not count", "a signature by "+key+", which may be forged")
	}
	if len(v.problems) > 0 {
		out.Section(func(w io.Writer) {
			output.Rows(w, "\nWHAT IS WRONG", v.problems, func(p string) []any { return []any{p} })
		})
	}
}

// newSold returns what a receipt says of a sale.
func newSold(r evidence.Receipt) (out output.Fields) {
	erased := 0
	for _, one := range r.Responses {
		if one.Erased {
			erased++
		}
	}
	out.Add("sale", "sale", r.Sale)
	out.Add("", "time", r.Time)
	out.Add("buyer", "buyer", r.Buyer)
	out.Add("question", "question", r.Question)
	out.Add("epsilon", "ε", r.Epsilon)
	out.Add("price", "", r.Price)
	out.Add("currency", "", r.Currency)
	out.Add("", "price", output.Money(r.Price, r.Currency))
	out.Add("time", "", r.Time)
	out.Add("responses", "responses", len(r.Responses))
	out.Add("erased", "  of them not shown", erased) // only the price is left
	return out
}

// newStated returns what a statement results in.
func newStated(st evidence.Statement) (out output.Fields) {
	out.Add("object", "object", st.Object)
	out.Add("event", "", st.Event)
	out.Add("time", "time", st.Time)
	out.Add("cap", "cap", st.Cap)
	out.Add("spent", "spent", st.Spent)
	for _, c := range st.Chains {
		epoch := ""
		if c.Epoch > 1 || c.Ended > 0 {
			epoch = fmt.Sprintf(", epoch %d", c.Epoch)
		}
		out.Add("", "  on "+output.OneLine(c.Question)+epoch, c.Spent)
	}
	for _, c := range st.Terms {
		consent := "to nothing more than before"
		if c.Consent != "" {
			consent = "with consent: " + c.Consent
		}
		change := fmt.Sprintf("changed by event %d of %s, %s", c.Event, output.Stamp(c.Time), consent)
		out.Add("", "terms of "+output.OneLine(c.Question), change)
	}
	out.Add("earned", "", st.Earned)
	out.Add("currency", "", st.Currency)
	out.Add("", "earned", output.Money(st.Earned, st.Currency))
	out.Add("terms", "", st.Terms)
	out.Add("responses", "responses", len(st.Released))
	out.Add("charges", "charges for answers", len(st.Charges))
	out.Add("sales", "sales", len(st.Sales))
	out.Add("forgotten", "", st.Forgotten)
	if st.Forgotten > 0 {
		out.Add("", "forgotten before", fmt.Sprintf("by event %d; what that had cost counts as spent", st.Forgotten))
	}
	out.Add("chains", "", st.Chains)
	return out
}
