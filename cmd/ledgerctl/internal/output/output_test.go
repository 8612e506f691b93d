package output

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/fault"
)

func TestNumber(t *testing.T) {
	for value, want := range map[float64]string{
		0: "0", 1: "1", 0.5: "0.5", 0.1: "0.10000000000000001", -2.0 / 3: "-0.66666666666666663",
		5e-324: "4.9406564584124654e-324", math.MaxFloat64: "1.7976931348623157e+308", 1e-9: "1.0000000000000001e-09",
		math.Inf(1): "null", math.Inf(-1): "null",
	} {
		got, err := json.Marshal(Number(value))
		if err != nil || string(got) != want {
			t.Errorf("%v: %s, %v; want %s", value, got, err, want)
		}
		if back, err := strconv.ParseFloat(string(got), 64); want != "null" && (err != nil || back != value) {
			t.Errorf("%s reads back as %v, %v", got, back, err)
		}
	}
	if got, err := json.Marshal(Number(math.NaN())); err != nil || string(got) != "null" {
		t.Errorf("NaN: %s, %v", got, err)
	}
}

// sum is a result.
type sum struct {
	N int `json:"n"`
}

// Table implements [Result].
func (s sum) Table(w io.Writer) { fmt.Fprintf(w, "sum\t%d\nthe same again\t%d\n", s.N, s.N) }

func TestPrinter(t *testing.T) {
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
		if err := p.Print(sum{7}); err != nil {
			t.Error(err)
		}
		p.Warn("careful")
		p.Warn("careful") // a warning is given once
		if code := p.Fail(fault.Usage("look elsewhere", "no such thing"), false); code != fault.Misuse {
			t.Errorf("exit code %d", code)
		}
		if stdout.String() != test.stdout || stderr.String() != test.stderr {
			t.Errorf("%+v: printed %q, and %q on stderr", test.p, &stdout, &stderr)
		}
	}
}

func TestWarnChangedNamesAFew(t *testing.T) {
	var stderr bytes.Buffer
	p := Printer{Stderr: &stderr}
	p.WarnTruths(nil, nil)
	if stderr.Len() > 0 {
		t.Errorf("nobody has changed: %q", &stderr)
	}
	p.WarnTruths(slices.Repeat([]string{"ann"}, 25), nil)
	if text := stderr.String(); strings.Count(text, `"ann"`) != 20 || !strings.Contains(text, "and 5 more") {
		t.Error(text)
	}
}
