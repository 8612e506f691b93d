package main

import (
	"regexp"
	"strings"
	"testing"
)

// The answers vary from run to run. The rest of the output does not.
func TestRun_FourOrders_PrintsSalesAndReceipt(t *testing.T) {
	var out strings.Builder
	if err := run(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	want := `^acme buys at ε = 0\.5 for \$2\.25: 3 drawn from the truth, 0 derived without it\.
   ana: (yes|no) \(\$1\.00\) eva: (yes|no) \(\$0\.50\) leo: (yes|no) \(\$0\.75\)
acme buys at ε = 1 for \$2\.05: 3 drawn from the truth, 0 derived without it\.
   ana: (yes|no) \(\$0\.80\) eva: (yes|no) \(\$0\.50\) leo: (yes|no) \(\$0\.75\)
zeta buys at ε = 0\.7 for \$3\.07: 0 drawn from the truth, 3 derived without it\.
   ana: (yes|no) \(\$1\.32\) eva: (yes|no) \(\$0\.70\) leo: (yes|no) \(\$1\.05\)
acme wants ε = 2, and gets nothing: object "leo": not-on-offer \(less helps; the largest ε that would do is 1\)
ana has earned \$3\.12, and spent ε = 1: the largest that was sold of her, and not the sum\.
The receipt of acme's first sale verifies: true\.
With another price it does not: altered: the sale .*
$`
	if !regexp.MustCompile(want).MatchString(out.String()) {
		t.Errorf("it prints\n%s", out.String())
	}
}
