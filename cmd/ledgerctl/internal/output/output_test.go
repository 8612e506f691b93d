package output

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluicedp/sluice/internal/check"
)

func TestWriteJSON_Fractions_HaveSeventeenDigits(t *testing.T) {
	for value, want := range map[float64]string{
		0: "0", 1: "1", 0.5: "0.5", 0.1: "0.10000000000000001", -2.0 / 3: "-0.66666666666666663",
		5e-324: "4.9406564584124654e-324", math.MaxFloat64: "1.7976931348623157e+308", 1e-9: "1.0000000000000001e-09",
	} {
		var text bytes.Buffer
		err := WriteJSON(&text, map[string]any{`0.1 "0.1\`: []any{"-0.1", value, value}, "int": uint64(math.MaxUint64)})
		if whole := fmt.Sprintf(`{"0.1 \"0.1\\":["-0.1",%s,%[1]s],"int":18446744073709551615}`+"\n", want); err != nil || text.String() != whole {
			t.Errorf("%v: %s, %v; want %s", value, &text, err, whole)
		}
		if back, err := strconv.ParseFloat(want, 64); err != nil || back != value {
			t.Errorf("%s reads back as %v, %v", want, back, err)
		}
	}
}

// sum is a result.
type sum struct {
	N int `json:"n"`
}

// Table implements [Result].
func (s sum) Table(t *Table) {
	t.Row("sum", s.N)
	t.Row("the same again", s.N)
}

// tabbed returns the rows of a result with tabs between their cells.
func tabbed(r Result) string {
	var t Table
	r.Table(&t)
	text := ""
	for _, row := range t.rows {
		text += strings.Join(row, "\t") + "\n"
	}
	return text
}

func TestPrinter_ResultsWarningsErrors_GoToTheirStreams(t *testing.T) {
	for _, test := range []struct {
		p              Printer
		stdout, stderr string
	}{
		{Printer{}, "sum             7\nthe same again  7\n", "ledgerctl: warning: careful\nledgerctl: no such thing (hint: look elsewhere)\n"},
		{Printer{JSON: true}, `{"n":7}` + "\n", `{"warning":{"message":"careful"}}` + "\n" + `{"error":{"kind":"usage","message":"no such thing","details":{"hint":"look elsewhere"}}}` + "\n"},
		{Printer{Quiet: true, Taken: true}, "", "ledgerctl: no such thing (hint: look elsewhere)\n"},
	} {
		var stdout, stderr bytes.Buffer
		p := test.p
		p.Stdout, p.Stderr = &stdout, &stderr
		check.OK(t, p.Print(sum{7}))
		p.Warn("careful")
		p.Warn("careful") // a warning is given once
		if code := p.Fail(UsageError("look elsewhere", "no such thing"), false); code != ExitMisuse {
			t.Errorf("exit code %d", code)
		}
		if stdout.String() != test.stdout || stderr.String() != test.stderr {
			t.Errorf("%+v: printed %q, and %q on stderr", test.p, &stdout, &stderr)
		}
	}
}

func TestWarnTruths_ManyPeople_NamesAFew(t *testing.T) {
	var stderr bytes.Buffer
	p := Printer{Stderr: &stderr}
	p.WarnTruths(nil, nil)
	check.That(t, stderr.Len() <= 0, "a warning without people: %q", &stderr)
	p.WarnTruths(slices.Repeat([]string{"ann"}, 25), nil)
	if text := stderr.String(); strings.Count(text, `"ann"`) != 20 || !strings.Contains(text, "and 5 more") {
		t.Error(text)
	}
}

// other is a struct whose members are inlined in a result.
type other struct {
	M int `json:"m"`
}

// In JSON, Fields is like a struct with the same keys. The table has the lines with labels.
func TestFields_KeysAndLabels_SelectJSONAndTable(t *testing.T) {
	var out Fields
	out.Add("name", "called", "a\tb <c>")
	out.Add("n", "", 7)
	out.Add("", "in words", "seven")
	out.Add("at", "when", time.Date(2027, 1, 2, 3, 4, 5, 6, time.UTC))
	out.Add("none", "", []string(nil))
	out.AddNonZero("zero", "zero", 0)
	out.AddNonZero("empty", "empty", []int{})
	out.AddNonZero("one", "", []int{1})
	out.Inline(other{8})
	out.Inline(struct{}{})
	out.Section(func(t *Table) { t.Line("end") })
	var text bytes.Buffer
	check.Must(t, WriteJSON(&text, out))
	const want = `{"name":"a\tb <c>","n":7,"at":"2027-01-02T03:04:05.000000006Z","none":[],"one":[1],"m":8}` + "\n"
	check.That(t, text.String() == want, "JSON %s, want %s", &text, want)
	if table, want := tabbed(out), "called\ta\ufffdb <c>\nin words\tseven\nwhen\t2027-01-02T03:04:05.000000006Z\nend\n"; table != want {
		t.Errorf("table %q, want %q", table, want)
	}
}

// row is an item of a list.
type row struct {
	N      int    `json:"n"`
	Text   string `json:"text"`
	Hidden int    `json:"hidden,omitempty"`
	Price  int64  `json:"price"`
}

func TestList_Columns_AreSelectedByJSONKeys(t *testing.T) {
	for _, test := range []struct {
		items       []row
		json, table string
	}{
		{nil, `{"sales":[]}`, "no sales\n"},
		{
			[]row{{N: 1, Text: "a\x1b", Price: 223100}, {N: 2, Hidden: 3}},
			`{"sales":[{"n":1,"text":"a\u001b","price":223100},{"n":2,"text":"","hidden":3,"price":0}]}`,
			"TEXT\tNUMBER\tHIDDEN\tPRICE\na\ufffd\t1\t\t2,231.00 EUR\n\t2\t3\t0.00 EUR\n",
		},
	} {
		list := List("sales", test.items, "text n=number hidden price", "EUR")
		text, err := json.Marshal(list)
		if table := tabbed(list); err != nil || string(text) != test.json || table != test.table {
			t.Errorf("%v: %s and %q, %v", test.items, text, table, err)
		}
	}
}

// The events of every request have the same key, so that scripts can continue after them.
func TestInlineDone_FirstAndLast_AreEvents(t *testing.T) {
	type done struct {
		other
		Gone  int    `json:"gone,omitempty"`
		First uint64 `json:"first"`
		Last  uint64 `json:"last"`
	}
	for json, events := range map[string][2]uint64{`{"m":8,"events":{"first":3,"last":5}}`: {3, 5}, `{"m":8}`: {}} {
		var out Fields
		out.InlineDone(done{other: other{8}, First: events[0], Last: events[1]}, "m many")
		var text bytes.Buffer
		check.Must(t, WriteJSON(&text, out))
		check.That(t, text.String() == json+"\n", "JSON %s, want %s", &text, json)
		check.That(t, strings.HasPrefix(tabbed(out), "many\t8\n") && strings.Contains(tabbed(out), "events\t3 to 5\n") == (events[0] > 0), "%q", tabbed(out))
	}
}

func TestInline_Rows_ShowMembersWithCurrency(t *testing.T) {
	var out Fields
	out.Inline(struct {
		row
		Epsilon  string   `json:"epsilon"`
		Currency string   `json:"currency"`
		Lines    []string `json:"lines"`
		Secret   string   `json:"-"`
	}{row{N: 7, Price: -5}, "0.5", "JPY", []string{"a", "b"}, "x"}, "price", "epsilon", "n how many", "hidden", "lines", "none")
	if table, want := tabbed(out), "price\t-5 JPY\nε\t0.5\nhow many\t7\nlines\t2\n"; table != want {
		t.Errorf("table %q, want %q", table, want)
	}
}
