package serving

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/sluicedp/sluice/ledger/observe"
)

func (h *Host) healthCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "health",
		Short: "Say which host has the ledger, and how far this one follows",
		Long: `Say what part this host has in the ledger: its role (leader, standby, or reader of a file), which host has the ledger and
by which term of the journal, how many events this standby lacks, and whether another host has taken over from this one (fenced).
Then come the requests, events, bytes and reservations that wait or are held. If the journal does not answer within a second,
what it says is unknown. If the ledger has stopped, the host is printed, and the command fails with the reason.`,
		Example: `  ledgerctl --addr unix:ledger.db.sock health
  ledgerctl --addr unix:ledger.db.sock health --json`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			health, err := h.Health(cmd.Context())
			if health.Host.Role == "" {
				return err
			}
			return errors.Join(h.Print(healthResult{health}), err)
		},
	}
}

type healthResult struct{ observe.Health }

func (r healthResult) Table(w io.Writer) {
	leader, term, lag := r.Host.Leader, fmt.Sprint(r.Host.Term), fmt.Sprint(r.Host.Lag)
	switch {
	case !r.Host.Answered:
		const unknown = "unknown, since the journal does not answer"
		leader, term, lag = unknown, unknown, unknown
	case r.Host.Term == 0:
		leader, term = "this host alone", "none"
	}
	fmt.Fprintf(w, "role\t%s\nleader\t%s\nterm\t%s\nlag\t%s\nfenced\t%t\n", r.Host.Role, leader, term, lag, r.Host.Fenced)
	fmt.Fprintf(w, "events\t%d\nwaiting\t%d\npending\t%d\nmemory\t%d of %d bytes\n", r.Events, r.Waiting, r.Pending, r.Memory, r.Room)
	fmt.Fprintf(w, "file\t%d bytes, %d of them free\nreservations\t%d\n", r.Bytes, r.Free, r.Reservations)
}
