package serving

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/input"
	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/output"
)

func (h *Host) keyholderCommand() *cobra.Command {
	var path string
	cmd := &cobra.Command{
		Use: "keyholder --journal FILE",
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			j, err := openJournal(cmd.Context(), h.Files, path)
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
		},
	}
	cmd.Flags().StringVar(&path, "journal", "", "the `FILE` that says where the journal is")
	input.Mark(cmd.Flags(), input.Reads, input.ByName, "journal")
	_ = cmd.MarkFlagRequired("journal") // it fails only for a flag that is not there
	return cmd
}
