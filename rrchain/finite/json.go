package finite

import (
	"encoding/json"
	"math/big"
	"strconv"
	"strings"
)

// MarshalJSON writes a list of probabilities for each input, as fractions in lowest terms:
// [["3/4","1/4"],["1/4","3/4"]].
func (m *Matrix) MarshalJSON() ([]byte, error) {
	if err := m.usable(); err != nil {
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

// appendInteger appends an integer in decimal digits. The package big allocates for small ones too.
func appendInteger(text []byte, n *big.Int) []byte {
	if n.IsInt64() {
		return strconv.AppendInt(text, n.Int64(), 10)
	}
	return n.Append(text, 10)
}

// UnmarshalJSON makes m what [Matrix.MarshalJSON] writes, or one of other fractions ("6/8"),
// decimals ("0.75") and numbers (0.75), all of which are taken exactly. An exponent is not
// possible. A Matrix does not change: [privacy.ErrInvalid] is returned unless m is the zero value.
// Else the errors are those of [NewMatrix].
func (m *Matrix) UnmarshalJSON(data []byte) error {
	if m.inputs != 0 {
		return invalid("a matrix does not change: it is read into the zero value")
	}
	var rows [][]probability
	if err := json.Unmarshal(data, &rows); err != nil {
		return invalid("a matrix is a list with a list of probabilities for each input: %v", err)
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

// probability is a number as it is written.
type probability struct{ *big.Rat }

func (p *probability) UnmarshalJSON(data []byte) error {
	text := string(data)
	if len(text) > 0 && text[0] == '"' {
		if err := json.Unmarshal(data, &text); err != nil {
			return err
		}
	}
	whole, rest, _ := strings.Cut(text, "/")
	whole, places, _ := strings.Cut(whole, ".")
	// An integer with a leading zero would be read as an octal one, and an exponent of a few bytes
	// would fill any memory.
	ok := len(text) <= mostDigits && isInteger(whole) && isDigits(places) && (rest == "" || isInteger(rest))
	if ok {
		p.Rat, ok = new(big.Rat).SetString(text)
	}
	if !ok {
		return invalid("%.40q is no fraction such as \"1/3\" or \"0.25\"", text)
	}
	return nil
}

// mostDigits is more than the two numbers of a fraction can have whose denominator has maxBits
// bits. To find their greatest common divisor takes a time that grows with the square of their
// lengths.
const mostDigits = 2*maxBits/3 + 8

func isInteger(text string) bool {
	return isDigits(text) && (len(text) == 1 || len(text) > 1 && text[0] != '0')
}

func isDigits(text string) bool { return strings.Trim(text, "0123456789") == "" }

// familyJSON is a family as it is written.
type familyJSON struct {
	Levels   []*Matrix `json:"levels"`   // by rising ε
	Channels []*Matrix `json:"channels"` // each from a level down to the one before
}

// MarshalJSON writes the mechanisms by rising ε and, which is not always determined by them, the
// channel from each down to the one before: {"levels": […], "channels": […]}.
func (f *Family) MarshalJSON() ([]byte, error) {
	if len(f.levels) == 0 {
		return nil, invalid("a family of no mechanisms")
	}
	channels := f.channels
	if channels == nil {
		channels = []*Matrix{}
	}
	return json.Marshal(familyJSON{f.levels, channels})
}

// UnmarshalJSON makes f what [Family.MarshalJSON] writes. The channels must be there: they are
// checked, which is quick, while to find them may take minutes ([NewFamily]), so that a text from
// outside could keep its reader busy. It takes no more memory than 1,000 times the text. A Family
// does not change: [privacy.ErrInvalid] is returned unless f is the zero value. Else the errors are
// those of [NewFamily], also for a channel that does not lead from one level down to the other.
func (f *Family) UnmarshalJSON(data []byte) error {
	if f.levels != nil {
		return invalid("a family does not change: it is read into the zero value")
	}
	var in familyJSON
	if err := json.Unmarshal(data, &in); err != nil {
		return invalid("a family is an object with a list of levels, and one of channels: %v", err)
	}
	if in.Channels == nil {
		return invalid("a family without the channels between its levels")
	}
	read, err := ladder(in.Levels)
	if err != nil {
		return err
	}
	if len(in.Channels) != len(in.Levels)-1 {
		return invalid("%d channels between %d levels", len(in.Channels), len(in.Levels))
	}
	for i, channel := range in.Channels {
		if channel.usable() != nil || !in.Levels[i+1].leads(channel, in.Levels[i]) {
			return invalid("the channel that should lead from ε = %v down to ε = %v does not",
				read.epsilons[i+1], read.epsilons[i])
		}
	}
	read.channels = in.Channels
	*f = *read
	return nil
}
