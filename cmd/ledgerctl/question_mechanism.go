package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/fault"
	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/words"
	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/privacy"
	"github.com/sluicedp/sluice/rrchain/finite"
)

// mechanismFile is a file with a mechanism: a [ledger.Mechanism], and what "ledgerctl mechanism family" tells
// besides, which may be left out.
type mechanismFile struct {
	ledger.Mechanism
	Values []string      `json:"values,omitempty"` // the inputs, in their order
	Levels []familyLevel `json:"levels,omitempty"`
}

// mechanismText is a mechanismFile before its matrices are read, so that an error can tell which one it is about.
type mechanismText struct {
	Family  json.RawMessage `json:"family"`
	Outputs [][]string      `json:"outputs"`
	Values  []string        `json:"values"`
	Levels  json.RawMessage `json:"levels"` // follows from the family
}

const (
	mechanismHint = `a mechanism is {"family":{"levels":[…]},"outputs":[[…],…]}, as "ledgerctl mechanism family" makes it`
	countedHint   = "mechanisms, inputs and outputs are counted from 0"
	degradedHint  = "what is answered at the lower ε cannot be made from what is answered at the higher one without the truth, " +
		"so that both together would cost more than the higher ε"
)

// readMechanism reads the mechanism of a question with some values from a file.
func (a *app) readMechanism(path string, values []string) (*ledger.Mechanism, error) {
	text, err := a.readMechanismText(path)
	if err != nil {
		return nil, fault.Input("", "--mechanism: %w", err)
	}
	var file mechanismText
	if err := strictJSON(text, &file); err != nil {
		return nil, fault.Input(mechanismHint, "--mechanism: %s: %w", path, err)
	}
	if file.Values != nil && !slices.Equal(file.Values, values) {
		return nil, fault.Input("a mechanism is for some values in some order", "--mechanism: %s is for the values %s, not %s",
			path, words.Listed(file.Values), words.Listed(values))
	}
	family, err := readFamily(file.Family)
	if err != nil {
		return nil, fault.Input(familyHint(err), "--mechanism: %s: %w", path, err)
	}
	return &ledger.Mechanism{Family: family, Outputs: file.Outputs}, nil
}

// readMechanismText reads a file, or standard input, up to the size of the largest mechanism.
func (a *app) readMechanismText(path string) (string, error) {
	if path != "-" {
		return readText(path, ledger.MaxMechanism)
	}
	text, err := io.ReadAll(io.LimitReader(a.Stdin, ledger.MaxMechanism+1))
	if err == nil && len(text) > ledger.MaxMechanism {
		err = fmt.Errorf("standard input has more than %d bytes", ledger.MaxMechanism)
	}
	return string(text), err
}

// strictJSON reads one JSON value without unknown fields: a field with a slip in its name would be passed over.
func strictJSON(text string, value any) error {
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(value); err != nil {
		return err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return errors.New("there is more than one JSON value")
	}
	return nil
}

// formError says that a text does not have the form of a mechanism.
type formError struct{ error }

// readFamily reads the levels one by one before all of them, because the family's own errors do not tell whose a
// wrong probability is.
func readFamily(text json.RawMessage) (*finite.Family, error) {
	var parts struct {
		Levels   []json.RawMessage `json:"levels"`
		Channels []json.RawMessage `json:"channels"`
	}
	if len(text) == 0 || bytes.Equal(text, []byte("null")) {
		return nil, formError{errors.New("there is no family")}
	}
	if err := strictJSON(string(text), &parts); err != nil {
		return nil, formError{fmt.Errorf("the family: %w", err)}
	}
	levels := make([]*finite.Matrix, len(parts.Levels))
	for i, level := range parts.Levels {
		levels[i] = &finite.Matrix{}
		if err := levels[i].UnmarshalJSON(level); err != nil {
			return nil, fmt.Errorf("mechanism %d: %w", i, err)
		}
	}
	if parts.Channels == nil {
		return finite.NewFamily(levels...)
	}
	for i, channel := range parts.Channels {
		if err := new(finite.Matrix).UnmarshalJSON(channel); err != nil {
			return nil, fmt.Errorf("the channel from mechanism %d to mechanism %d: %w", i+1, i, err)
		}
	}
	family := &finite.Family{}
	if err := json.Unmarshal(text, family); err != nil {
		return nil, err
	}
	return family, nil
}

// familyHint says what may help against the error of a family.
func familyHint(err error) string {
	var form formError
	var game *finite.NotDegradationError
	switch {
	case errors.As(err, &form):
		return mechanismHint
	case errors.As(err, &game):
		return degradedHint
	case errors.Is(err, finite.ErrNoCertificate):
		return `fewer outputs, or the channels between the levels in "channels"`
	}
	return countedHint
}

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
func atLevels(ctx context.Context, l *ledger.Ledger, question string, epsilon privacy.Epsilon, err error) error {
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
