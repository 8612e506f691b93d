package finite

import (
	"encoding/json"
	"math/big"
	"strconv"
	"strings"
)

// MarshalJSON returns a list of probabilities for each input, as fractions in lowest terms:
// [["3/4","1/4"],["1/4","3/4"]].
func (m *Matrix) MarshalJSON() ([]byte, error) {
	if err := m.checkUsable(); err != nil {
		return nil, err
	}
	text := append(make([]byte, 0, 16*len(m.p)), '[')
	for i, p := range m.p {
		switch {
		case i == 0:
			text = append(text, `["`...)
		case i%m.outputs == 0:
			text = append(text, `"],["`...)
		default:
			text = append(text, `","`...)
		}
		text = appendInteger(text, p.Num())
		if !p.IsInt() {
			text = appendInteger(append(text, '/'), p.Denom())
		}
	}
	return append(text, `"]]`...), nil
}

// appendInteger appends an integer in decimal digits. It avoids the allocation that package big
// makes even for small integers.
func appendInteger(text []byte, n *big.Int) []byte {
	if n.IsInt64() {
		return strconv.AppendInt(text, n.Int64(), 10)
	}
	return n.Append(text, 10)
}

// UnmarshalJSON reads the form that [Matrix.MarshalJSON] writes. It also accepts other fractions
// ("6/8"), decimals ("0.75") and numbers (0.75), and converts them exactly. It refuses exponents. A
// Matrix is immutable, so UnmarshalJSON returns [privacy.ErrInvalid] unless m is the zero value.
// The other errors are those of [NewMatrix].
func (m *Matrix) UnmarshalJSON(data []byte) error {
	if m.inputs != 0 {
		return invalid("a matrix is immutable; unmarshal into the zero value")
	}
	var rows [][]probability
	if err := json.Unmarshal(data, &rows); err != nil {
		return invalid("not a list with a list of probabilities for each input: %v", err)
	}
	numbers := make([][]*big.Rat, len(rows))
	for x, row := range rows {
		for _, p := range row {
			numbers[x] = append(numbers[x], p.Rat)
		}
	}
	read, err := NewMatrix(numbers)
	if err != nil {
		return err
	}
	*m = *read
	return nil
}

// probability is a number in one of the accepted text forms.
type probability struct{ *big.Rat }

// UnmarshalJSON reads a JSON string with a fraction or decimal, or a JSON number without an
// exponent, exactly. It returns [privacy.ErrInvalid] for any other text, or one of more than
// maxDigits bytes.
func (p *probability) UnmarshalJSON(data []byte) error {
	text := string(data)
	if len(text) > 0 && text[0] == '"' {
		if err := json.Unmarshal(data, &text); err != nil {
			return err
		}
	}
	whole, rest, _ := strings.Cut(text, "/")    // numerator and denominator
	whole, places, _ := strings.Cut(whole, ".") // digits before and after the point
	// SetString would read an integer with a leading zero as octal, and an exponent of a few bytes
	// could fill any memory.
	ok := len(text) <= maxDigits && isInteger(whole) && isDigits(places) && (rest == "" || isInteger(rest))
	if ok {
		p.Rat, ok = new(big.Rat).SetString(text)
	}
	if !ok {
		return invalid("%.40q is not a fraction such as \"1/3\" or \"0.25\"", text)
	}
	return nil
}

// maxDigits is more than the digits of a fraction whose denominator has maxBits bits. Longer texts
// are refused, because the time of the greatest common divisor grows with the square of the length.
const maxDigits = 2*maxBits/3 + 8

// isInteger returns true for decimal digits without a leading zero, except "0".
func isInteger(text string) bool {
	return isDigits(text) && (len(text) == 1 || len(text) > 1 && text[0] != '0')
}

// isDigits returns true if the text has only decimal digits, or is empty.
func isDigits(text string) bool { return strings.Trim(text, "0123456789") == "" }

// familyJSON is the JSON form of a family.
type familyJSON struct {
	Levels   []*Matrix `json:"levels"`   // by rising ε
	Channels []*Matrix `json:"channels"` // each from a level down to the one before
}

// MarshalJSON returns the mechanisms by rising ε, and the channel from each down to the preceding
// one: {"levels": […], "channels": […]}. The channels are included because the mechanisms do not
// always determine them.
func (f *Family) MarshalJSON() ([]byte, error) {
	if len(f.levels) == 0 {
		return nil, invalid("the family has no mechanisms")
	}
	channels := f.channels
	if channels == nil {
		channels = []*Matrix{} // [] in JSON instead of null, which UnmarshalJSON refuses
	}
	return json.Marshal(familyJSON{f.levels, channels})
}

// UnmarshalJSON reads the form that [Family.MarshalJSON] writes. The channels are required. To
// check them is fast, while to find them may take minutes ([NewFamily]), so that a hostile text
// could keep its reader busy. It uses at most 1,000 times the memory of the text. A Family is
// immutable, so UnmarshalJSON returns [privacy.ErrInvalid] unless f is the zero value. The other
// errors are those of [NewFamily], and are also returned for a channel that does not lead from one
// level down to the other.
func (f *Family) UnmarshalJSON(data []byte) error {
	if f.levels != nil {
		return invalid("a family is immutable; unmarshal into the zero value")
	}
	var in familyJSON
	if err := json.Unmarshal(data, &in); err != nil {
		return invalid(`not an object with the lists "levels" and "channels": %v`, err)
	}
	if in.Channels == nil {
		return invalid("the family comes without the channels between its levels")
	}
	read, err := levelsOnly(in.Levels)
	if err != nil {
		return err
	}
	if len(in.Channels) != len(in.Levels)-1 {
		return invalid("%d channels for %d levels; %d are needed", len(in.Channels), len(in.Levels), len(in.Levels)-1)
	}
	for i, channel := range in.Channels {
		if channel.checkUsable() != nil || !in.Levels[i+1].composesTo(channel, in.Levels[i]) {
			return invalid("the channel from ε = %v does not map its mechanism to the one at ε = %v",
				read.epsilons[i+1], read.epsilons[i])
		}
	}
	read.channels = in.Channels
	*f = *read
	return nil
}
