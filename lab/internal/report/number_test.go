package report

import "testing"

func TestNumber_SmallAndLarge_IsRounded(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0", 0.948: "0.948", 0.9999: "1", 1.4: "1.4", 12.34: "12.3", 123.4: "123", 1234: "1,230", 99_960: "100,000",
		701_234: "701,000", 12_345_678: "12,300,000", -1.5: "-1.5", 0.000123: "0.000123",
	} {
		if got := Number(v); got != want {
			t.Errorf("%v is written %s, want %s", v, got, want)
		}
	}
}
