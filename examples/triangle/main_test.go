package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluicedp/sluice/mechanism"
)

func TestRun_SixtyPeople_DrawsAllSplits(t *testing.T) {
	file := filepath.Join(t.TempDir(), "triangle.svg")
	var out strings.Builder
	if err := run(&out, file, 60, 0.2); err != nil {
		t.Fatal(err)
	}
	want := `There are 1891 ways in which 60 people can split over A, B and C. A private answer at ε = 0.2 names the commonest
with 38 % where one changed vote changes the ranking, and with 91 % farthest from there. On all 5490 edges between ways
that differ by one vote, no set of answers is more than e^ε times as likely at one end as at the other.
` + file + ` shows all.
`
	if out.String() != want {
		t.Errorf("it prints\n%s", &out)
	}
	picture, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	cells, broad, thin, texts := elements(t, picture)
	if cells != 1891 || broad == 0 || thin == 0 {
		t.Errorf("%d cells, %d broad lines, %d thin ones", cells, broad, thin)
	}
	for _, want := range []string{"A > B > C", "A > C > B", "B > A > C", "B > C > A", "C > A > B", "C > B > A"} {
		if texts[want] != 1 {
			t.Errorf("the picture has %q %d times", want, texts[want])
		}
	}
	out.Reset()
	if err := run(&out, filepath.Join(t.TempDir(), "no", "x.svg"), 3, 0.2); err == nil || out.String() != "" {
		t.Errorf("without a picture it prints %q, %v", &out, err)
	}
	if err := run(io.Discard, file, 60, 0.2); err != nil {
		t.Fatal(err)
	}
	if again, err := os.ReadFile(file); err != nil || !bytes.Equal(again, picture) {
		t.Errorf("the picture is not the same each time: %v", err)
	}
}

// elements counts the cells and lines of a picture and its texts.
func elements(t *testing.T, picture []byte) (cells, broad, thin int, texts map[string]int) {
	t.Helper()
	texts = map[string]int{}
	decoder := xml.NewDecoder(bytes.NewReader(picture))
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return cells, broad, thin, texts
		}
		if err != nil {
			t.Fatal(err)
		}
		switch token := token.(type) {
		case xml.StartElement:
			for _, attribute := range token.Attr {
				switch {
				case attribute.Name.Local == "href" && attribute.Value == "#cell":
					cells++
				case attribute.Name.Local == "stroke-width" && attribute.Value == "3":
					broad++
				case attribute.Name.Local == "stroke-width" && attribute.Value == "1":
					thin++
				}
			}
		case xml.CharData:
			texts[string(token)]++
		}
	}
}

// The distances in the graph are those that the query "plurality" computes from the votes.
func TestNewTriangle_Distances_AreThoseOfPlurality(t *testing.T) {
	plurality, err := mechanism.ParseQuery("plurality", []string{"first", "second", "third"})
	if err != nil {
		t.Fatal(err)
	}
	for _, people := range []int{1, 2, 3, 17, 60} {
		tri, err := newTriangle(people)
		if err != nil {
			t.Fatal(err)
		}
		distances, err := tri.graph.Distances(tri.preferences)
		if err != nil {
			t.Fatal(err)
		}
		for v, way := range tri.ways {
			place, err := plurality.Place(way)
			if err != nil {
				t.Fatal(err)
			}
			if got := distances[v]; int64(got) != place.Distance {
				t.Errorf("%v: distance %d in the graph, %d from the votes", way, got, place.Distance)
			}
		}
	}
}
