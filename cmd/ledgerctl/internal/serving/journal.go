package serving

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/input"
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
	return output.Group("journal", "no command given", h.restoreCommand(), h.acceptLossCommand(), h.dismissCommand())
}

// flag adds the flag that says where the journal is.
func (f *journalFlags) flag(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.journal, "journal", "", "the `FILE` that says where the journal is")
	input.Mark(cmd.Flags(), input.Reads, input.ByName, "journal")
	_ = cmd.MarkFlagRequired("journal") // it fails only for a flag that is not there
}

func (h *Host) restoreCommand() *cobra.Command {
	f := &journalFlags{}
	cmd := &cobra.Command{
		Use: "restore --journal FILE",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return h.reopened(cmd, f, "the journal goes on after the file",
				func(ctx context.Context, j *sharedJournal) (*ledger.Ledger, error) {
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
		Use: "accept-loss --journal FILE --events N",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return h.reopened(cmd, f, "the loss is accepted",
				func(ctx context.Context, j *sharedJournal) (*ledger.Ledger, error) {
					return h.acceptLoss(ctx, j, f.events)
				})
		},
	}
	cmd.Flags().Uint64Var(&f.events, "events", 0,
		"how many events are left, `N`: what the error without this flag says")
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
		return nil, &output.Error{Kind: "journal", Code: output.ExitIntegrity,
			Hint: fmt.Sprintf("to accept it, give --events %d", end.Events), Err: err}
	}
	j.AcceptLoss(end)
	return h.Open(ctx, ledger.Options{Journal: j.Restore})
}

// reopened opens the ledger by way of its journal, and prints where it ends.
func (h *Host) reopened(cmd *cobra.Command, f *journalFlags, done string,
	open func(context.Context, *sharedJournal) (*ledger.Ledger, error)) (err error) {
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
	return h.PrintDone(done, "", journalEnd(stats.Events))
}

func (h *Host) dismissCommand() *cobra.Command {
	f := &journalFlags{}
	cmd := &cobra.Command{
		Use:  "dismiss HOST --journal FILE",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			head, err := dismissHost(cmd.Context(), h.Files, f.journal, f.ledger, args[0])
			if err != nil {
				return err
			}
			var out output.Fields
			out.Add("", "dismissed", args[0])
			out = append(out, journalEnd(head.End.Events)...)
			out.Add("host", "", args[0])
			return h.PrintDone(fmt.Sprintf("host %q is dismissed", args[0]), "", out)
		},
	}
	cmd.Flags().StringVar(&f.ledger, "ledger", "",
		"the `ID` of the ledger, if the database has the journals of several")
	f.flag(cmd)
	return cmd
}

// journalEnd returns where a journal ends now.
func journalEnd(events uint64) (out output.Fields) {
	now := time.Now().UTC()
	out.Add("events", "events", events)
	out.Add("time", "", now)
	out.Add("", "time", now.Format(time.RFC3339))
	return out
}
