package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/fault"
	"github.com/sluicedp/sluice/ledger"
)

func (a *app) cancelCommand() *cobra.Command {
	var key string
	cmd := &cobra.Command{
		Use:   "cancel NUMBER",
		Short: "Give a reservation up: what it holds is free again",
		Long: `Give a reservation up, by the number that "ledgerctl reserve" printed: what it holds is free again, and nothing of
it is to be paid. One that has expired can be cancelled, too: then no clock that is put right makes it hold again.
One that was captured or cancelled already is refused: the error says which, and the exit code is 3. The same command with the same
--key does nothing twice.`,
		Example:           "  ledgerctl cancel 7",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.reservationNumbers,
		RunE:              action(func(cmd *cobra.Command, args []string) error { return a.cancel(cmd, args[0], key) }),
	}
	cmd.Flags().StringVar(&key, "key", "", "the idempotency `KEY`, not that of the reservation (default: a new one)")
	return cmd
}

func (a *app) cancel(cmd *cobra.Command, number, key string) (err error) {
	var out cancelResult
	if out.Reservation, err = reservationNumber(number); err != nil {
		return err
	}
	if out.Key, err = keyOr(cmd, key); err != nil {
		return err
	}
	err = a.with(cmd.Context(), writing, func(l book) error {
		return fault.WithKey(out.Key, reservationFault(l.Cancel(cmd.Context(), out.Key, out.Reservation)))
	})
	if err != nil {
		return err
	}
	return a.PrintDone(fmt.Sprintf("reservation %d is cancelled", out.Reservation), out.Key, out)
}

// reservationFault adds what may help against the error of a request about a reservation.
func reservationFault(err error) error {
	if errors.Is(err, ledger.ErrUnknown) {
		return &fault.Fault{Kind: "unknown", Code: fault.Misuse, Hint: reservationsHint, Err: err}
	}
	return err
}

type cancelResult struct {
	Reservation uint64 `json:"sale"` // its number; that of the sale that would have come of it
	Key         string `json:"key"`
}

func (r cancelResult) Table(w io.Writer) {
	fmt.Fprintf(w, "cancelled\t%d\nkey\t%s\n", r.Reservation, r.Key)
}
