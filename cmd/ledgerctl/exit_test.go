package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"unicode"

	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/mechanism"
	"github.com/sluicedp/sluice/mechanism/graph"
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
	"github.com/sluicedp/sluice/rrchain"
	"github.com/sluicedp/sluice/rrchain/finite"
)

func TestEveryErrorHasItsExitCode(t *testing.T) {
	for _, test := range []struct {
		err  error
		kind string
		code exitCode
	}{
		{errors.New("anything else"), "unexpected", 1},
		{context.Canceled, "interrupted", 1},
		{ledger.ErrStopped, "stopped", 1},
		{ledger.ErrClosed, "unexpected", 1},
		{usageError("", "typed wrong"), "usage", 2},
		{inputError("", "bad file"), "input", 2},
		{ledger.ErrInvalid, "invalid", 2},
		{ledger.ErrUnknown, "unknown", 2},
		{ledger.ErrNoResponses, "no-responses", 2},
		{ledger.ErrTruthKey, "truth-key", 2},
		{ledger.ErrNoiseKey, "noise-key", 2},
		{ledger.ErrNoSigner, "usage", 2},
		{policy.ErrInvalid, "invalid", 2},
		{rrchain.ErrInvalid, "invalid", 2},
		{mechanism.ErrInvalid, "invalid", 2},
		{graph.ErrInvalid, "invalid", 2},
		{finite.ErrInvalid, "invalid", 2},
		{finite.ErrNoCertificate, "no-certificate", 2},
		{&privacy.ParseError{Kind: "epsilon"}, "invalid", 2},
		{fs.ErrNotExist, "not-found", 2},
		{fs.ErrExist, "exists", 2},
		{&ledger.RefusedError{Question: "q"}, "refused", 3},
		{&ledger.QuoteError{Quote: ledger.Quote{Offer: ledger.Offer{Price: 2}}, MaxPrice: new(int64), Helps: ledger.HelpsPaying}, "price", 3},
		{&ledger.QuoteError{Quote: ledger.Quote{Offer: ledger.Offer{Price: 2}}, Expected: "x", MaxPrice: new(int64), Helps: ledger.HelpsPaying}, "price", 3},
		{&ledger.QuoteError{Expected: "x", MaxPrice: new(int64), Helps: ledger.HelpsQuoting}, "quote-changed", 3},
		{&ledger.QuoteError{Expected: "x", Helps: ledger.HelpsQuoting}, "quote-changed", 3},
		{ledger.ErrNotReserved, "not-reserved", 3},
		{ledger.ErrForgotten, "forgotten", 3},
		{ledger.ErrCorrupt, "corrupt", 4},
		{ledger.ErrVersion, "version", 4},
		{ledger.ErrReplaced, "replaced", 4},
		{ledger.ErrCheckpoint, "checkpoint", 4},
		{&ledger.RollbackError{}, "rolled-back", 4},
		{errors.Join(ledger.ErrStopped, ledger.ErrCorrupt), "corrupt", 4},
		{ledger.ErrKeyConflict, "key-conflict", 5},
		{ledger.ErrInUse, "in-use", 6},
	} {
		f, code := explain(fmt.Errorf("open x: %w", &started{errors.Join(test.err, nil)}))
		if f.Kind != test.kind || code != test.code {
			t.Errorf("%v: kind %q, code %d; want %q, %d", test.err, f.Kind, code, test.kind, test.code)
		}
	}
}

func TestInterruptedRequestTellsItsKey(t *testing.T) {
	f, code := explain(withKey("k-1", fmt.Errorf("raise: %w", context.Canceled)))
	if code != exitUnexpected || f.Message != "interrupted" || f.Details.Key != "k-1" || !strings.Contains(f.Details.Hint, "--key k-1") {
		t.Errorf("%+v, code %d", f, code)
	}
	if f, _ := explain(withKey("k-1", ledger.ErrInvalid)); f.Details.Key != "" {
		t.Errorf("a wrong request asks to be repeated: %+v", f)
	}
	if withKey("k-1", nil) != nil {
		t.Error("no error became one")
	}
}

// What was done for good must not look like a command that was typed wrong.
func TestUnfinishedWorkIsNoWrongUsage(t *testing.T) {
	f, code := explain(withKey("k-1", unfinished("sale 7 is made, but", 7, fs.ErrNotExist)))
	if code != exitUnexpected || f.Details.Key != "k-1" || f.Details.Sale != 7 || !strings.Contains(f.Details.Hint, "--key k-1") || !strings.HasPrefix(f.Message, "sale 7 is made, but: ") {
		t.Errorf("%+v, code %d", f, code)
	}
	if f, code := explain(unfinished("done", 0, ledger.ErrCorrupt)); code != exitIntegrity || f.Kind != "corrupt" {
		t.Errorf("%+v, code %d", f, code)
	}
	if unfinished("done", 0, nil) != nil {
		t.Error("no error became one")
	}
}

func TestEveryReasonIsExplainedOnce(t *testing.T) {
	var refused []ledger.Refusal
	for _, reason := range []ledger.Reason{
		ledger.NotEnrolled, ledger.NoTruth, ledger.CapDiffers, ledger.PolicyDiffers, ledger.Withdrawn, ledger.NotForSale,
		ledger.NotOnOffer, ledger.BuyerRefused, ledger.SaleClosed, ledger.HoldersFull,
	} {
		refused = append(refused, ledger.Refusal{Object: "a", Reason: reason}, ledger.Refusal{Object: "b", Reason: reason})
		if text := explainReason(refused[len(refused)-1]); !strings.HasPrefix(text, string(reason)+": ") {
			t.Errorf("%s: %q", reason, text)
		}
	}
	if text := reasons(refused); strings.Count(text, "holders-full: ") != 1 || strings.Count(text, "no-truth: ") != 1 {
		t.Error(text)
	}
	err := &ledger.RefusedError{Question: "q", Refused: refused[:1]}
	for _, test := range []struct {
		err  error
		want bool
	}{{refusal(err, false), true}, {refusal(err, true), false}, {err, false}} {
		f, code := explain(test.err)
		if code != exitRefused || f.Kind != "refused" || strings.Contains(f.Details.Hint, "--partial") != test.want {
			t.Errorf("%+v, code %d", f, code)
		}
	}
}

func TestMessageStaysOnOneLine(t *testing.T) {
	for text, want := range map[string]string{
		"a\nb\n":        "a; b",
		"red \x1b[31m!": "red \ufffd[31m!",
		"  plain  ":     "plain",
	} {
		got := oneLine(text)
		if got != want || strings.ContainsFunc(got, unicode.IsControl) {
			t.Errorf("oneLine(%q) = %q, want %q", text, got, want)
		}
	}
}

func TestWantsJSON(t *testing.T) {
	for line, want := range map[string]bool{
		"--json bogus": true, "bogus --json": true, "--json=true x": true, "x": false, "show -- --json": false, "": false,
	} {
		if got := wantsJSON(strings.Fields(line)); got != want {
			t.Errorf("wantsJSON(%q) = %v", line, got)
		}
	}
}
