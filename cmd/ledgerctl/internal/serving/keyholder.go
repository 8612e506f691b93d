package serving

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/output"
)

func (h *Host) keyholder(cmd *cobra.Command, _ []string, f *journalFlag) (err error) {
	j, err := openJournal(cmd.Context(), h.Files, f.Journal)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, j.Close()) }()
	var out output.Fields
	out.Add("host", "host", j.Host)
	out.Add("listen", "keys at", j.Address)
	if err := h.Print(out); err != nil {
		return err
	}
	return j.Until(cmd.Context())
}
