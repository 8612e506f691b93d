package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/mod/sumdb/note"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/input"
	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/output"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/evidence"
)

// document is a receipt or a statement.
type document interface {
	Verify(note.Verifiers) evidence.Checked
}

// writeDocument writes a document in the only form that its reader accepts, without a line end.
func writeDocument(file *input.Output, d document) error {
	text, err := json.Marshal(d)
	if err != nil {
		return err
	}
	return file.SaveBytes(text)
}

// documentFlags are the flags of a command that creates a document.
type documentFlags struct {
	input.Signer
	Out input.Output `flag:"out,required,writes"`
}

// writeReceipt creates the receipt of a sale, and writes it to a file.
func writeReceipt(ctx context.Context, l backend, sale uint64, file *input.Output) (evidence.Receipt, error) {
	r, err := l.Receipt(ctx, sale)
	if err == nil {
		err = writeDocument(file, r)
	}
	return r, err
}

// makeReceipt runs the command receipt make, which writes the receipt of a sale to a file.
func (a *app) makeReceipt(cmd *cobra.Command, args []string, f *documentFlags) error {
	sale, err := numberOf("sale", args[0], salesHint)
	if err != nil {
		return err
	}
	if err := a.loadSigner(cmd.Context(), f.Signer); err != nil {
		return err
	}
	return output.WithHint(a.query(cmd, func(ctx context.Context, l backend) (output.Result, error) {
		receipt, err := writeReceipt(ctx, l, sale, &f.Out)
		out := newSold(receipt)
		out.Add("out", "receipt", f.Out.Path)
		return out, err
	}), api.ErrUnknown, salesHint)
}

type statementFlags struct {
	documentFlags
	keyFlag
}

// makeStatement runs the command statement make, which records a statement in the log, and writes
// it to a file.
func (a *app) makeStatement(cmd *cobra.Command, args []string, f *statementFlags) error {
	if err := a.loadSigner(cmd.Context(), f.Signer); err != nil {
		return err
	}
	return unknownPerson(a.change(cmd, func(ctx context.Context, l backend) (string, output.Result, error) {
		statement, err := l.Statement(ctx, api.ObjectRequest{Key: a.key, Object: args[0]})
		if err == nil {
			err = output.Unfinished("the statement is recorded, but not written", 0, writeDocument(&f.Out, statement))
		}
		out := newStated(statement)
		out.Add("key", "key", a.key)
		out.Add("out", "statement", f.Out.Path)
		return "the statement is recorded", out, err
	}))
}

// proofFlags are the flags of commands that verify a document.
type proofFlags struct {
	input.Verifier
	Self bool `flag:"self,not=vkey"`
}

// verifyCommand returns the command that verifies a document: what is "receipt" or "statement".
// read parses the document, and fields returns its content for printing.
func verifyCommand[D document](a *app, what string, read func([]byte) (D, error),
	fields func(D) output.Fields) *cobra.Command {
	run := func(cmd *cobra.Command, args []string, f *proofFlags) error {
		d, v, err := verify(a, cmd, args[0], f, read)
		if err != nil {
			return err
		}
		var out output.Fields
		out.Add("ok", "", v.ok)
		out.Add("signed", "", v.checked.Signed)
		out.Inline(v.checked.Head)
		out.AddNonZero("unknown_cosigners", "", v.checked.Ignored)
		out.Add("problems", "", v.problems)
		if v.unread { // d is empty: its fields only keep the keys of the JSON, without lines in the table
			out.Inline(fields(d))
		} else {
			out = append(out, fields(d)...)
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
	return input.MarkArguments(input.Command(a.Files, "verify FILE", run), input.Reads)
}

// verdict is the result of verifying a document.
type verdict struct {
	ok       bool
	unread   bool // the file is not such a document
	checked  evidence.Checked
	problems []string
	hint     string // the possible cause
}

// verify reads a document from a file and verifies it. If the document cannot be parsed, that is
// the only problem in the verdict. An error means that the file or the key cannot be read.
func verify[D document](a *app, cmd *cobra.Command, path string, f *proofFlags, read func([]byte) (D, error)) (d D,
	v verdict, err error) {
	key, err := f.Load(cmd.Context(), a.Files)
	if err != nil {
		return d, v, err
	}
	text, err := a.TextOrFile(cmd.Context(), "@"+path, 1<<30+1) // package evidence reads at most 1 GiB
	if err != nil {
		return d, v, err
	}
	if d, err = read(text); err != nil {
		v.unread = true
		v.problems = []string{strings.TrimPrefix(err.Error(), api.ErrInvalid.Error()+": ")}
		v.hint = "it is not such a document, or it was damaged or altered"
		return d, v, nil
	}
	var keys note.Verifiers
	switch {
	case key != nil:
		keys = note.VerifierList(key)
	case !f.Self:
		v.problems = []string{"without --vkey no signature is checked: the document may be forged"}
	}
	v.checked = d.Verify(keys)
	for _, p := range v.checked.Faults {
		v.problems = append(v.problems, p.String())
	}
	v.ok = len(v.problems) == 0 && (f.Self || v.checked.Signed)
	v.hint = "it was damaged or altered"
	switch {
	case f.Self || v.checked.Signed:
	case key != nil:
		v.hint += ", or --vkey is the key of another ledger"
	case len(v.problems) == 1:
		v.hint = "--vkey KEY gives the log key; --self only checks that the file is consistent with itself"
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
		out.Section(func(t *output.Table) {
			t.Line("")
			t.Line("WHAT IS WRONG")
			for _, p := range v.problems {
				t.Line("%s", output.OneLine(p))
			}
		})
	}
}

// newSold returns the content of a receipt.
func newSold(r evidence.Receipt) (out output.Fields) {
	erased := 0
	for _, one := range r.Responses {
		if one.Erased {
			erased++
		}
	}
	out.Add("sale", "sale", r.Sale)
	out.Add("time", "time", r.Time)
	out.Add("buyer", "buyer", r.Buyer)
	out.Add("question", "question", r.Question)
	out.Add("epsilon", "ε", r.Epsilon)
	out.AddMoney("price", "price", r.Price, r.Currency)
	out.Add("responses", "responses", len(r.Responses))
	out.Add("erased", "  of them not shown", erased) // the receipt only has their prices
	return out
}

// newStated returns the content of a statement.
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
		out.Add("", "  on "+c.Question+epoch, c.Spent)
	}
	for _, c := range st.Terms {
		consent := "which allows nothing more than before"
		if c.Consent != "" {
			consent = "with consent: " + c.Consent
		}
		change := fmt.Sprintf("changed by event %d of %s, %s", c.Event, output.Stamp(c.Time), consent)
		out.Add("", "terms of "+c.Question, change)
	}
	out.AddMoney("earned", "earned", st.Earned, st.Currency)
	out.Add("terms", "", st.Terms)
	out.Add("responses", "responses", len(st.Released))
	out.Add("charges", "charges for answers", len(st.Charges))
	out.Add("sales", "sales", len(st.Sales))
	out.Add("forgotten", "", st.Forgotten)
	if st.Forgotten > 0 {
		out.Add("", "forgotten before", fmt.Sprintf("by event %d; the ε charged before counts as spent", st.Forgotten))
	}
	out.Add("chains", "", st.Chains)
	return out
}
