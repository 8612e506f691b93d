package mechanism

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/privacy"
)

func TestParseQuery_Text_ParsesBack(t *testing.T) {
	values := []string{"yes", "no", "a:b", "", ":", "1:2", "ja, vielleicht", "\xff", "plurality"}
	for text, want := range map[string]Query{
		"majority:yes":                      majority(0),
		"majority:a:b":                      majority(2),
		"majority:":                         majority(3),
		"majority::":                        majority(4),
		"majority:ja, vielleicht":           majority(6),
		"majority:\xff":                     majority(7),
		"majority:plurality":                majority(8),
		"threshold:no:10":                   threshold(1, 10),
		"threshold:a:b:0":                   threshold(2, 0),
		"threshold::-1":                     threshold(3, -1),
		"threshold:::7":                     threshold(4, 7),
		"threshold:1:2:3":                   threshold(5, 3),
		"threshold:yes:9223372036854775807": threshold(0, math.MaxInt64),
		"plurality":                         plurality(),
		"winner":                            winner(),
	} {
		got, err := ParseQuery(text, values)
		check.That(t, err == nil && got == want, "%q: %v, %v, want %v", text, got, err, want)
		back, err := want.Text(values)
		check.That(t, err == nil && back == text, "%v: %q, %v, want %q", want, back, err, text)
	}
}

func TestParseQuery_InvalidText_IsRefused(t *testing.T) {
	yesNo := []string{"yes", "no"}
	for _, test := range []struct {
		text   string
		values []string
		hint   string
	}{
		{"", yesNo, "expected majority:VALUE"},
		{"median", yesNo, "expected majority:VALUE"},
		{"Plurality", yesNo, "expected majority:VALUE"},
		{"plurality:", yesNo, "expected majority:VALUE"},
		{"winner:yes", yesNo, "expected majority:VALUE"},
		{"majority", yesNo, "expected majority:VALUE"},
		{"threshold", yesNo, "expected majority:VALUE"},
		{" majority:yes", yesNo, "expected majority:VALUE"},
		{"majority:", yesNo, `no value ""`},
		{"majority:Yes", yesNo, `no value "Yes" among "yes", "no"`},
		{"majority:yes ", yesNo, `no value "yes "`},
		{"threshold:yes", yesNo, "expected threshold:VALUE:N"},
		{"threshold:maybe:1", yesNo, `no value "maybe"`},
		{"threshold:yes:", yesNo, "not a decimal integer"},
		{"threshold:yes:+1", yesNo, "not a decimal integer"},
		{"threshold:yes:01", yesNo, "not a decimal integer"},
		{"threshold:yes:-0", yesNo, "not a decimal integer"},
		{"threshold:yes: 1", yesNo, "not a decimal integer"},
		{"threshold:yes:1e3", yesNo, "not a decimal integer"},
		{"threshold:yes:9223372036854775808", yesNo, "not a decimal integer"},
		{"majority:yes", []string{"yes", "no", "yes"}, "twice"},
		{"plurality", []string{"yes", "yes"}, "twice"},
		{"plurality", nil, "0 values"},
		{"plurality", []string{"yes"}, "1 values"},
		{"majority:x", []string{"x"}, "1 values"},
		{"plurality", make([]string, maxOutputs+1), "1025 values"},
	} {
		q, err := ParseQuery(test.text, test.values)
		check.That(t, errors.Is(err, privacy.ErrInvalid) && strings.Contains(err.Error(), test.hint) && q == (Query{}),
			"%q: %v, %v, want %q", test.text, q, err, test.hint)
	}
}

func TestQueryAnswers_NameTheOutputs(t *testing.T) {
	values := []string{"red", "green", "blue"}
	for q, want := range map[Query][]string{
		majority(2): {"no", "yes"}, threshold(0, 1): {"no", "yes"}, plurality(): values, winner(): values,
	} {
		got, err := q.Answers(values)
		check.That(t, err == nil && slices.Equal(got, want) && len(got) == q.Outputs(len(values)),
			"%v: %q, %v", q, got, err)
	}
	check.That(t, answerNo == 0 && answerYes == 1, "no and yes must be outputs 0 and 1")
	for _, q := range []Query{{}, majority(3)} {
		_, err := q.Answers(values)
		check.That(t, errors.Is(err, privacy.ErrInvalid), "answers of %v: %v", q, err)
		check.Is(t, check.Err(q.Text(values)), privacy.ErrInvalid, "text of %v", q)
	}
	check.Is(t, check.Err(majority(0).Text([]string{"a", "b", "a"})), privacy.ErrInvalid, "text with a value given twice")
}

// FuzzParseQuery checks that a text which is read is the text of what was read.
func FuzzParseQuery(f *testing.F) {
	f.Add("majority:a", "a", "b")
	f.Add("threshold:a:b:17", "a:b", "a")
	f.Add("threshold:::-9", ":", "")
	f.Add("winner", "", "x")
	f.Fuzz(func(t *testing.T, text, first, second string) {
		values := []string{first, second}
		q, err := ParseQuery(text, values)
		if err != nil {
			check.Need(t, errors.Is(err, privacy.ErrInvalid), "%v", err)
			return
		}
		back, err := q.Text(values)
		check.Need(t, err == nil && back == text, "%q became %v and that %q, %v", text, q, back, err)
		check.Must(t, check.Err(q.place([]int64{1, 2}, substitution)))
	})
}

// Queries are untrusted input. The memory to parse one is proportional to its length.
func TestParseQuery_HostileText_TakesMemoryLinearInText(t *testing.T) {
	const size, fixed, times = 1 << 20, 1 << 20, 200 // growing lists are copied several times
	fill := func(begin, item, end string) string { return begin + strings.Repeat(item, size/len(item)) + end }
	query := func(text string) func() error {
		return func() error { _, err := ParseQuery(text, []string{"yes", "no"}); return err }
	}
	for name, read := range map[string]func() error{
		"a threshold without end":   query(fill("threshold:yes:", "9", "")),
		"colons":                    query(fill("", ":", "")),
		"a value without end":       query(fill("majority:", "y", "")),
		"a threshold of no numbers": query("threshold:yes:99999999999999999999"),
	} {
		var err error
		took := check.Allocated(func() { err = read() })
		check.That(t, took <= fixed+times*size, "%s: %d bytes take %d (%v)", name, size, took, err != nil)
	}
}
