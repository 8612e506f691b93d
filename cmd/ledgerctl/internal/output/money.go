package output

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// The currency codes of ISO 4217 by their minor unit. (Unicode's CLDR, and with it
// golang.org/x/text/currency, has the common notation of amounts, which often has fewer decimals
// than the minor unit.)
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

// decimalsOf returns the number of decimals of a currency, if that is known.
func decimalsOf(currency string) (decimals int, known bool) {
	for decimals, codes := range []string{wholes, "", hundredths, thousandths} {
		if slices.Contains(strings.Fields(codes), currency) {
			return decimals, true
		}
	}
	return 0, false
}

// Money formats an amount in minor units of a currency, such as "2,231.00 EUR". If the currency is
// not known, it formats the number of minor units.
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
