// Package output prints what commands find out, as tables for people or as JSON for programs, and what went wrong.
package output

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"text/tabwriter"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/fault"
	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/words"
	"github.com/sluicedp/sluice/ledger"
)

// Result is what a command found out. Its JSON form has the documented keys.
type Result interface {
	// Table writes it for people. Tabs align the columns.
	Table(w io.Writer)
}

// Printer is where the results, warnings and errors of one run of the program go.
type Printer struct {
	Stdout, Stderr io.Writer // the standard streams
	JSON           bool      // results and errors are for programs
	Quiet          bool      // there are no warnings
	Taken          bool      // standard output is a file that the command writes, and has no room for the result
	Pager          string    // shows tables that are longer than the terminal; "" for none
	warned         []string
}

// Print writes a result to stdout at once, unless that has a file instead.
func (p *Printer) Print(r Result) error {
	if p.Taken {
		return nil
	}
	if p.JSON {
		return WriteJSON(p.Stdout, r)
	}
	var text bytes.Buffer
	aligned := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	r.Table(aligned)
	if err := aligned.Flush(); err != nil {
		return err
	}
	return p.show(text.Bytes())
}

// PrintDone prints the result of a request that is done for good. If that fails, the error says so, and by which key the
// result is to be had again; "" is none.
func (p *Printer) PrintDone(done, key string, r Result) error {
	signal.Ignore(syscall.SIGPIPE) // it must be told even if nobody reads standard output any more
	err := fault.Unfinished(done+", but the result is not printed", 0, p.Print(r))
	if key == "" {
		return err
	}
	return fault.WithKey(key, err)
}

// Fail tells the user what went wrong and returns the exit code.
func (p *Printer) Fail(err error, jsonAsked bool) fault.Code {
	var refused *ledger.RefusedError
	if errors.As(err, &refused) {
		p.WarnTruths(refused.TruthChanged, refused.TruthInvalid)
	}
	f, code := fault.Explain(err)
	if p.JSON || jsonAsked {
		// Nobody is left to tell that stderr cannot be written to.
		_ = WriteJSON(p.Stderr, map[string]fault.Report{"error": f})
		return code
	}
	text := "ledgerctl: " + f.Message
	if f.Details.Hint != "" {
		text += " (hint: " + f.Details.Hint + ")"
	}
	fmt.Fprintln(p.Stderr, words.OneLine(text))
	return code
}

// Warn prints a warning once, unless told to be quiet.
func (p *Printer) Warn(text string) {
	known := slices.Contains(p.warned, text)
	p.warned = append(p.warned, text)
	switch {
	case p.Quiet || known:
	case p.JSON:
		_ = json.NewEncoder(p.Stderr).Encode(map[string]map[string]string{"warning": {"message": text}})
	default:
		fmt.Fprintln(p.Stderr, "ledgerctl: warning: "+words.OneLine(text))
	}
}

// WarnTruths says whose true value is not the one drawn from before, and whose is none of the question's. The results say "no-truth" of
// them, which others may read as well: so it is on standard error alone, once, and in no exit code.
func (p *Printer) WarnTruths(changed, invalid []string) {
	p.warnOf("the true value is not the one drawn from before", changed)
	p.warnOf("the true value is none of the question's", invalid)
}

func (p *Printer) warnOf(what string, people []string) {
	if len(people) == 0 {
		return
	}
	const most = 20
	shown := make([]string, 0, most+1)
	for i, name := range people {
		if i == most {
			shown = append(shown, fmt.Sprintf("and %d more", len(people)-most))
			break
		}
		shown = append(shown, fmt.Sprintf("%q", name))
	}
	p.Warn("for you alone: " + what + ", for " + strings.Join(shown, ", "))
}

// WriteJSON writes one JSON value on one line.
func WriteJSON(w io.Writer, value any) error {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return err
	}
	_, err := w.Write(text.Bytes())
	return err
}

// Number is a float64 that JSON holds with 17 significant digits, enough to read the same one back.
// What JSON has no number for is null.
type Number float64

// MarshalJSON implements [json.Marshaler].
func (n Number) MarshalJSON() ([]byte, error) {
	if math.IsNaN(float64(n)) || math.IsInf(float64(n), 0) {
		return []byte("null"), nil
	}
	return strconv.AppendFloat(nil, float64(n), 'g', 17, 64), nil
}
