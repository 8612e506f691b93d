package main

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"testing"
)

func TestNumber(t *testing.T) {
	for value, want := range map[float64]string{
		0: "0", 1: "1", 0.5: "0.5", 0.1: "0.10000000000000001", -2.0 / 3: "-0.66666666666666663",
		5e-324: "4.9406564584124654e-324", math.MaxFloat64: "1.7976931348623157e+308", 1e-9: "1.0000000000000001e-09",
		math.Inf(1): "null", math.Inf(-1): "null",
	} {
		got, err := json.Marshal(number(value))
		if err != nil || string(got) != want {
			t.Errorf("%v: %s, %v; want %s", value, got, err, want)
		}
		if back, err := strconv.ParseFloat(string(got), 64); want != "null" && (err != nil || back != value) {
			t.Errorf("%s reads back as %v, %v", got, back, err)
		}
	}
	if got, err := json.Marshal(number(math.NaN())); err != nil || string(got) != "null" {
		t.Errorf("NaN: %s, %v", got, err)
	}
}

func TestListed(t *testing.T) {
	if got := listed([]string{"a", "b"}); got != "a, b" {
		t.Error(got)
	}
	long := strings.Split(strings.Repeat("x ", 999)+"z", " ")
	if got := listed(long); len(got) > 100 || !strings.HasSuffix(got, "…, z (1000 values)") {
		t.Error(got)
	}
}

func TestQuoted(t *testing.T) {
	for value, want := range map[string]string{"plain": "plain", "a b": `"a b"`, "a=b": `"a=b"`, `"`: `"\""`, "Ñuñoa": "Ñuñoa"} {
		if got := quoted(value); got != want {
			t.Errorf("quoted(%q) = %s", value, got)
		}
	}
}
