package input

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/output"
	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/privacy"
)

func TestAmount_WithDecimals_ErrorHasMinorUnits(t *testing.T) {
	for text, want := range map[string]string{
		"10.50": "minor units; if the minor unit is a hundredth, write 1050", "0.07": "hundredth, write 7", "0.00": "hundredth, write 0",
		"1,234.50": "hundredth, write 123450", "10.50 EUR": "hundredth, write 1050",
		"10.5": "(cents, say)", "1.234": "(cents, say)", "1.": "(cents, say)", "": "minor units", "10 EUR": "minor units", "-1": "minor units", "1e3": "minor units", "9223372036854775808": "minor units", "0x10": "minor units",
	} {
		var a Amount
		if err := a.Set(text); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "minor units") || a.Units != nil {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	for text, want := range map[string]int64{"0": 0, "1050": 1050, "9223372036854775807": math.MaxInt64} {
		var a Amount
		if err := a.Set(text); err != nil || *a.Units != want || a.String() != text {
			t.Errorf("%q: %v, %v", text, a.Units, err)
		}
	}
}

// ruled has a flag for each option of a flag's tag.
type ruled struct {
	Text  string            `flag:"text"`
	Empty string            `flag:"blank,empty"`
	Least privacy.Epsilon   `flag:"least,positive"`
	Rate  float64           `flag:"rate,positive" default:"2"`
	Cap   int               `flag:"cap,positive" zero:"say what is meant"`
	Time  time.Duration     `flag:"time,positive"`
	One   bool              `flag:"one,not=two"`
	Two   string            `flag:"two"`
	Extra bool              `flag:"extra,needs=two"`
	All   []privacy.Epsilon `flag:"all,repeated"`
}

func TestCheckFlags_ViolatedOptions_AreErrors(t *testing.T) {
	for line, want := range map[string]string{
		"--text x --blank= --least 0.1 --rate 0.5 --time 3s --two x --extra": "", "": "", "--one --extra=false": "", "--one=false --two x": "",
		"--text=": "--text is empty", "--least 0": "--least must be above 0", "--rate 0": "--rate must be above 0", "--rate NaN": "--rate must be above 0",
		"--rate Inf": "--rate must be above 0", "--time -1s": "--time must be above 0", "--time 0": "--time must be above 0",
		"--one --two x": "--one and --two exclude each other", "--extra": "--extra needs --two",
	} {
		flags := pflag.NewFlagSet("", pflag.ContinueOnError)
		Define(&cobra.Command{}, flags, &ruled{})
		check.Must(t, flags.Parse(strings.Fields(line)))
		if err := CheckFlags(flags); err == nil && want != "" || err != nil && err.Error() != want {
			t.Errorf("%q: %v, want %q", line, err, want)
		}
	}
}

// The hint for 0 is in the tag of the flag, because only flags with a default can be omitted.
func TestCheckFlags_Zero_HintIsOfTheFlag(t *testing.T) {
	for name, want := range map[string]string{"least": "", "rate": "leave it out for the default", "cap": "say what is meant"} {
		flags := pflag.NewFlagSet("", pflag.ContinueOnError)
		Define(&cobra.Command{}, flags, &ruled{})
		check.Must(t, flags.Set(name, "0"))
		if err, is := errors.AsType[*output.Error](CheckFlags(flags)); !is || err.Hint != want {
			t.Errorf("--%s 0: %+v, want the hint %q", name, err, want)
		}
	}
}

func TestEpsilons_ListedOrRepeated_AreCollected(t *testing.T) {
	var f ruled
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	Define(&cobra.Command{}, flags, &f)
	if err := flags.Parse([]string{"--all", "0.5,1", "--all=2"}); err != nil || len(f.All) != 3 || f.All[2].String() != "2" {
		t.Errorf("%v, %v", f.All, err)
	}
	check.That(t, flags.Parse([]string{"--all", "0.5,x"}) != nil, "x is taken for an ε")
}
