package serving

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/output"
	"github.com/sluicedp/sluice/ledger"
)

// journalFlag says where the journal is.
type journalFlag struct {
	Journal string `flag:"journal,required,reads"`
}

func (h *Host) restore(cmd *cobra.Command, _ []string, f *journalFlag) error {
	return h.reopened(cmd, f.Journal, "the journal goes on after the file",
		func(ctx context.Context, j *sharedJournal) (*ledger.Ledger, error) {
			return h.Open(ctx, ledger.Options{Journal: j.Restore})
		})
}

type acceptLossFlags struct {
	journalFlag
	Events uint64 `flag:"events"`
}

func (h *Host) acceptLoss(cmd *cobra.Command, _ []string, f *acceptLossFlags) error {
	return h.reopened(cmd, f.Journal, "the loss is accepted",
		func(ctx context.Context, j *sharedJournal) (*ledger.Ledger, error) {
			return h.openWithLoss(ctx, j, f.Events)
		})
}

// openWithLoss opens the ledger although events are lost, if it ends with a number of them.
func (h *Host) openWithLoss(ctx context.Context, j *sharedJournal, events uint64) (*ledger.Ledger, error) {
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
func (h *Host) reopened(cmd *cobra.Command, path, done string,
	open func(context.Context, *sharedJournal) (*ledger.Ledger, error)) (err error) {
	if err := h.Check(cmd); err != nil {
		return err
	}
	j, err := openJournal(cmd.Context(), h.Files, path)
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

type dismissFlags struct {
	journalFlag
	Ledger string `flag:"ledger"`
}

func (h *Host) dismiss(cmd *cobra.Command, args []string, f *dismissFlags) error {
	head, err := dismissHost(cmd.Context(), h.Files, f.Journal, f.Ledger, args[0])
	if err != nil {
		return err
	}
	var out output.Fields
	out.Add("", "dismissed", args[0])
	out = append(out, journalEnd(head.End.Events)...)
	out.Add("host", "", args[0])
	return h.PrintDone(fmt.Sprintf("host %q is dismissed", args[0]), "", out)
}

// journalEnd returns where a journal ends now.
func journalEnd(events uint64) (out output.Fields) {
	now := time.Now().UTC()
	out.Add("events", "events", events)
	out.Add("time", "", now)
	out.Add("", "time", now.Format(time.RFC3339))
	return out
}
