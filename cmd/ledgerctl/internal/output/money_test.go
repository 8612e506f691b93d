package output

import (
	"math"
	"testing"
)

func TestMoney_Amount_HasTheDecimalsOfItsCurrency(t *testing.T) {
	for _, test := range []struct {
		amount   int64
		currency string
		want     string
	}{
		{223100, "EUR", "2,231.00 EUR"}, {0, "USD", "0.00 USD"}, {7, "USD", "0.07 USD"}, {-123456789, "EUR", "-1,234,567.89 EUR"},
		{2231, "JPY", "2,231 JPY"}, {0, "JPY", "0 JPY"}, {2231, "KWD", "2.231 KWD"}, {1, "BHD", "0.001 BHD"},
		{99999, "IDR", "999.99 IDR"}, {100000, "AFN", "1,000.00 AFN"},
		{2231, "XYZ", "2231 XYZ (minor units)"}, {5, "eur", "5 eur (minor units)"}, {5, "", "5  (minor units)"},
		{math.MaxInt64, "EUR", "92,233,720,368,547,758.07 EUR"}, {math.MinInt64, "JPY", "-9,223,372,036,854,775,808 JPY"},
	} {
		if got := Money(test.amount, test.currency); got != test.want {
			t.Errorf("%d %s is shown as %q, want %q", test.amount, test.currency, got, test.want)
		}
	}
}
