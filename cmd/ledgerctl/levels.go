package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/fault"
	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/words"
	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/privacy"
)

// outline tells the levels of a mechanism without its probabilities.
func outline(m *ledger.Mechanism) string {
	var outputs []string
	for _, names := range m.Outputs {
		outputs = append(outputs, strconv.Itoa(len(names)))
	}
	return fmt.Sprintf("ε = %s; %s outputs", words.Listed(levelsOf(m)), words.Listed(outputs))
}

// levelsOf returns the ε of a mechanism, rising.
func levelsOf(m *ledger.Mechanism) []string {
	var all []string
	for _, epsilon := range m.Family.Epsilons() {
		all = append(all, epsilon.String())
	}
	return all
}

// atLevels adds to the error of a request at an ε what may help if the question has responses at other ε only.
func atLevels(ctx context.Context, l book, question string, epsilon privacy.Epsilon, err error) error {
	if !errors.Is(err, ledger.ErrInvalid) {
		return err
	}
	all, failed := l.Questions(ctx)
	at := slices.IndexFunc(all, func(q ledger.Question) bool { return q.Name == question })
	if failed != nil || at < 0 || all[at].Mechanism == nil {
		return err
	}
	hint := nearest(all[at].Mechanism.Family.Epsilons(), epsilon)
	if hint == "" {
		return err
	}
	return &fault.Fault{Kind: "invalid", Code: fault.Misuse, Hint: hint, Err: err}
}

// nearest says which of some rising ε are next to one that is not among them. It returns "" for one that is.
func nearest(levels []privacy.Epsilon, epsilon privacy.Epsilon) string {
	above, found := slices.BinarySearchFunc(levels, epsilon, privacy.Epsilon.Compare)
	if found {
		return ""
	}
	switch {
	case above == 0:
		return fmt.Sprintf("the lowest is ε=%s", levels[0])
	case above == len(levels):
		return fmt.Sprintf("the highest is ε=%s", levels[above-1])
	}
	return fmt.Sprintf("the next below is ε=%s, and the next above ε=%s", levels[above-1], levels[above])
}
