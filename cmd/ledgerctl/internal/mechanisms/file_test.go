package mechanisms

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
)

// FuzzReadFamily checks that a family that is written as JSON is read back unchanged.
func FuzzReadFamily(f *testing.F) {
	for _, text := range []string{
		"", "null", "{}", `{"levels":[]}`, `{"levels":[{"rows":[["1"]]}]}`, `{"levels":[[["1/2","1/2"],["1/2","1/2"]]]}`,
		`{"levels":[{"rows":[["3/4","1/4"],["1/4","3/4"]]}],"channels":[]}`, `{"levels":[1],"channels":[2]}`, `{"channels":null}`, `{"levels":[],"more":1}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		family, err := readFamily(t.Context(), text)
		if err != nil {
			return
		}
		once, err := json.Marshal(family)
		check.Need(t, err == nil, "%s: %v", text, err)
		second, err := readFamily(t.Context(), once)
		check.Need(t, err == nil, "%s is written as %s: %v", text, once, err)
		if again, err := json.Marshal(second); err != nil || !bytes.Equal(again, once) {
			t.Fatalf("%s is written as %s, and then as %s, %v", text, once, again, err)
		}
	})
}
