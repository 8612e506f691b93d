package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strconv"

	"github.com/spf13/cobra"
	"golang.org/x/mod/sumdb/note"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/fault"
	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/files"
	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/keys"
	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/words"
	"github.com/sluicedp/sluice/ledger"
)

func (a *app) auditCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Verify the whole ledger, or sign a checkpoint of its log",
		Args:  cobra.NoArgs,
		RunE: action(func(*cobra.Command, []string) error {
			return fault.Usage(`run "ledgerctl audit --help"`, "say whether to verify the ledger or to sign a checkpoint")
		}),
	}
	cmd.AddCommand(a.auditVerifyCommand(), a.auditCheckpointCommand())
	return cmd
}

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
	key, err := f.vkey.Load(a.Files)
	if err != nil {
		return err
	}
	checkpoints, err := a.readCheckpoints(f.checkpoints)
	if err != nil {
		return err
	}
	if key != nil && len(checkpoints) == 0 {
		a.Warn("--vkey is not used: it checks what --checkpoint gives, which is nothing")
	}
	out := auditResult{Problems: []ledger.Problem{}, Checkpoints: len(checkpoints)}
	err = a.with(reading, func(l *ledger.Ledger) error {
		keys, err := a.auditKeys(l.About(), key, len(checkpoints))
		if err != nil {
			return err
		}
		for i, signed := range checkpoints {
			head, err := ledger.OpenCheckpoint(signed, keys)
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
func (a *app) audit(ctx context.Context, l *ledger.Ledger, request ledger.VerifyRequest, out *auditResult) (err error) {
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
	f := &fault.Fault{
		Kind: "problems", Code: fault.Integrity, Hint: "use nothing of this file, and keep it as it is until it is clear what happened; a backup can be verified likewise",
		Err: fmt.Errorf("%q does not verify: %s", db, words.Counted(len(r.Problems), "problem")),
	}
	if slices.ContainsFunc(r.Problems, func(p ledger.Problem) bool { return p.Kind == "checkpoint" }) {
		f.Kind, f.Hint = "rolled-back", fault.RollbackHint(r.foreign)
	}
	return f
}

func (a *app) readCheckpoints(files []string) (all [][]byte, err error) {
	for i, file := range files {
		if file == "-" && slices.Contains(files[:i], file) {
			return nil, fault.Usage("", "standard input can be read once only, and --checkpoint names it twice")
		}
		text, err := a.TextOrFile("@"+file, keys.MaxCheckpoint)
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
	if !r.OK {
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

// tableHead writes the size of a log and its root.
func tableHead(w io.Writer, h ledger.Head) {
	fmt.Fprintf(w, "log\t%s\nevents\t%d\nroot\t%s\n", words.OneLine(h.Origin), h.Events, h.Root)
}

func (a *app) auditCheckpointCommand() *cobra.Command {
	var signer keys.Signer
	var out string
	cmd := &cobra.Command{
		Use:   "checkpoint",
		Short: "Sign a checkpoint: what the log is now",
		Long: `Sign a checkpoint of the log: how many events it has, and the root of the tree that is over them. Whoever
keeps it can show later that nothing that was in the log by then was changed or dropped ("ledgerctl audit verify
--checkpoint"). It tells nothing about anybody. Keep it where whoever can write the ledger cannot: hand it to an
auditor, to buyers, to a witness.

It is a signed note, in the form of https://c2sp.org/tlog-checkpoint, and is printed as it is.

With --out it goes to a file. A checkpoint that is there already is replaced only if the log goes on from it:
otherwise the ledger was rolled back, the file stays as it is, and the exit code is 4.`,
		Example: `  ledgerctl audit checkpoint > checkpoint.txt
  ledgerctl audit checkpoint --signer /run/secrets/ledger.key --out /mnt/elsewhere/checkpoint.txt`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              action(func(cmd *cobra.Command, _ []string) error { return a.auditCheckpoint(cmd, &signer, out) }),
	}
	signer.Flag(cmd)
	cmd.Flags().StringVar(&out, "out", "", "write the checkpoint to a `FILE`; an older checkpoint of this log is replaced")
	files.Mark(cmd.Flags(), files.Writes, files.ByName, "out")
	return cmd
}

func (a *app) auditCheckpoint(cmd *cobra.Command, f *keys.Signer, path string) error {
	signer, err := f.Load(a.Files, a.db)
	if err != nil {
		return err
	}
	file, err := a.NewOutput("--out", path)
	if err != nil {
		return err
	}
	defer file.Discard()
	out := checkpointResult{Out: path}
	err = a.withSigner(reading, signer, func(l *ledger.Ledger) error {
		if err := a.checkReplaced(cmd.Context(), l, path); err != nil {
			return err
		}
		return out.sign(cmd.Context(), l)
	})
	if err != nil {
		return err
	}
	err = file.Save(func(w io.Writer) error {
		_, err := io.WriteString(w, out.Checkpoint)
		return err
	})
	if err != nil {
		return err
	}
	if path == "" && !a.JSON {
		_, err := io.WriteString(a.Stdout, out.Checkpoint)
		return err
	}
	return a.Print(out)
}

// checkReplaced refuses to replace a file by a checkpoint of a log that does not go on from it: it may be
// the only evidence of a rollback.
func (a *app) checkReplaced(ctx context.Context, l *ledger.Ledger, path string) error {
	if path == "" || path == "-" {
		return nil
	}
	signed, err := a.TextOrFile("@"+path, keys.MaxCheckpoint)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil || len(signed) == 0 {
		return err
	}
	key, err := note.NewVerifier(l.About().LogKey)
	if err != nil {
		return fault.Usage("give another FILE, or remove it", "--out: %q exists, and the ledger names no log key to tell by whether it is a checkpoint", path)
	}
	before, err := ledger.OpenCheckpoint(signed, note.VerifierList(key))
	if err != nil {
		return fault.Usage("give another FILE, or remove it", "--out: %q exists, and is not a checkpoint of this log", path)
	}
	return goesOn(ctx, l, before)
}

// goesOn returns a RollbackError unless the log begins with the events of a checkpoint.
func goesOn(ctx context.Context, l *ledger.Ledger, before ledger.Head) error {
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
	return &ledger.RollbackError{Checkpoint: before, Ledger: now}
}

// checkpointResult is a signed checkpoint and what it says.
type checkpointResult struct {
	Checkpoint string `json:"checkpoint"`
	ledger.Head
	Out string `json:"out,omitempty"`
}

func (r *checkpointResult) sign(ctx context.Context, l *ledger.Ledger) (err error) {
	signed, err := l.Checkpoint(ctx)
	if err != nil {
		return err
	}
	r.Checkpoint = string(signed)
	r.Head, err = l.Head(ctx, 0) // nobody writes as long as the file is open for reading
	return err
}

func (r checkpointResult) Table(w io.Writer) {
	tableHead(w, r.Head)
	fmt.Fprintf(w, "checkpoint\t%s\n", r.Out)
}
