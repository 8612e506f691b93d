package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/mod/sumdb/note"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/input"
	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/output"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/evidence"
)

type checkpointFlags struct {
	input.Signer
	Out input.Output `flag:"out,writes"`
}

func (a *app) auditCheckpoint(cmd *cobra.Command, _ []string, f *checkpointFlags) error {
	ctx := cmd.Context()
	if err := a.loadSigner(ctx, f.Signer); err != nil {
		return err
	}
	var signed []byte
	var head api.Head
	err := a.with(ctx, reading, func(l book) (err error) {
		if err := a.checkReplaced(ctx, l, f.Out.Path); err != nil {
			return err
		}
		signed, head, err = checkpoint(ctx, l)
		return err
	})
	if err == nil {
		err = f.Out.SaveBytes(signed)
	}
	if err != nil {
		return err
	}
	if f.Out.Path == "" && !a.JSON {
		_, err := a.Stdout.Write(signed)
		return err
	}
	var out output.Fields
	out.Add("checkpoint", "", string(signed))
	out.Inline(head)
	addHead(&out, head)
	out.AddNonZero("out", "checkpoint", f.Out.Path)
	return a.Print(out)
}

// addHead adds lines about the end of a log to a table.
func addHead(out *output.Fields, head api.Head) {
	out.Add("", "log", head.Origin)
	out.Add("", "events", head.Events)
	out.Add("", "root", head.Root)
}

// checkpoint returns a signed checkpoint, and what it is of: the log may have grown since.
func checkpoint(ctx context.Context, l book) (signed []byte, head api.Head, err error) {
	if signed, err = l.Checkpoint(ctx); err != nil {
		return nil, head, err
	}
	lines := strings.Split(string(signed), "\n") // the origin, the number of events, and what else there is
	for _, line := range lines {
		if output.OneLine(line) != line { // a server may return anything, and this is printed as it is
			return nil, head, fmt.Errorf("%w: it has characters that cannot be seen", api.ErrCheckpoint)
		}
	}
	events, err := strconv.ParseUint(lines[min(1, len(lines)-1)], 10, 64)
	if err != nil {
		return nil, head, fmt.Errorf("%w: %w", api.ErrCheckpoint, err)
	}
	head, err = l.Head(ctx, events)
	return signed, head, err
}

// checkReplaced refuses to replace a file by a checkpoint of a log that does not go on from it: it
// may be the only evidence of a rollback.
func (a *app) checkReplaced(ctx context.Context, l book, path string) error {
	if path == "" || path == "-" {
		return nil
	}
	signed, err := a.TextOrFile(ctx, "@"+path, input.MaxCheckpoint)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil || len(signed) == 0 {
		return err
	}
	key, err := note.NewVerifier(l.About().LogKey)
	if err != nil {
		return output.UsageError("give another FILE, or remove it",
			"--out: %q exists, and the ledger names no log key, by which a checkpoint is recognized", path)
	}
	before, err := evidence.OpenCheckpoint(signed, note.VerifierList(key))
	if err != nil {
		return output.UsageError("give another FILE, or remove it",
			"--out: %q exists, and is not a checkpoint of this log", path)
	}
	return goesOn(ctx, l, before)
}

// goesOn returns a RollbackError unless the log begins with the events of a checkpoint.
func goesOn(ctx context.Context, l book, before api.Head) error {
	now, err := l.Head(ctx, 0)
	if err != nil {
		return err
	}
	then := now
	if before.Events < now.Events {
		if then, err = l.Head(ctx, before.Events); err != nil {
			return err
		}
	}
	if then == before {
		return nil
	}
	now.Root = then.Root
	return &api.RollbackError{Checkpoint: before, Ledger: now}
}

// verifyFlags are the flags of audit verify.
type verifyFlags struct {
	Checkpoints []string `flag:"checkpoint,repeated,reads"`
	input.Verifier
}

func (a *app) auditVerify(cmd *cobra.Command, _ []string, f *verifyFlags) error {
	key, err := f.Verifier.Load(cmd.Context(), a.Files)
	if err != nil {
		return err
	}
	if key != nil && len(f.Checkpoints) == 0 {
		return output.UsageError("give --checkpoint FILE, or leave --vkey out: without a checkpoint there is "+
			"nothing that the key could have signed", "--vkey needs --checkpoint")
	}
	checkpoints, err := a.readCheckpoints(cmd.Context(), f.Checkpoints)
	if err != nil {
		return err
	}
	out := auditResult{checkpoints: len(checkpoints)}
	err = a.with(cmd.Context(), reading, func(l book) error {
		keys, err := a.auditKeys(l.About(), key, len(checkpoints))
		if err != nil {
			return err
		}
		for i, signed := range checkpoints {
			head, err := evidence.OpenCheckpoint(signed, keys)
			if err != nil {
				return fmt.Errorf("%q: %w", f.Checkpoints[i], err)
			}
			out.foreign = out.foreign || head.Origin != l.About().Origin
		}
		return a.audit(cmd.Context(), l, api.VerifyRequest{Checkpoints: checkpoints, Verifiers: keys}, &out)
	})
	if err != nil {
		return err
	}
	if err := a.Print(out.fields()); err != nil || len(out.problems) == 0 {
		return err
	}
	return out.failure(a.DB)
}

// audit verifies the ledger, and collects what it finds.
func (a *app) audit(ctx context.Context, l book, request api.VerifyRequest, out *auditResult) (err error) {
	if progress := a.Progress("verifying"); progress != nil {
		request.Progress = func(done, total uint64) { progress(int(done), int(total)) }
	}
	request.Report = func(p api.Finding) { out.problems = append(out.problems, p) }
	out.Verification, err = l.Verify(ctx, request)
	return err
}

// failure is the error that goes with problems.
func (r *auditResult) failure(db string) error {
	if r.onlyIncomplete() {
		return incomplete("%q was verified up to event %d only: %s", db, r.Events, r.problems[0].Text)
	}
	f := &output.Error{
		Kind: "problems", Code: output.ExitIntegrity, Hint: "use nothing of this file, and keep it as it is until " +
			"it is clear what happened; a backup can be verified likewise",
		Err: fmt.Errorf("%q does not verify: %s", db, output.Counted(len(r.problems), "problem")),
	}
	if slices.ContainsFunc(r.problems, func(p api.Finding) bool { return p.Kind == "checkpoint" }) {
		f.Kind, f.Hint = "rolled-back", output.RollbackHint(r.foreign)
	}
	return f
}

// onlyIncomplete reports whether all that was read verifies, and the journal of the ledger is
// missing.
func (r *auditResult) onlyIncomplete() bool {
	return !slices.ContainsFunc(r.problems, func(p api.Finding) bool { return p.Kind != "journal" })
}

func (a *app) readCheckpoints(ctx context.Context, files []string) (all [][]byte, err error) {
	for i, file := range files {
		if file == "-" && slices.Contains(files[:i], file) {
			return nil, output.UsageError("", "standard input can be read once only, and --checkpoint names it twice")
		}
		text, err := a.TextOrFile(ctx, "@"+file, input.MaxCheckpoint)
		if err != nil {
			return nil, err
		}
		all = append(all, text)
	}
	return all, nil
}

// auditKeys returns the key that checkpoints must be signed by.
func (a *app) auditKeys(about api.About, given note.Verifier, checkpoints int) (note.Verifiers, error) {
	if given != nil {
		return note.VerifierList(given), nil
	}
	if checkpoints == 0 {
		return nil, nil
	}
	named, err := note.NewVerifier(about.LogKey)
	if err != nil {
		return nil, output.UsageError("give --vkey KEY",
			"the ledger's file names no log key to check the checkpoint by")
	}
	a.Warn("the checkpoint is checked by the log key that the ledger's own file names, which an attacker who can " +
		"rewrite the file can rewrite too; --vkey KEY gives the one that you know")
	return note.VerifierList(named), nil
}

// auditResult is the result of verifying a ledger.
type auditResult struct {
	api.Verification
	problems    []api.Finding
	checkpoints int  // that the log was compared with
	foreign     bool // one of the checkpoints is of another log
}

// fields returns the result as it is printed.
func (r *auditResult) fields() (out output.Fields) {
	verdict := "yes"
	switch {
	case len(r.problems) == 0:
	case r.onlyIncomplete():
		verdict = fmt.Sprintf("INCOMPLETE: up to event %d only, because the journal is missing", r.Events)
	default:
		verdict = "NO: " + output.Counted(len(r.problems), "problem")
	}
	out.Add("ok", "", len(r.problems) == 0)
	out.Inline(r.Head)
	addHead(&out, r.Head)
	out.Add("objects", "objects", r.Objects)
	out.Add("checkpoints", "", r.checkpoints)
	checkpoints := strconv.Itoa(r.checkpoints)
	if r.checkpoints == 0 {
		checkpoints += ": an older copy of the file would verify too, and one that was rewritten as a whole"
	}
	out.Add("", "checkpoints", checkpoints)
	out.Add("", "verifies", verdict)
	out.Add("problems", "", r.problems)
	if len(r.problems) > 0 {
		out.Section(func(t *output.Table) {
			t.Line("")
			output.Rows(t, "kind=problem event object question text=what_is_wrong", "", r.problems)
		})
	}
	return out
}
