package output

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/problem"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/journal"
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
)

func TestExplain_EveryError_HasItsExitCode(t *testing.T) {
	for _, test := range []struct {
		err  error
		kind string
		code ExitCode
	}{
		{errors.New("anything else"), "unexpected", 1},
		{context.Canceled, "interrupted", 1},
		{api.ErrStopped, "stopped", 1},
		{api.ErrClosed, "closed", 1},
		{UsageError("", "typed wrong"), "usage", 2},
		{InputError("", "bad file"), "input", 2},
		{api.ErrInvalid, "invalid", 2},
		{api.ErrUnknown, "unknown", 2},
		{api.ErrNoResponses, "no-responses", 2},
		{api.ErrTruthKey, "truth-key", 2},
		{api.ErrNoiseKey, "noise-key", 2},
		{api.ErrNoSigner, "usage", 2},
		{check.Err(policy.Parse(nil)), "invalid", 2},
		{privacy.ErrInvalid, "invalid", 2},
		{privacy.ErrNoCertificate, "no-certificate", 2},
		{&privacy.ParseError{Kind: "epsilon"}, "invalid", 2},
		{fs.ErrNotExist, "not-found", 2},
		{fs.ErrExist, "exists", 2},
		{&fs.PathError{Op: "mkdir", Path: "x", Err: syscall.EACCES}, "permission", 2},
		{&api.RefusedError{Question: "q"}, "refused", 3},
		{&api.QuoteError{Quote: api.Quote{Offer: api.Offer{Price: 2}}, MaxPrice: new(int64), Remedy: "paying"}, "price", 3},
		{&api.QuoteError{Quote: api.Quote{Offer: api.Offer{Price: 2}}, Expected: "x", MaxPrice: new(int64), Remedy: "paying"}, "price", 3},
		{&api.QuoteError{Expected: "x", MaxPrice: new(int64), Remedy: "quoting"}, "quote-changed", 3},
		{&api.QuoteError{Expected: "x", Remedy: "quoting"}, "quote-changed", 3},
		{&api.ReservationError{}, "not-reserved", 3},
		{api.ErrForgotten, "forgotten", 3},
		{api.ErrCorrupt, "corrupt", 4},
		{api.ErrVersion, "version", 4},
		{api.ErrReplaced, "replaced", 4},
		{api.ErrCheckpoint, "checkpoint", 4},
		{&api.RollbackError{}, "rolled-back", 4},
		{errors.Join(api.ErrStopped, api.ErrCorrupt), "corrupt", 4},
		{&api.KeyConflictError{}, "key-conflict", 5},
		{api.ErrInUse, "in-use", 6},
	} {
		f, code := Explain(fmt.Errorf("open x: %w", errors.Join(test.err, nil)))
		if f.Kind != test.kind || code != test.code {
			t.Errorf("%v: kind %q, code %d; want %q, %d", test.err, f.Kind, code, test.kind, test.code)
		}
	}
}

func TestExplain_InterruptedRequest_HasItsKey(t *testing.T) {
	f, code := Explain(WithKey("k-1", fmt.Errorf("raise: %w", context.Canceled)))
	if code != ExitUnexpected || f.Message != "interrupted" || f.Details.Key != "k-1" || !strings.Contains(f.Details.Hint, "--key k-1") {
		t.Errorf("%+v, code %d", f, code)
	}
	if f, _ := Explain(WithKey("k-1", api.ErrInvalid)); f.Details.Key != "" {
		t.Errorf("a wrong request asks to be repeated: %+v", f)
	}
	check.That(t, WithKey("k-1", nil) == nil, "no error became one")
}

// A permanent change must not end with the exit code of wrong usage.
func TestUnfinished_PartlyDone_IsNotWrongUsage(t *testing.T) {
	f, code := Explain(WithKey("k-1", Unfinished("sale 7 is made, but", 7, fs.ErrNotExist)))
	if code != ExitUnexpected || f.Details.Key != "k-1" || f.Details.Sale != 7 || !strings.Contains(f.Details.Hint, "--key k-1") || !strings.HasPrefix(f.Message, "sale 7 is made, but: ") {
		t.Errorf("%+v, code %d", f, code)
	}
	if f, code := Explain(Unfinished("done", 0, api.ErrCorrupt)); code != ExitIntegrity || f.Kind != "corrupt" {
		t.Errorf("%+v, code %d", f, code)
	}
	check.That(t, Unfinished("done", 0, nil) == nil, "no error became one")
}

func TestExplainRefusal_EveryReason_IsExplainedOnce(t *testing.T) {
	var refused []api.Refusal
	for _, reason := range []api.Reason{
		api.NotEnrolled, api.NoTruth, api.CapDiffers, api.PolicyDiffers, api.Withdrawn, api.NotForSale,
		api.NotOnOffer, api.BuyerRefused, api.SaleClosed, api.HoldersFull,
	} {
		refused = append(refused, api.Refusal{Object: "a", Reason: reason}, api.Refusal{Object: "b", Reason: reason})
		if text := explainReason(reason); !strings.HasPrefix(text, string(reason)+": ") {
			t.Errorf("%s: %q", reason, text)
		}
	}
	text := explainRefusal(&api.RefusedError{Refused: refused, Sums: new(api.RefusedError).SumsWith(refused...)})
	if strings.Count(text, "holders-full: ") != 1 || strings.Count(text, "no-truth: ") != 1 {
		t.Error(text)
	}
	err := &api.RefusedError{Question: "q", Refused: refused[:1]}
	for _, test := range []struct {
		err  error
		want bool
	}{{Refusal(err, false), true}, {Refusal(err, true), false}, {err, false}} {
		f, code := Explain(test.err)
		if code != ExitRefused || f.Kind != "refused" || strings.Contains(f.Details.Hint, "--partial") != test.want {
			t.Errorf("%+v, code %d", f, code)
		}
	}
}

// If the journal cannot be created, the hint names the directory, and does not suggest repeating a
// request that never began.
func TestExplain_JournalNotWritable_HintNamesTheDirectory(t *testing.T) {
	denied := &fs.PathError{Op: "mkdirat", Path: "panel.db.journal.new", Err: syscall.EACCES}
	f, code := Explain(WithKey("k", fmt.Errorf("make a journal: %w", denied)))
	if code != ExitMisuse || f.Kind != "permission" || f.Details.Key != "" || !strings.Contains(f.Details.Hint, "write to its directory") {
		t.Errorf("%+v, code %d", f, code)
	}
}

// The hint for an unreachable or fenced host names the address or the other host. It has the key
// only if the request has one.
func TestExplain_UnreachableServer_HintNamesTheAddress(t *testing.T) {
	gone := problem.New(problem.Unreachable, "the server: no such file")
	fenced := problem.Of(fmt.Errorf("%w: %w: 2, by host b", api.ErrStopped, journal.ErrFenced))
	for _, test := range []struct {
		err  error
		want string
	}{
		{gone, `is "ledgerctl serve" running there, and is the address in --addr or $LEDGER_ADDR right?`},
		{WithKey("k", gone), `is "ledgerctl serve" running there, and is the address in --addr or $LEDGER_ADDR right?; the parts committed so far stay; the same command with --key k continues from there`},
		{fenced, problem.TakenOver},
		{WithKey("k", fenced), problem.TakenOver + "; the parts committed so far stay; the same command with --key k continues from there"},
	} {
		if f, code := Explain(test.err); code != ExitUnexpected || f.Details.Hint != test.want {
			t.Errorf("%v: hint %q, code %d; want %q", test.err, f.Details.Hint, code, test.want)
		}
	}
}
