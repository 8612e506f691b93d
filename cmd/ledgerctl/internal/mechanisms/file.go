package mechanisms

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/input"
	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/output"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/privacy"
	"github.com/sluicedp/sluice/rrchain/finite"
)

// maxValues is the largest number of values of a question.
const maxValues = 1 << 20

// maxMechanism is the largest size of a mechanism that the ledger accepts, in bytes of JSON.
const maxMechanism = 1 << 20

// mechanismFile is a file with an [api.Mechanism]. "ledgerctl mechanism family" adds the other
// members, which are optional.
type mechanismFile struct {
	api.Mechanism
	Values []string      `json:"values,omitempty"` // the inputs, in their order
	Levels []familyLevel `json:"levels,omitempty"`
}

// mechanismText is a mechanismFile before its matrices are parsed, so that an error can name the
// matrix.
type mechanismText struct {
	Family  json.RawMessage `json:"family"`
	Outputs [][]string      `json:"outputs"`
	Values  []string        `json:"values"`
	Levels  json.RawMessage `json:"levels"` // follows from the family
}

const (
	mechanismHint = `a mechanism is {"family":{"levels":[…]},"outputs":[[…],…]}, ` +
		`as "ledgerctl mechanism family" writes it`
	countedHint  = "mechanisms, inputs and outputs are counted from 0"
	degradedHint = "a response at the lower ε cannot be derived from one at the higher ε without the true value, " +
		"so that both together " +
		"would cost more than the higher ε"
)

// ReadMechanism reads the mechanism of a question with the given values from a file.
func (h *Host) ReadMechanism(ctx context.Context, path string, values []string) (*api.Mechanism, error) {
	text, err := h.readMechanismText(ctx, path)
	if err != nil {
		return nil, output.InputError("", "--mechanism: %w", err)
	}
	var file mechanismText
	if err := strictJSON(text, &file); err != nil {
		return nil, output.InputError(mechanismHint, "--mechanism: %s: %w", path, err)
	}
	if file.Values != nil && !slices.Equal(file.Values, values) {
		return nil, output.InputError("the values of a mechanism, and their order, must be those of the question",
			"--mechanism: %s is for the values %s, not %s",
			path, output.Listed(file.Values), output.Listed(values))
	}
	family, err := readFamily(ctx, file.Family)
	if err != nil {
		return nil, output.InputError(familyHint(err), "--mechanism: %s: %w", path, err)
	}
	return &api.Mechanism{Family: family, Outputs: file.Outputs}, nil
}

// readMechanismText reads a file, or standard input, up to the size of the largest mechanism.
func (h *Host) readMechanismText(ctx context.Context, path string) (string, error) {
	if path != "-" {
		return readText(path, maxMechanism)
	}
	text, err := h.TextOrFile(ctx, "@-", maxMechanism+1)
	if err == nil && len(text) > maxMechanism {
		err = fmt.Errorf("standard input has more than %d bytes", maxMechanism)
	}
	return string(text), err
}

// strictJSON parses one JSON value. An unknown field is an error, because a misspelt field would
// otherwise be ignored.
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

// formError is the error of a text that does not have the form of a mechanism.
type formError struct{ error }

// readFamily parses a family of mechanisms in JSON. If the text has no channels between its levels,
// it computes them. It parses the levels one by one before the family, because the errors of the
// family do not name the level with a wrong probability.
func readFamily(ctx context.Context, text json.RawMessage) (*finite.Family, error) {
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
		return finite.NewFamily(ctx, levels...)
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

// familyHint returns a hint for the error of a family.
func familyHint(err error) string {
	var form formError
	var game *finite.NotDegradationError
	switch {
	case errors.As(err, &form):
		return mechanismHint
	case errors.As(err, &game):
		return degradedHint
	case errors.Is(err, privacy.ErrNoCertificate):
		return `fewer outputs, or the channels between the levels in "channels"`
	}
	return countedHint
}

// familyLevel describes the accuracy of the mechanism at one ε.
type familyLevel struct {
	Epsilon  privacy.Epsilon `json:"epsilon"`
	Size     int             `json:"size,omitempty"` // of the subsets
	Outputs  int             `json:"outputs"`
	Variance float64         `json:"variance"`                     // of an estimated share from one response
	Direct   float64         `json:"variance_randomized_response"` // the same of randomized response
}

// newMechanismFile returns the family of mechanisms at rising ε.
func newMechanismFile(ctx context.Context, values []string, steps []step) (mechanismFile, error) {
	out := mechanismFile{Values: values}
	var matrices []*finite.Matrix
	for _, s := range steps {
		level, err := newFamilyLevel(s)
		if err != nil {
			return out, err
		}
		out.Levels, out.Outputs = append(out.Levels, level), append(out.Outputs, s.names)
		matrices = append(matrices, s.matrix)
	}
	family, err := finite.NewFamily(ctx, matrices...)
	var game *finite.NotDegradationError
	if errors.As(err, &game) {
		return out, &output.Error{Kind: "invalid", Code: output.ExitMisuse, Hint: degradedHint +
			"; other sizes may help, or a larger distance between the ε", Err: err}
	}
	out.Family = family
	return out, err
}

// newFamilyLevel returns the accuracy of the mechanism at one ε, next to that of randomized
// response, which is subset selection with subsets of one value.
func newFamilyLevel(s step) (familyLevel, error) {
	level := familyLevel{Epsilon: s.epsilon, Size: s.size, Outputs: s.matrix.Outputs()}
	variance, err := meanVariance(s.matrix)
	if err != nil {
		return level, err
	}
	direct, err := subsetStep(s.matrix.Inputs(), 1, s.epsilon)
	if err != nil {
		return level, err
	}
	level.Variance = variance
	level.Direct, err = meanVariance(direct.matrix)
	return level, err
}

// Table implements [output.Result].
func (r mechanismFile) Table(t *output.Table) {
	t.Row("ε", "SUBSETS OF", "OUTPUTS", "VARIANCE", "RANDOMIZED RESPONSE", "RATIO")
	for _, l := range r.Levels {
		size := "–"
		if l.Size > 0 {
			size = strconv.Itoa(l.Size)
		}
		t.Row(l.Epsilon, size, l.Outputs, fmt.Sprintf("%.6g", l.Variance), fmt.Sprintf("%.6g", l.Direct),
			fmt.Sprintf("%.4g", l.Variance/l.Direct))
	}
	t.Line("")
	t.Line("The variance is that of an estimated share from one response; for N people divide it by N.")
}

// ReadValues returns the values that a flag lists, or those in the file that it names after an @. A
// question has at least two values, so a single value that begins with @ is always a file.
func ReadValues(values []string) ([]string, error) {
	if !slices.ContainsFunc(values, func(v string) bool { return strings.HasPrefix(v, "@") }) {
		for _, v := range values {
			if strings.TrimSpace(v) != v {
				return nil, output.UsageError("separate values by commas only, such as --values yes,no",
					"--values: the value %q begins or ends with a blank", v)
			}
		}
		return values, nil
	}
	if len(values) > 1 {
		return nil, output.UsageError("the name of a file cannot contain a comma; a value that begins with @ must be "+
			"in a file", "--values takes a list of values or one @FILE, not both")
	}
	text, err := readText(values[0][1:], maxValues*(256+2))
	if err != nil {
		return nil, output.InputError("", "--values: %w", err)
	}
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	for i, line := range lines {
		lines[i] = strings.TrimSuffix(line, "\r")
		if strings.TrimSpace(lines[i]) != lines[i] {
			return nil, output.InputError("", "--values: line %d of %s begins or ends with a blank", i+1, values[0][1:])
		}
	}
	return lines, nil
}

// readText reads a regular file of at most that many bytes, without a byte order mark.
func readText(path string, most int64) (string, error) {
	// Stat comes first, because opening a named pipe waits until its other end is opened.
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() || info.Size() > most {
		return "", fmt.Errorf("%q is not a file of up to %d bytes", path, most)
	}
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	text, err := io.ReadAll(input.Text(io.LimitReader(file, most)))
	return string(text), err
}
