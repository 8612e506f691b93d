package keyholder

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
)

// A key is not in any text, however it is formatted.
func TestKey_Formatted_ShowsNoByte(t *testing.T) {
	k := Key{'s', 'e', 'c', 'r', 'e', 't'}
	all := struct{ K Key }{k}
	inJSON := check.Value(json.Marshal(all))(t)
	for _, text := range []string{fmt.Sprint(k), fmt.Sprintf("%v %+v %#v %x %s %q %d", k, k, k, k, k, k, k), fmt.Sprint(all), string(inJSON)} {
		for _, bad := range []string{"secret", "736563", "115"} {
			check.That(t, !strings.Contains(text, bad), "it is printed as %s", text)
		}
	}
}

// A segment has a fixed form in JSON and as text, and the text is parsed strictly.
func TestSegment_Text_IsParsedStrictly(t *testing.T) {
	s := Segment{Term: 7, Number: 2}
	text, err := json.Marshal(s)
	check.That(t, string(text) == `{"term":7,"number":2}` && err == nil && s.String() == "7.2", "%s %v", text, err)
	got, err := parseSegment("7.2")
	check.That(t, got == s && err == nil, "%v %v", got, err)
	for _, bad := range []string{"", "7", "7.", ".2", "7.2.1", "07.2", "7. 2", "-1.1", "7.2\n", "18446744073709551616.1"} {
		check.WantErr(t, check.Err(parseSegment(bad)), errInvalid, "%q", bad)
	}
}
