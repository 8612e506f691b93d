package httpapi

import (
	"fmt"
	"strings"
)

// QuotedKey encodes an idempotency key for the header. The result is a string of RFC 9651, "…",
// with \ before each \ and ". If the key has bytes other than printable ASCII, it is a display
// string, %"…", with %c3%bc for ü.
func QuotedKey(key string) string {
	plain := true
	for i := range len(key) {
		plain = plain && key[i] >= ' ' && key[i] <= '~'
	}
	if plain {
		return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(key) + `"`
	}
	var out strings.Builder
	out.WriteString(`%"`)
	for i := range len(key) {
		if c := key[i]; c < ' ' || c > '~' || c == '%' || c == '"' {
			fmt.Fprintf(&out, "%%%02x", c)
		} else {
			out.WriteByte(c)
		}
	}
	return out.String() + `"`
}
