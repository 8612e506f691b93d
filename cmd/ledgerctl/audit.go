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

// auditCheckpoint runs the command audit checkpoint. It prints a signed checkpoint, or writes it to
// the file of --out, which may already have an older checkpoint of the same log.
func (a *app) auditCheckpoint(cmd *cobra.Command, _ []string, f *checkpointFlags) error {
	ctx := cmd.Context()
	if err := a.loadSigner(ctx, f.Signer); err != nil {
		return err
	}
	var signed []byte
	var head api.Head
	err := a.with(ctx, reading, func(l backend) (err error) {
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

// addHead adds the head of a log to a table.
func addHead(out *output.Fields, head api.Head) {
	out.Add("", "log", head.Origin)
	out.Add("", "events", head.Events)
	out.Add("", "root", head.Root)
}

// checkpoint returns a signed checkpoint, and the head of the log (its size and root) at the size
// that the checkpoint states.
func checkpoint(ctx context.Context, l backend) (signed []byte, head api.Head, err error) {
	if signed, err = l.Checkpoint(ctx); err != nil {
		return nil, head, err
	}
	lines := strings.Split(string(signed), "\n") // the origin, the number of events, and more
	for _, line := range lines {
		if output.OneLine(line) != line { // a server may return anything, and this is printed unescaped
			return nil, head, fmt.Errorf("%w: it has invisible characters", api.ErrCheckpoint)
		}
	}
	events, err := strconv.ParseUint(lines[min(1, len(lines)-1)], 10, 64)
	if err != nil {
		return nil, head, fmt.Errorf("%w: %w", api.ErrCheckpoint, err)
	}
	head, err = l.Head(ctx, events)
	return signed, head, err
}

// checkReplaced returns an error if a file must not be replaced by a new checkpoint, because the
// log does not extend the checkpoint in the file, which may be the only evidence of a rollback.
func (a *app) checkReplaced(ctx context.Context, l backend, path string) error {
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
			"--out: %q exists, and the ledger has no log key to verify that it is a checkpoint", path)
	}
	before, err := evidence.OpenCheckpoint(signed, note.VerifierList(key))
	if err != nil {
		return output.UsageError("give another FILE, or remove it",
			"--out: %q exists, and is not a checkpoint of this log", path)
	}
	return checkExtends(ctx, l, before)
}

// checkExtends returns a RollbackError unless the log begins with the events of a checkpoint: then
// the root at the checkpoint's size is that of the checkpoint.
func checkExtends(ctx context.Context, l backend, before api.Head) error {
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

// auditVerify runs the command audit verify, which verifies the ledger, and compares it with the
// given checkpoints.
func (a *app) auditVerify(cmd *cobra.Command, _ []string, f *verifyFlags) error {
	key, err := f.Verifier.Load(cmd.Context(), a.Files)
	if err != nil {
		return err
	}
	if key != nil && len(f.Checkpoints) == 0 {
		return output.UsageError("give --checkpoint FILE, or omit --vkey, which verifies the signature of a "+
			"checkpoint only", "--vkey needs --checkpoint")
	}
	checkpoints, err := a.readCheckpoints(cmd.Context(), f.Checkpoints)
	if err != nil {
		return err
	}
	out := auditResult{checkpoints: len(checkpoints)}
	err = a.with(cmd.Context(), reading, func(l backend) error {
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

// audit verifies the ledger, and sets the result and the findings in out.
func (a *app) audit(ctx context.Context, l backend, request api.VerifyRequest, out *auditResult) (err error) {
	if progress := a.Progress("verifying"); progress != nil {
		request.Progress = func(done, total uint64) { progress(int(done), int(total)) }
	}
	request.Report = func(p api.Finding) { out.problems = append(out.problems, p) }
	out.Verification, err = l.Verify(ctx, request)
	return err
}

// failure returns the error for the problems found.
func (r *auditResult) failure(db string) error {
	if r.onlyIncomplete() {
		return incomplete("%q was verified up to event %d only: %s", db, r.Events, r.problems[0].Text)
	}
	f := &output.Error{
		Kind: "problems", Code: output.ExitIntegrity, Hint: "do not use this file, and keep it unchanged until the " +
			"cause is known; the same command verifies a backup",
		Err: fmt.Errorf("%q does not verify: %s", db, output.Counted(len(r.problems), "problem")),
	}
	if slices.ContainsFunc(r.problems, func(p api.Finding) bool { return p.Kind == "checkpoint" }) {
		f.Kind, f.Hint = "rolled-back", output.RollbackHint(r.foreign)
	}
	return f
}

// onlyIncomplete reports whether the only problem is that the journal of the ledger is missing.
func (r *auditResult) onlyIncomplete() bool {
	return !slices.ContainsFunc(r.problems, func(p api.Finding) bool { return p.Kind != "journal" })
}

// readCheckpoints reads the files of --checkpoint. Only one of them may be standard input, "-".
func (a *app) readCheckpoints(ctx context.Context, files []string) (all [][]byte, err error) {
	for i, file := range files {
		if file == "-" && slices.Contains(files[:i], file) {
			return nil, output.UsageError("", "--checkpoint names standard input twice, which can be read once only")
		}
		text, err := a.TextOrFile(ctx, "@"+file, input.MaxCheckpoint)
		if err != nil {
			return nil, err
		}
		all = append(all, text)
	}
	return all, nil
}

// auditKeys returns the keys that verify the signatures of checkpoints: the given one of --vkey, or
// else, with a warning, the log key in the ledger's file. Without checkpoints it returns nil.
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
			"the ledger's file has no log key to verify the checkpoint with")
	}
	a.Warn("the checkpoint is verified with the log key in the ledger's file, which an attacker who can rewrite " +
		"the file can replace too; --vkey KEY gives the one that you know")
	return note.VerifierList(named), nil
}

// auditResult is the result of verifying a ledger.
type auditResult struct {
	api.Verification
	problems    []api.Finding
	checkpoints int  // number of checkpoints compared with the log
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
		checkpoints += ": an older copy of the file would verify too, and a completely rewritten one"
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
