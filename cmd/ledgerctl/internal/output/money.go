package output

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// The codes of ISO 4217 whose minor unit is a hundredth, and of the others by how many decimals
// they have. (What Unicode's CLDR has, and with it golang.org/x/text/currency, is how amounts are
// commonly written, which is often without the decimals that the minor unit has.)
const (
	hundredths = "" +
		"AED AFN ALL AMD AOA ARS AUD AWG AZN BAM BBD BDT BGN BMD BND BOB BRL BSD BTN BWP BYN BZD CAD CDF CHF " +
		"CNY COP CRC CUP CVE CZK DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD GTQ GYD HKD HNL HTG " +
		"HUF IDR ILS INR IRR JMD KES KGS KHR KPW KYD KZT LAK LBP LKR LRD LSL MAD MDL MGA MKD MMK MNT MOP MRU " +
		"MUR MVR MWK MXN MYR MZN NAD NGN NIO NOK NPR NZD PAB PEN PGK PHP PKR PLN QAR RON RSD RUB SAR SBD SCR " +
		"SDG SEK SGD SHP SLE SOS SRD SSP STN SVC SYP SZL THB TJS TMT TOP TRY TTD TWD TZS UAH USD UYU UZS VED " +
		"VES WST XCD XCG YER ZAR ZMW ZWG"
	wholes      = "BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX VND VUV XAF XOF XPF"
	thousandths = "BHD IQD JOD KWD LYD OMR TND"
)

// decimalsOf returns how many decimals the amounts in a currency have, if that is known.
func decimalsOf(currency string) (decimals int, known bool) {
	for decimals, codes := range []string{wholes, "", hundredths, thousandths} {
		if slices.Contains(strings.Fields(codes), currency) {
			return decimals, true
		}
	}
	return 0, false
}

// Money shows an amount in minor units of a currency: "2,231.00 EUR". Of a currency that is not
// known it shows the minor units.
func Money(amount int64, currency string) string {
	decimals, known := decimalsOf(currency)
	if !known {
		return fmt.Sprintf("%d %s (minor units)", amount, currency)
	}
	sign, size := "", uint64(amount)
	if amount < 0 {
		sign, size = "-", -size
	}
	digits := strconv.FormatUint(size, 10)
	digits = strings.Repeat("0", max(0, decimals+1-len(digits))) + digits
	whole, fraction := digits[:len(digits)-decimals], digits[len(digits)-decimals:]
	for at := len(whole) - 3; at > 0; at -= 3 {
		whole = whole[:at] + "," + whole[at:]
	}
	if fraction != "" {
		whole += "." + fraction
	}
	return sign + whole + " " + currency
}
