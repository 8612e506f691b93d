package serving

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/files"
)

func (h *Host) keyholderCommand() *cobra.Command {
	var path string
	cmd := &cobra.Command{
		Use:   "keyholder --journal FILE",
		Short: "Keep keys of a journal in PostgreSQL for other hosts",
		Long: `Keep keys of a journal in PostgreSQL for the hosts that may go on with it, until interrupted: "ledgerctl serve
--journal" does that as well. It is for a host that has no copy of the ledger, or none yet. Nothing is appended to a
journal before its key lies with another host.

` + journalHelp,
		Example:           "  ledgerctl keyholder --journal c.json",
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			j, err := openJournal(cmd.Context(), h.Files, path)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, j.Close()) }()
			if err := h.Print(keyholderResult{j.Host, j.Address}); err != nil {
				return err
			}
			return j.Until(cmd.Context())
		},
	}
	cmd.Flags().StringVar(&path, "journal", "", "the `FILE` that says where the journal is")
	files.Mark(cmd.Flags(), files.Reads, files.ByName, "journal")
	_ = cmd.MarkFlagRequired("journal") // it fails only for a flag that is not there
	return cmd
}

type keyholderResult struct {
	Host   string `json:"host"`   // its name
	Listen string `json:"listen"` // where the other hosts ask
}

func (r keyholderResult) Table(w io.Writer) {
	fmt.Fprintf(w, "host\t%s\nkeys at\t%s\n", r.Host, r.Listen)
}
