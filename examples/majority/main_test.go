package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/sluicedp/sluice/mechanism"
)

// The answers vary from run to run; everything else in the output does not.
func TestMajority(t *testing.T) {
	var out bytes.Buffer
	svg := filepath.Join(t.TempDir(), "triangle.svg")
	if err := run(&out, "../../testdata/chile_plebiscite_1988.csv", svg); err != nil {
		t.Fatal(err)
	}
	cells := func(sure ...string) string {
		return `( +(no|yes|undecided|abstain)( ✗)? +` + strings.Join(sure, ` %)( +(no|yes|undecided|abstain)( ✗)? +`) + ` %)\n`
	}
	for _, want := range []string{
		`2532 people enrolled, each with a budget of ε = 2\.55; 168 more did not answer`,
		`region +people +commonest +lead +ε = 0\.05 +sure +ε = 0\.2 +sure +ε = 1 +sure\n`,
		`Metropolitan area +81 +yes +15` + cells("37", "79", ">99"),
		`ALL REGIONS +2532 +no +21` + cells("43", "88", ">99"),
		`North +313 +yes +33` + cells("57", "96", ">99"),
		`Central +569 +no +36` + cells("61", "98", ">99"),
		`South +679 +yes +61` + cells("79", ">99", ">99"),
		`City of Santiago +890 +no +99` + cells("92", ">99", ">99"),
		`when 8 people change their votes \(Metropolitan area\), 50 \(City of Santiago\), or 11 of all 2532\.`,
		`at ε = 0\.05 is "(yes|no)"\. The truth is "no": 868 of 2532 do\. It was >99 % sure`,
		`own region +ε = 1\.25 `, `all regions +ε = 1\.25 `, `majority +ε = 0\.05 `,
		`spent in all +ε = 2\.55 .* 2532 people`,
		`all asked again +ε = 0 +all 19 answers`, `winner at ε = 0\.5 +ε = 0 +derived`,
		`All 1891 ways in which 60 people`, `A > B > C +331 +38 % +10 +91 %\n`, `C > B > A +300 +38 % +9 +89 %\n`,
		`Verified on all 5490 edges`, `PICTURE   ` + regexp.QuoteMeta(svg),
	} {
		if !regexp.MustCompile(want).MatchString(out.String()) {
			t.Errorf("the output lacks %q:\n%s", want, out.String())
		}
	}
	if _, err := os.Stat(svg); err != nil {
		t.Error(err)
	}
}

func TestMissingDataSaysWhereToRun(t *testing.T) {
	err := run(new(bytes.Buffer), "nowhere.csv", filepath.Join(t.TempDir(), "triangle.svg"))
	if err == nil || !strings.Contains(err.Error(), "top of the repository") {
		t.Errorf("error %v", err)
	}
}

func newTriangle(t *testing.T, people int) *triangle {
	t.Helper()
	tri, err := solve(people, 0.2)
	if err != nil {
		t.Fatal(err)
	}
	return tri
}

func TestPictureIsWellFormedAndWhole(t *testing.T) {
	picture := newTriangle(t, 60).draw()
	cells, texts := elements(t, picture)
	if cells != 1891 {
		t.Errorf("%d cells", cells)
	}
	for _, want := range []string{
		"A > B > C", "A > C > B", "B > A > C", "B > C > A", "C > A > B", "C > B > A", "all A", "all B", "all C", "0.75",
	} {
		if texts[want] != 1 {
			t.Errorf("%q stands there %d times", want, texts[want])
		}
	}
	if again := newTriangle(t, 60).draw(); !bytes.Equal(again, picture) {
		t.Error("the picture is not the same each time")
	}
}

// elements counts the cells of a picture and its texts.
func elements(t *testing.T, picture []byte) (cells int, texts map[string]int) {
	t.Helper()
	texts = map[string]int{}
	decoder := xml.NewDecoder(bytes.NewReader(picture))
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return cells, texts
		}
		if err != nil {
			t.Fatal(err)
		}
		switch token := token.(type) {
		case xml.StartElement:
			for _, attribute := range token.Attr {
				if attribute.Name.Local == "class" && attribute.Value == "cell" {
					cells++
				}
			}
		case xml.CharData:
			texts[string(token)]++
		}
	}
}

// The distances in the graph are those that Plurality finds from the counts alone.
func TestGraphAgreesWithQuery(t *testing.T) {
	for _, people := range []int{1, 2, 3, 17, 60} {
		tri := newTriangle(t, people)
		for row, column := range tri.splits() {
			place, err := mechanism.Plurality().Place(tri.counts(row, column), mechanism.Substitution)
			if err != nil {
				t.Fatal(err)
			}
			if got := tri.distances[vertex(row, column)]; int64(got) != place.Distance {
				t.Errorf("%v: distance %d in the graph, %d from the counts", tri.counts(row, column), got, place.Distance)
			}
		}
	}
}
