package output

import (
	"encoding/json"
	"math"
	"strconv"
	"testing"
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
