package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/fault"
)

func (a *app) takeoverCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "takeover --addr ADDRESS",
		Short: "Have a standby take over from the host that has the ledger",
		Long: `Have the standby at the address, as "ledgerctl serve --standby" serves it, take over: the host that has had the ledger
writes nothing more, and this one serves all calls from now on. Nothing that anybody was told is lost, and nothing
is drawn twice: whoever was not answered repeats the request with its key, here.

Do so when that host is gone, or is to do no more. Nothing but this command decides that.`,
		Example:           "  ledgerctl takeover --addr unix:b.db.sock",
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: action(func(cmd *cobra.Command, _ []string) error {
			switch {
			case a.unclear != nil:
				return a.unclear
			case a.remote.Address == "":
				return fault.Usage(`"ledgerctl serve --standby" serves one`, "a takeover is by a standby that is served: give its --addr")
			}
			l, err := a.dial(cmd.Context())
			if err != nil {
				return err
			}
			defer func() { _ = l.Close() }()
			out := takeoverResult{Address: a.remote.Address}
			if out.Events, err = l.TakeOver(cmd.Context()); err != nil {
				return err
			}
			return a.PrintDone("it has taken over", "", out)
		}),
	}
}

type takeoverResult struct {
	Address string `json:"addr"`
	Events  uint64 `json:"events"` // in the log, as it goes on
}

func (r takeoverResult) Table(w io.Writer) {
	fmt.Fprintf(w, "has the ledger\t%s\nevents\t%d\n", r.Address, r.Events)
}
