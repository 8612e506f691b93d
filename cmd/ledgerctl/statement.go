package main

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/fault"
	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/words"
	"github.com/sluicedp/sluice/ledger/evidence"
	"github.com/sluicedp/sluice/privacy"
)

func (a *app) statementCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "statement",
		Short: "Make or verify a statement for one person",
		Args:  cobra.NoArgs,
		RunE: action(func(*cobra.Command, []string) error {
			return fault.Usage(`run "ledgerctl statement --help"`, "say whether to make or to verify a statement")
		}),
	}
	cmd.AddCommand(a.statementMakeCommand(), a.statementVerifyCommand())
	return cmd
}

// statedResult is what a statement comes to.
type statedResult struct {
	Object    string                 `json:"object"`
	Event     uint64                 `json:"event"`
	Time      time.Time              `json:"time"`
	Cap       privacy.Epsilon        `json:"cap"`
	Spent     privacy.Epsilon        `json:"spent"`
	Earned    int64                  `json:"earned"`
	Currency  string                 `json:"currency"`
	Terms     []evidence.StatedTerms `json:"terms"` // changes of them
	Responses int                    `json:"responses"`
	Charges   int                    `json:"charges"`
	Sales     int                    `json:"sales"`
	Forgotten uint64                 `json:"forgotten"` // the event that destroyed what came before, or 0
	Chains    []evidence.StatedChain `json:"chains"`
}

func newStated(st evidence.Statement) statedResult {
	return statedResult{
		Object: st.Object, Event: st.Event, Time: st.Time, Cap: st.Cap, Spent: st.Spent, Earned: st.Earned, Currency: st.Currency,
		Responses: len(st.Released), Charges: len(st.Charges), Sales: len(st.Sales), Forgotten: st.Forgotten,
		Chains: append([]evidence.StatedChain{}, st.Chains...), Terms: append([]evidence.StatedTerms{}, st.Terms...),
	}
}

func (r statedResult) Table(w io.Writer) {
	fmt.Fprintf(w, "object\t%s\ntime\t%s\ncap\t%s\nspent\t%s\n", words.OneLine(r.Object), words.Stamp(r.Time), r.Cap, r.Spent)
	for _, c := range r.Chains {
		epoch := ""
		if c.Epoch > 1 || c.Ended > 0 {
			epoch = fmt.Sprintf(", epoch %d", c.Epoch)
		}
		fmt.Fprintf(w, "  on %s%s\t%s\n", words.OneLine(c.Question), epoch, c.Spent)
	}
	for _, c := range r.Terms {
		fmt.Fprintf(w, "terms of %s\tchanged by event %d of %s, %s\n", words.OneLine(c.Question), c.Event, words.Stamp(c.Time), consentOf(c))
	}
	fmt.Fprintf(w, "earned\t%s\nresponses\t%d\ncharges for answers\t%d\nsales\t%d\n", words.Money(r.Earned, words.OneLine(r.Currency)), r.Responses, r.Charges, r.Sales)
	if r.Forgotten > 0 {
		fmt.Fprintf(w, "forgotten before\tby event %d; what that had cost counts as spent\n", r.Forgotten)
	}
}

// consentOf says what a change of terms rests on.
func consentOf(c evidence.StatedTerms) string {
	if c.Consent == "" {
		return "to nothing more than before"
	}
	return "with consent: " + words.OneLine(c.Consent)
}
