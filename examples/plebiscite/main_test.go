package main

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
)

// The estimates vary from run to run; everything else in the output does not.
func TestPlebiscite(t *testing.T) {
	var out bytes.Buffer
	if err := run(&out, "../../testdata/chile_plebiscite_1988.csv"); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`2532 people enrolled, each with a budget of ε = 2; 168 more did not answer`,
		`Ana +0\.5 +2532 +0 +0\.5\n`, `Ana +1 +2532 +0 +0\.5\n`, `Ana +2 +2532 +0 +1\n`,
		`Ben +0\.7 +0 +2532 +0\n`, // the later buyer of less costs nobody anything
		`no +35\.1 % `, `yes \(Pinochet\) +34\.3 % `, `undecided +23\.2 % `, `abstain +7\.4 % `,
		`Metropolitan area +81 +22\.2 % `, `City of Santiago +890 +38\.8 % `,
		`with the ledger +ε = 2 `, `asking anew +ε = 4\.2 `,
		`all 10128 answers are the same`,
	} {
		if !regexp.MustCompile(want).MatchString(out.String()) {
			t.Errorf("the output lacks %q:\n%s", want, out.String())
		}
	}
}

func TestMissingDataSaysWhereToRun(t *testing.T) {
	err := run(new(bytes.Buffer), "nowhere.csv")
	if err == nil || !strings.Contains(err.Error(), "top of the repository") {
		t.Errorf("error %v", err)
	}
}
