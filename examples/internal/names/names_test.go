package names_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluicedp/sluice/examples/internal/names"
)

// The numbers are those of testdata/README.md.
func TestNames(t *testing.T) {
	all, err := names.Read("../../../testdata/us_baby_names_2016.csv")
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != 30_294 || names.Births(all) != 3_637_321 {
		t.Errorf("%d names of %d births", len(all), names.Births(all))
	}
	want := []names.Name{{"Emma", 19_432}, {"Olivia", 19_261}, {"Noah", 19_146}, {"Liam", 18_157}, {"Ava", 16_247}}
	for i, name := range want {
		if all[i] != name {
			t.Errorf("number %d is %v, not %v", i+1, all[i], name)
		}
	}
}

func TestNamesRefuses(t *testing.T) {
	for content, says := range map[string]string{
		"":                               "no columns",
		"name,sex,count\n":               "no names",
		"name,count\nEmma,5\n":           "no columns",
		"name,sex,count\nEmma,F,many\n":  `no count "many"`,
		"name,sex,count\nEmma,F,0\n":     `no count "0"`,
		"name,sex,count\nEmma,F,1,2,3\n": "wrong number of fields",
	} {
		path := filepath.Join(t.TempDir(), "names.csv")
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := names.Read(path); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: error %v", content, err)
		}
	}
	if _, err := names.Read("nowhere.csv"); err == nil || !strings.Contains(err.Error(), "top of the repository") {
		t.Errorf("a file that is not there: %v", err)
	}
}
