package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/mechanism"
	"github.com/sluicedp/sluice/mechanism/graph"
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
	"github.com/sluicedp/sluice/rrchain"
	"github.com/sluicedp/sluice/rrchain/finite"
)

// exitCode is what the program ends with. Scripts rely on the numbers.
type exitCode int

const (
	exitDone exitCode = iota
	exitUnexpected
	exitUsage       // wrong usage or input
	exitRefused     // by a budget, a policy or a price, for want of a true value or a key, or because no mechanism has what is asked for
	exitIntegrity   // damaged, no ledger, of a newer version, replaced, rolled back, or not what a signature or proof is of
	exitKeyConflict // the idempotency key was used for another request
	exitInUse       // another process has the file open
)

// fault is an error classed where it arose.
type fault struct {
	kind string
	code exitCode
	hint string // what may help; may be empty
	err  error
}

func (f *fault) Error() string { return f.err.Error() }
func (f *fault) Unwrap() error { return f.err }

// usageError is an error of the one who typed the command.
func usageError(hint, format string, args ...any) error {
	return &fault{kind: "usage", code: exitUsage, hint: hint, err: fmt.Errorf(format, args...)}
}

// inputError is an error in a file that the command reads.
func inputError(hint, format string, args ...any) error {
	return &fault{kind: "input", code: exitUsage, hint: hint, err: fmt.Errorf(format, args...)}
}

// keyed tells the idempotency key of the request that failed, so that it can be taken up again.
type keyed struct {
	key string
	err error
}

func (k *keyed) Error() string { return k.err.Error() }
func (k *keyed) Unwrap() error { return k.err }

func withKey(key string, err error) error {
	if err == nil {
		return nil
	}
	return &keyed{key, err}
}

// unfinishedError says of an error what was done all the same, for good.
type unfinishedError struct {
	done string
	sale uint64 // its number, or 0
	err  error
}

func (u *unfinishedError) Error() string { return u.done + ": " + u.err.Error() }
func (u *unfinishedError) Unwrap() error { return u.err }

// unfinished says of an error what was done all the same: it is no wrong usage any more.
func unfinished(done string, sale uint64, err error) error {
	if err == nil {
		return nil
	}
	err = &unfinishedError{done, sale, err}
	if class := classify(err); class.code == exitUsage {
		return &fault{kind: "unexpected", code: exitUnexpected, err: err}
	}
	return err
}

// printDone prints the result of a request that is done for good. If that fails, the error says so, and by which key the
// result is to be had again.
func (a *app) printDone(done, key string, r result) error {
	return withKey(key, unfinished(done+", but the result is not printed", 0, a.print(r)))
}

// started marks the errors of commands, apart from those of cobra, which are all wrong usage.
type started struct{ error }

func (s *started) Unwrap() error { return s.error }

// action is a command's work. All commands are run through it.
func action(work func(cmd *cobra.Command, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		if err := work(cmd, args); err != nil {
			return &started{err}
		}
		return nil
	}
}

// asUsage classes what cobra found wrong with a command line.
func asUsage(cmd *cobra.Command, err error) error {
	var classed *fault
	var ours *started
	if errors.As(err, &classed) || errors.As(err, &ours) {
		return err
	}
	text, suggested, found := strings.Cut(err.Error(), "\n\nDid you mean this?")
	if found {
		return usageError("did you mean "+strings.Join(strings.Fields(suggested), " or ")+"?", "%s", text)
	}
	return usageError(fmt.Sprintf("run %q", cmd.CommandPath()+" --help"), "%s", text)
}

// wantsJSON tells whether a command line asks for JSON, even if it is too broken to be parsed.
func wantsJSON(args []string) bool {
	if end := slices.Index(args, "--"); end >= 0 {
		args = args[:end]
	}
	return slices.Contains(args, "--json") || slices.Contains(args, "--json=true")
}

// classes tells the kind, code and hint of errors by what they wrap. The first that fits counts.
func classes() []fault {
	return []fault{
		{"interrupted", exitUnexpected, "", context.Canceled},
		{"corrupt", exitIntegrity, "", ledger.ErrCorrupt},
		{"version", exitIntegrity, "use the ledgerctl of that version", ledger.ErrVersion},
		{"replaced", exitIntegrity, "", ledger.ErrReplaced},
		{"checkpoint", exitIntegrity, "it may be damaged, or signed by another key than the log key", ledger.ErrCheckpoint},
		{"in-use", exitInUse, "another process has it open, such as a host; try again when that is done", ledger.ErrInUse},
		{"key-conflict", exitKeyConflict, "give another --key, or the arguments it was first used with", ledger.ErrKeyConflict},
		{"not-reserved", exitRefused, "", ledger.ErrNotReserved},
		{"forgotten", exitRefused, "its responses were destroyed, for good", ledger.ErrForgotten},
		{"clock", exitUsage, "set the clock of this machine", ledger.ErrClock},
		{"truth-key", exitUsage, "this ledger binds people to their true values; --truth-key FILE gives it the key by which it does", ledger.ErrTruthKey},
		{"noise-key", exitUsage, "responses are drawn from a key here; --noise-key NAME=FILE gives it the key of each name, the former ones too", ledger.ErrNoiseKey},
		{"usage", exitUsage, "--signer FILE gives the signing key", ledger.ErrNoSigner},
		{"no-responses", exitUsage, `"ledgerctl raise" makes responses; "ledgerctl show OBJECT" lists at which ε there are some`, ledger.ErrNoResponses},
		{"unknown", exitUsage, `"ledgerctl question list" shows the questions; "ledgerctl enroll" adds people`, ledger.ErrUnknown},
		{"no-cap", exitUsage, "--cap E is the largest ε of each person over all questions", ledger.ErrNoCap},
		{"invalid", exitUsage, "", ledger.ErrInvalid},
		{"invalid", exitUsage, "", policy.ErrInvalid},
		{"invalid", exitUsage, "", rrchain.ErrInvalid},
		{"invalid", exitUsage, "", finite.ErrInvalid},
		{"no-certificate", exitUsage, "fewer outputs", finite.ErrNoCertificate},
		{"invalid", exitUsage, "", mechanism.ErrInvalid},
		{"invalid", exitUsage, "", graph.ErrInvalid},
		{"not-found", exitUsage, "", fs.ErrNotExist},
		{"exists", exitUsage, "", fs.ErrExist},
		{"stopped", exitUnexpected, "", ledger.ErrStopped},
	}
}

// classify returns the class of an error; it always finds one.
func classify(err error) fault {
	var classed *fault
	var refused *ledger.RefusedError
	var quote *ledger.QuoteError
	var number *privacy.ParseError
	var rollback *ledger.RollbackError
	var clock *ledger.ClockError
	switch {
	case errors.Is(err, context.Canceled):
		return fault{"interrupted", exitUnexpected, "", err}
	case errors.As(err, &rollback):
		return fault{"rolled-back", exitIntegrity, rollbackHint(rollback.Checkpoint.Origin != rollback.Ledger.Origin), err}
	case errors.As(err, &classed):
		return *classed
	case errors.As(err, &refused):
		return fault{"refused", exitRefused, reasons(refused.Refused), err}
	case errors.As(err, &quote):
		return classifyQuote(quote, err)
	case errors.As(err, &clock):
		return fault{"clock", exitUsage, clockHint(clock), err}
	case errors.As(err, &number):
		return fault{"invalid", exitUsage, "", err}
	}
	for _, class := range classes() {
		if errors.Is(err, class.err) {
			return class
		}
	}
	return fault{"unexpected", exitUnexpected, "", err}
}

// rollbackHint says what helps if a ledger does not go on from a checkpoint, which may be of another log.
func rollbackHint(foreign bool) string {
	if foreign {
		return "--db may name another ledger than the checkpoint is of"
	}
	return "use nothing of this file: what was released since would be drawn anew; find the one that goes on from the checkpoint"
}

func classifyQuote(quote *ledger.QuoteError, err error) fault {
	if quote.Helps == ledger.HelpsPaying {
		return fault{"price", exitRefused, "raise --max-price, or lower --epsilon", err}
	}
	return fault{"quote-changed", exitRefused, `"ledgerctl quote" with the same order says what it is now, and the ID to sell that by`, err}
}

// refusal adds what may help against the refusal of a request, if err is one.
func refusal(err error, partial bool) error {
	var refused *ledger.RefusedError
	if !errors.As(err, &refused) || partial {
		return err
	}
	hint := "--partial leaves them out"
	if why := reasons(refused.Refused); why != "" {
		hint = why + "; " + hint
	}
	return &fault{kind: "refused", code: exitRefused, hint: hint, err: err}
}

// reasons explains why people were refused, where the reason's name does not.
func reasons(refused []ledger.Refusal) string {
	var texts []string
	for _, r := range refused {
		text := explainReason(r)
		if text != "" && !slices.Contains(texts, text) {
			texts = append(texts, text)
		}
	}
	return strings.Join(texts, "; ")
}

func explainReason(r ledger.Refusal) string {
	switch r.Reason {
	case ledger.NotEnrolled:
		return `not-enrolled: "ledgerctl enroll" adds people to a question`
	case ledger.NoNoiseKey:
		return "no-noise-key: --noise-key NAME=FILE gives the key that they began with"
	case ledger.NoTruthKey:
		return "no-truth-key: this ledger binds people to their true values; --truth-key FILE gives it the key by which it does"
	case ledger.NoTruth:
		return "no-truth: a draw is needed, and the truth file has no value for them (do --id-column or --id-rows mean their ids?)"
	case ledger.PolicyDiffers:
		return "policy-differs: enrolling again does not change a policy"
	case ledger.CapDiffers:
		return "cap-differs: enrolling again does not change a cap"
	case ledger.Withdrawn:
		return "withdrawn: they take part in nothing, unless they are enrolled again"
	case ledger.NotForSale:
		return `not-for-sale: they are not enrolled under a policy of kind "market"`
	case ledger.NotOnOffer:
		return `not-on-offer: their policy sells no such ε, see "ledgerctl show OBJECT"`
	case ledger.BuyerRefused:
		return "buyer-refused: their policy does not sell to this buyer"
	case ledger.SaleClosed:
		return `sale-closed: their policy sells at another time, see "ledgerctl show OBJECT"`
	case ledger.HoldersFull:
		return "holders-full: as many buyers as their policy allows hold this ε"
	}
	return ""
}

// failure is what --json prints of an error.
type failure struct {
	Kind    string  `json:"kind"`
	Message string  `json:"message"`
	Details details `json:"details"`
}

type details struct {
	Hint     string           `json:"hint,omitempty"`
	Key      string           `json:"key,omitempty"`  // of the request that can be taken up again
	Sale     uint64           `json:"sale,omitempty"` // that is made all the same
	Question string           `json:"question,omitempty"`
	Refused  []ledger.Refusal `json:"refused,omitempty"`
	Unlisted int              `json:"unlisted,omitempty"` // refused, too
	// What the order is now that was not what the buyer would have.
	Price    *int64 `json:"price,omitempty"` // in minor units
	Currency string `json:"currency,omitempty"`
	MaxPrice *int64 `json:"max_price,omitempty"`
	Quote    string `json:"quote,omitempty"` // its ID
	// What a checkpoint says, and what the ledger is instead.
	Checkpoint *ledger.Head `json:"checkpoint,omitempty"`
	Ledger     *ledger.Head `json:"ledger,omitempty"`
}

// explain puts an error in words.
func explain(err error) (failure, exitCode) {
	class := classify(err)
	f := failure{Kind: class.kind, Message: err.Error(), Details: details{Hint: class.hint}}
	var refused *ledger.RefusedError
	if errors.As(err, &refused) {
		f.Details.Question, f.Details.Refused, f.Details.Unlisted = refused.Question, refused.Refused, refused.Unlisted
	}
	var quote *ledger.QuoteError
	if errors.As(err, &quote) {
		q := quote.Quote
		f.Details.Question, f.Details.Refused = q.Question, q.Refused
		f.Details.Price, f.Details.Currency, f.Details.MaxPrice, f.Details.Quote = &q.Price, q.Currency, quote.MaxPrice, q.ID
	}
	var rollback *ledger.RollbackError
	if errors.As(err, &rollback) {
		f.Details.Checkpoint, f.Details.Ledger = &rollback.Checkpoint, &rollback.Ledger
	}
	if class.kind == "interrupted" {
		f.Message = "interrupted"
	}
	var request *keyed
	var done *unfinishedError
	switch {
	case !errors.As(err, &request):
	case errors.As(err, &done):
		f.Details.Key, f.Details.Sale = request.key, done.sale
		f.Details.Hint = fmt.Sprintf("the same command with --key %s gives the result again, and does nothing twice", quoted(request.key))
	case class.code == exitUnexpected:
		f.Details.Key = request.key
		f.Details.Hint = fmt.Sprintf("the parts committed so far stay; the same command with --key %s goes on from there", quoted(request.key))
	}
	return f, class.code
}

// fail tells the user what went wrong and returns the exit code.
func (a *app) fail(err error, jsonAsked bool) exitCode {
	f, code := explain(err)
	var refused *ledger.RefusedError
	if errors.As(err, &refused) {
		a.warnChanged(refused.TruthChanged)
	}
	if a.json || jsonAsked {
		// Nobody is left to tell that stderr cannot be written to.
		_ = writeJSON(a.stderr, map[string]failure{"error": f})
		return code
	}
	text := "ledgerctl: " + f.Message
	if f.Details.Hint != "" {
		text += " (hint: " + f.Details.Hint + ")"
	}
	fmt.Fprintln(a.stderr, oneLine(text))
	return code
}

// warn prints a warning once, unless told to be quiet.
func (a *app) warn(text string) {
	known := slices.Contains(a.warned, text)
	a.warned = append(a.warned, text)
	switch {
	case a.quiet || known:
	case a.json:
		_ = json.NewEncoder(a.stderr).Encode(map[string]map[string]string{"warning": {"message": text}})
	default:
		fmt.Fprintln(a.stderr, "ledgerctl: warning: "+oneLine(text))
	}
}

// warnChanged says whose true value is not the one drawn from before. The results say "no-truth" of them, which others may
// read as well: so it is on standard error alone, once, and in no exit code.
func (a *app) warnChanged(people []string) {
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
	a.warn("for you alone: the true value is not the one drawn from before, for " + strings.Join(shown, ", "))
}

// oneLine keeps a message on one line, and what is in it from steering the terminal.
func oneLine(text string) string {
	text = strings.ReplaceAll(strings.TrimSpace(text), "\n", "; ")
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return unicode.ReplacementChar
		}
		return r
	}, text)
}
