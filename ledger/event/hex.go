package event

import "encoding/hex"

// Hex is bytes whose text form is lower-case hexadecimal digits.
type Hex []byte

// MarshalText implements [encoding.TextMarshaler].
func (h Hex) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, h), nil }

// UnmarshalText implements [encoding.TextUnmarshaler]. It accepts upper-case digits, too.
func (h *Hex) UnmarshalText(text []byte) (err error) {
	*h, err = hex.AppendDecode(nil, text)
	return err
}
