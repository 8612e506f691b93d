package serving

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/input"
	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/output"
	"github.com/sluicedp/sluice/ledger/observe"
)

func (h *Host) health(cmd *cobra.Command, _ []string, _ *input.None) error {
	health, err := h.Health(cmd.Context())
	if health.Host.Role == "" {
		return err
	}
	return errors.Join(h.Print(describeHealth(health)), err)
}

// describeHealth returns the health of a ledger as it is printed.
func describeHealth(h observe.Health) (out output.Fields) {
	leader, term, lag := h.Host.Leader, fmt.Sprint(h.Host.Term), fmt.Sprint(h.Host.Lag)
	switch {
	case !h.Host.Answered:
		const unknown = "unknown, since the journal does not answer"
		leader, term, lag = unknown, unknown, unknown
	case h.Host.Term == 0:
		leader, term = "this host alone", "none"
	}
	out.Inline(h)
	out.Add("", "role", h.Host.Role)
	out.Add("", "leader", leader)
	out.Add("", "term", term)
	out.Add("", "lag", lag)
	out.Add("", "fenced", h.Host.Fenced)
	out.Add("", "events", h.Events)
	out.Add("", "waiting", h.Waiting)
	out.Add("", "pending", h.Pending)
	out.Add("", "memory", fmt.Sprintf("%d of %d bytes", h.Memory, h.Room))
	out.Add("", "file", fmt.Sprintf("%d bytes, %d of them free", h.Bytes, h.Free))
	out.Add("", "reservations", h.Reservations)
	return out
}
