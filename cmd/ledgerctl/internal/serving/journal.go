package serving

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/files"
	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/output"
	"github.com/sluicedp/sluice/ledger"
)

// journalFlags are the flags of the commands about a journal.
type journalFlags struct {
	journal string
	ledger  string
	events  uint64
}

func (h *Host) journalCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "journal",
		Short: "Decide what becomes of a journal in PostgreSQL when something was lost",
		Long: `Decide what becomes of a journal in PostgreSQL when a database or a host was lost. Each of these commands is for a person
who knows what was lost, once; docs/howto/postgres.md says when.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return output.UsageError(`run "ledgerctl journal --help" for the commands`, "no command given")
		},
	}
	cmd.AddCommand(h.restoreCommand(), h.acceptLossCommand(), h.dismissCommand())
	return cmd
}

// flag adds the flag that says where the journal is.
func (f *journalFlags) flag(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.journal, "journal", "", "the `FILE` that says where the journal is")
	files.Mark(cmd.Flags(), files.Reads, files.ByName, "journal")
	_ = cmd.MarkFlagRequired("journal") // it fails only for a flag that is not there
}

func (h *Host) restoreCommand() *cobra.Command {
	f := &journalFlags{}
	cmd := &cobra.Command{
		Use:   "restore --journal FILE",
		Short: "Make the journal again, after the end of this host's file",
		Long: `Make the journal again, under its name, after the end of this host's file, where the database has lost the journal or its
end. What the database has of it is destroyed. Nothing is lost if the file has everything that was acknowledged; if it has not,
nothing is changed, and the error says which events are missing: "ledgerctl journal accept-loss" accepts that.

Try this with each host's file before a loss is accepted: the file of another host may have more.`,
		Example:           "  ledgerctl --db panel.db journal restore --journal a.json",
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return h.reopened(cmd, f, "the journal goes on after the file", func(ctx context.Context, j *sharedJournal) (*ledger.Ledger, error) {
				return h.Open(ctx, ledger.Options{Journal: j.Restore})
			})
		},
	}
	f.flag(cmd)
	return cmd
}

func (h *Host) acceptLossCommand() *cobra.Command {
	f := &journalFlags{}
	cmd := &cobra.Command{
		Use:   "accept-loss --journal FILE --events N",
		Short: "Go on although the journal has lost events that were acknowledged",
		Long: `Go on from event N, where the journal or this host's file ends, although later events were acknowledged. They are lost for good.
What was answered in them is not known any more: the people may give away more than the ledger knows.

Without --events, or with another number, nothing is changed, and the error says which events are lost. So a person who
has read it confirms it. First look for a database, or the file of another host, that has them.`,
		Example:           "  ledgerctl --db panel.db journal accept-loss --journal a.json --events 1204",
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return h.reopened(cmd, f, "the loss is accepted", func(ctx context.Context, j *sharedJournal) (*ledger.Ledger, error) {
				return h.acceptLoss(ctx, j, f.events)
			})
		},
	}
	cmd.Flags().Uint64Var(&f.events, "events", 0, "how many events are left, `N`: what the error without this flag says")
	f.flag(cmd)
	return cmd
}

// acceptLoss opens the ledger although events are lost, if it ends with a number of them.
func (h *Host) acceptLoss(ctx context.Context, j *sharedJournal, events uint64) (*ledger.Ledger, error) {
	l, err := h.Open(ctx, ledger.Options{Journal: j.Restore})
	if err == nil {
		return nil, errors.Join(output.InputError("", "no event is lost: there is nothing to accept"), l.Close())
	}
	end, lost := leftOf(err)
	switch {
	case !lost:
		return nil, err
	case end.Events != events:
		return nil, &output.Error{Kind: "journal", Code: output.ExitIntegrity, Hint: fmt.Sprintf("to accept it, give --events %d", end.Events), Err: err}
	}
	j.AcceptLoss(end)
	return h.Open(ctx, ledger.Options{Journal: j.Restore})
}

// reopened opens the ledger by way of its journal, and prints where it ends.
func (h *Host) reopened(cmd *cobra.Command, f *journalFlags, done string, open func(context.Context, *sharedJournal) (*ledger.Ledger, error)) (err error) {
	if err := h.Check(cmd); err != nil {
		return err
	}
	j, err := openJournal(cmd.Context(), h.Files, f.journal)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, j.Close()) }()
	l, err := open(cmd.Context(), j)
	if err != nil {
		return err
	}
	stats, err := l.Stats(cmd.Context())
	if err = errors.Join(err, l.Close()); err != nil {
		return err
	}
	return h.PrintDone(done, "", journalResult{Events: stats.Events, Time: time.Now().UTC()})
}

func (h *Host) dismissCommand() *cobra.Command {
	f := &journalFlags{}
	cmd := &cobra.Command{
		Use:   "dismiss HOST --journal FILE",
		Short: "Let the journal be trimmed without a host that is gone for good",
		Long: `Forget the host's base: what the journal holds may be destroyed although that host's file does not have it. Erasure waits
for each host that follows the ledger or had it, until it is dismissed. Do so when the host is gone for good; its file is
of no use then. A host that is dismissed by mistake counts again as soon as it follows.

It works beside "ledgerctl serve", on any host.`,
		Example:           "  ledgerctl journal dismiss c --journal a.json",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			head, err := dismissHost(cmd.Context(), h.Files, f.journal, f.ledger, args[0])
			if err != nil {
				return err
			}
			return h.PrintDone(fmt.Sprintf("host %q is dismissed", args[0]), "", journalResult{Events: head.End.Events, Time: time.Now().UTC(), Host: args[0]})
		},
	}
	cmd.Flags().StringVar(&f.ledger, "ledger", "", "the `ID` of the ledger, if the database has the journals of several")
	f.flag(cmd)
	return cmd
}

type journalResult struct {
	Events uint64    `json:"events"` // where the journal ends
	Time   time.Time `json:"time"`
	Host   string    `json:"host,omitempty"` // that was dismissed
}

func (r journalResult) Table(w io.Writer) {
	if r.Host != "" {
		fmt.Fprintf(w, "dismissed\t%s\n", r.Host)
	}
	fmt.Fprintf(w, "events\t%d\ntime\t%s\n", r.Events, r.Time.Format(time.RFC3339))
}
