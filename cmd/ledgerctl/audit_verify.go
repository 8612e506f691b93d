package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/spf13/cobra"
	"golang.org/x/mod/sumdb/note"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/alone"
	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/fault"
	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/files"
	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/keys"
	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/words"
	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/evidence"
)

// verifyFlags are the flags of audit verify.
type verifyFlags struct {
	checkpoints []string
	vkey        keys.Verifier
}

func (a *app) auditVerifyCommand() *cobra.Command {
	f := &verifyFlags{}
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Verify the log, and everything stored, against each other and against checkpoints",
		Long: `Derive everything in the ledger anew from the events of its log alone (the tree, every response and
balance, every price, credit, count and recorded request) and compare it with what is stored. Every difference
is listed, with its event and its person, and the exit code is then 4. No secret and no true value is needed,
and nothing is changed.

Who can write the file can make it consistent with itself: rewrite it as a whole, or put an older copy in its
place. A checkpoint that was kept elsewhere shows that: with --checkpoint, the log must begin with exactly the
events that the checkpoint is of. Checkpoints come from "ledgerctl audit checkpoint", or from the host.

A checkpoint counts if the key --vkey signed it. Without --vkey it is the key that the ledger's file names,
which whoever can rewrite the file can rewrite too: take the key from elsewhere, such as from what
"ledgerctl init" printed.`,
		Example: `  ledgerctl audit verify
  ledgerctl audit verify --checkpoint january.txt --checkpoint february.txt --vkey @log-key.txt`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              action(func(cmd *cobra.Command, _ []string) error { return a.auditVerify(cmd, f) }),
	}
	cmd.Flags().StringArrayVar(&f.checkpoints, "checkpoint", nil, "a `FILE` with a checkpoint that the log must go on from; may be given several times")
	files.Mark(cmd.Flags(), files.Reads, files.ByName, "checkpoint")
	f.vkey.Flag(cmd, "the one that the ledger's file names")
	return cmd
}

func (a *app) auditVerify(cmd *cobra.Command, f *verifyFlags) error {
	key, err := f.vkey.Load(cmd.Context(), a.Files)
	if err != nil {
		return err
	}
	if key != nil && len(f.checkpoints) == 0 {
		return fault.Usage("give --checkpoint FILE, or leave --vkey out: without a checkpoint there is nothing that the key could have signed", "--vkey needs --checkpoint")
	}
	checkpoints, err := a.readCheckpoints(cmd.Context(), f.checkpoints)
	if err != nil {
		return err
	}
	out := auditResult{Problems: []ledger.Problem{}, Checkpoints: len(checkpoints)}
	err = a.with(cmd.Context(), reading, func(l book) error {
		keys, err := a.auditKeys(l.About(), key, len(checkpoints))
		if err != nil {
			return err
		}
		for i, signed := range checkpoints {
			head, err := evidence.OpenCheckpoint(signed, keys)
			if err != nil {
				return fmt.Errorf("%q: %w", f.checkpoints[i], err)
			}
			out.foreign = out.foreign || head.Origin != l.About().Origin
		}
		return a.audit(cmd.Context(), l, ledger.VerifyRequest{Checkpoints: checkpoints, Verifiers: keys}, &out)
	})
	if err != nil {
		return err
	}
	if err := a.Print(out); err != nil || out.OK {
		return err
	}
	return out.failure(a.db)
}

// audit verifies the ledger, and collects what it finds.
func (a *app) audit(ctx context.Context, l book, request ledger.VerifyRequest, out *auditResult) (err error) {
	shown, progress := a.progress("verifying")
	defer shown.Clear()
	if progress != nil {
		request.Progress = func(done, total uint64) { progress(int(done), int(total)) }
	}
	request.Report = func(p ledger.Problem) { out.Problems = append(out.Problems, p) }
	out.Verification, err = l.Verify(ctx, request)
	out.OK = len(out.Problems) == 0
	return err
}

// failure is the error that goes with problems.
func (r auditResult) failure(db string) error {
	if r.onlyIncomplete() {
		return alone.Incomplete("%q was verified up to event %d only: %s", db, r.Events, r.Problems[0].Text)
	}
	f := &fault.Fault{
		Kind: "problems", Code: fault.Integrity, Hint: "use nothing of this file, and keep it as it is until it is clear what happened; a backup can be verified likewise",
		Err: fmt.Errorf("%q does not verify: %s", db, words.Counted(len(r.Problems), "problem")),
	}
	if slices.ContainsFunc(r.Problems, func(p ledger.Problem) bool { return p.Kind == "checkpoint" }) {
		f.Kind, f.Hint = "rolled-back", fault.RollbackHint(r.foreign)
	}
	return f
}

// onlyIncomplete reports whether all that was read verifies, and the journal of the ledger is missing.
func (r auditResult) onlyIncomplete() bool {
	return !slices.ContainsFunc(r.Problems, func(p ledger.Problem) bool { return p.Kind != "journal" })
}

func (a *app) readCheckpoints(ctx context.Context, files []string) (all [][]byte, err error) {
	for i, file := range files {
		if file == "-" && slices.Contains(files[:i], file) {
			return nil, fault.Usage("", "standard input can be read once only, and --checkpoint names it twice")
		}
		text, err := a.TextOrFile(ctx, "@"+file, keys.MaxCheckpoint)
		if err != nil {
			return nil, err
		}
		all = append(all, text)
	}
	return all, nil
}

// auditKeys returns the key that checkpoints must be signed by.
func (a *app) auditKeys(about ledger.About, given note.Verifier, checkpoints int) (note.Verifiers, error) {
	if given != nil {
		return note.VerifierList(given), nil
	}
	if checkpoints == 0 {
		return nil, nil
	}
	named, err := note.NewVerifier(about.LogKey)
	if err != nil {
		return nil, fault.Usage("give --vkey KEY", "the ledger's file names no log key to check the checkpoint by")
	}
	a.Warn("the checkpoint is checked by the log key that the ledger's own file names, which whoever can rewrite the file can rewrite too; --vkey KEY gives the one that you know")
	return note.VerifierList(named), nil
}

// auditResult is what verifying found. The heads of problems and of the log have their own JSON forms.
type auditResult struct {
	OK bool `json:"ok"`
	ledger.Verification
	Checkpoints int              `json:"checkpoints"` // that the log was held against
	Problems    []ledger.Problem `json:"problems"`
	foreign     bool             // one of the checkpoints is of another log
}

func (r auditResult) Table(w io.Writer) {
	verdict := "yes"
	switch {
	case r.OK:
	case r.onlyIncomplete():
		verdict = fmt.Sprintf("INCOMPLETE: up to event %d only, because the journal is missing", r.Events)
	default:
		verdict = "NO: " + words.Counted(len(r.Problems), "problem")
	}
	held := strconv.Itoa(r.Checkpoints)
	if r.Checkpoints == 0 {
		held = "0: an older copy of the file would verify too, and one that was rewritten as a whole"
	}
	tableHead(w, r.Head)
	fmt.Fprintf(w, "objects\t%d\ncheckpoints\t%s\nverifies\t%s\n", r.Objects, held, verdict)
	if r.OK {
		return
	}
	fmt.Fprintln(w, "\nPROBLEM\tEVENT\tOBJECT\tQUESTION\tWHAT IS WRONG")
	for _, p := range r.Problems {
		event := ""
		if p.Event > 0 {
			event = strconv.FormatUint(p.Event, 10)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", words.OneLine(p.Kind), event, words.OneLine(p.Object), words.OneLine(p.Question), words.OneLine(p.Text))
	}
}
