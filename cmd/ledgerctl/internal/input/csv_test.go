package input

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/output"
	"github.com/sluicedp/sluice/internal/check"
)

// pair is an entry without its line.
type pair struct{ object, value string }

// read collects the rows of a CSV text.
func read(in io.Reader, c Columns) (all []pair, err error) {
	for e, err := range readCSV("f.csv", in, c) {
		if err != nil {
			return all, err
		}
		all = append(all, pair{e.Object, e.value})
	}
	return all, nil
}

func TestReadCSV_ValidFiles_YieldTheirRows(t *testing.T) {
	both := Columns{IDColumn: IDColumn{ID: "id"}, Value: "v"}
	value := Columns{Value: "v"}
	for _, test := range []struct {
		name, text string
		columns    Columns
		want       []pair
	}{
		{"named columns", "x,v,id\n1,Y,a\n2,N,b\n", both, []pair{{"a", "Y"}, {"b", "N"}}},
		{"row numbers", "x,v\n1,Y\n2,\n3,N\n", value, []pair{{"1", "Y"}, {"2", ""}, {"3", "N"}}},
		{"row numbers with a prefix", "x,v\n1,Y\n2,N\n", Columns{IDColumn: IDColumn{Prefix: "jan-"}, Value: "v"}, []pair{{"jan-1", "Y"}, {"jan-2", "N"}}},
		{"no value wanted", "x,v\n1,Y\n", Columns{}, []pair{{"1", ""}}},
		{"ids only", "x,id\n1,a\n", Columns{IDColumn: IDColumn{ID: "id"}}, []pair{{"a", ""}}},
		{"header only", "v\n", value, nil},
		{"CRLF and no last line end", "id,v\r\na,Y\r\nb,N", both, []pair{{"a", "Y"}, {"b", "N"}}},
		{"quotes", "id,v\n\"a,\"\"b\",\"Y\"\n", both, []pair{{`a,"b`, "Y"}}},
		{"guarded cells", "id,v\n'=x,'@y\n''=x,'Y\n'-5,-5\n", both, []pair{{"=x", "@y"}, {"'=x", "'Y"}, {"'-5", "-5"}}},
		{"raw cells", "id,v\n'=x,'@y\n", Columns{IDColumn: IDColumn{ID: "id", Raw: true}, Value: "v"}, []pair{{"'=x", "'@y"}}},
		{"UTF-8", "id,v\nÑuñoa,sí\n", both, []pair{{"Ñuñoa", "sí"}}},
		{"blank lines of one column count", "v\nY\n\n\nN\n", value, []pair{{"1", "Y"}, {"2", ""}, {"3", ""}, {"4", "N"}}},
		{"a blank line at once", "v\n\nN\n", value, []pair{{"1", ""}, {"2", "N"}}},
		{"blank line after a record of two", "v\n\"Y\nZ\"\n\nN\n", value, []pair{{"1", "Y\nZ"}, {"2", ""}, {"3", "N"}}},
		{"record of two CRLF lines", "v\r\n\"Y\r\nZ\"\r\n\r\nN\r\n", value, []pair{{"1", "Y\nZ"}, {"2", ""}, {"3", "N"}}},
		{"blank lines of more columns do not", "id,v\n\na,Y\n\nb,N\n\n", both, []pair{{"a", "Y"}, {"b", "N"}}},
		{"one column is the value", "v\nY\n", Columns{guess: true}, []pair{{"1", "Y"}}},
		{"the other column is the value", "v,id\nY,a\n", Columns{IDColumn: IDColumn{ID: "id"}, guess: true}, []pair{{"a", "Y"}}},
		{"the other way round", "id,v\na,Y\n", Columns{IDColumn: IDColumn{ID: "id"}, guess: true}, []pair{{"a", "Y"}}},
		{"a column like the question", "x,q,id\n1,Y,a\n", Columns{IDColumn: IDColumn{ID: "id"}, guess: true, question: "q"}, []pair{{"a", "Y"}}},
		{"without ids", "x,q\n1,Y\n", Columns{guess: true, question: "q", strict: true}, []pair{{"1", "Y"}}},
		{"no column like the question", "v,id\nY,a\n", Columns{IDColumn: IDColumn{ID: "id"}, guess: true, question: "q"}, []pair{{"a", "Y"}}},
		{"the ids in a column like the question", "q,v\na,Y\n", Columns{IDColumn: IDColumn{ID: "q"}, guess: true, question: "q"}, []pair{{"a", "Y"}}},
		{"a named column before one like the question", "q,v\nN,Y\n", Columns{Value: "v", guess: true, question: "q"}, []pair{{"1", "Y"}}},
		{"empty values are skipped", "id,v\na,Y\nb,\nc,N\n", Columns{IDColumn: IDColumn{ID: "id"}, Value: "v", Skipped: new(int)}, []pair{{"a", "Y"}, {"c", "N"}}},
		{"no values, none skipped", "id\na\nb\n", Columns{IDColumn: IDColumn{ID: "id"}, Value: "v", Skipped: new(int), Optional: true}, []pair{{"a", ""}, {"b", ""}}},
		{"no column of values is named", "id\na\n", Columns{IDColumn: IDColumn{ID: "id"}, Skipped: new(int)}, []pair{{"a", ""}}},
	} {
		got, err := read(strings.NewReader(test.text), test.columns)
		check.That(t, err == nil && slices.Equal(got, test.want), "%s: %q, %v; want %q", test.name, got, err, test.want)
		got, err = read(iotest.OneByteReader(strings.NewReader(test.text)), test.columns)
		check.That(t, err == nil && slices.Equal(got, test.want), "%s, byte by byte: %q, %v", test.name, got, err)
	}
}

// The error of an invalid file has the line or column, but no cell.
func TestReadCSV_InvalidFiles_ErrorHasNoCell(t *testing.T) {
	both := Columns{IDColumn: IDColumn{ID: "id"}, Value: "v"}
	for _, test := range []struct {
		name, text string
		columns    Columns
		want       string
	}{
		{"empty file", "", both, "f.csv: the file is empty"},
		{"no header", "1,SECRET\n2,SECRET\n", both, `the header has no column "id"`},
		{"no header, and names", "ann,SECRET\nbob,SECRET\n", both, `the header has no column "id"`},
		{"no header, and one row", "1,SECRET\n", both, `the header has no column "id"`},
		{"another id column", "person,v\na,SECRET\n", both, `no column "id"; it has "person", "v"`},
		{"another value column", "id,answer\na,SECRET\n", both, `no column "v"; it has "id", "answer"`},
		{"many columns", strings.Repeat("c", 100) + strings.Repeat(",d", 30) + "\n", both, `it has "cccccccccccccccccccccccccccccccccccccccc", "d", "d", "d", "d", "d", "d", "d", "d", "d", "d", "d", "d", "d", "d", "d", "d", "d", "d", "d", 11 more`},
		{"a blank at the end", "id,v\na,Y\nSECRET ,Y\n", both, `f.csv: line 3, column "id": the id has a space at its end (byte 6)`},
		{"a wide blank", "id,v\nSECRET\u3000,Y\n", both, `line 2, column "id": the id has U+3000, which looks like a space (byte 6)`},
		{"a long id", "id,v\n" + strings.Repeat("SECRET", 50) + ",Y\n", both, `line 2, column "id": the id has 300 bytes`},
		{"a prefix that is no name", "id,v\na,Y\n", Columns{IDColumn: IDColumn{Prefix: " p"}}, "a space at its start"},
		{"other case", "ID,v\na,SECRET\n", both, `no column "id"`},
		{"column twice", "id,v,v\na,SECRET,SECRET\n", both, `column "v" twice`},
		{"same column", "id,v\na,SECRET\n", Columns{IDColumn: IDColumn{ID: "v"}, Value: "v"}, "cannot hold both"},
		{"id twice", "id,v\na,SECRET\nb,Y\na,SECRET\n", both, "f.csv: line 4 has the same id as line 2"},
		{"id twice, one without a value", "id,v\na,\na,SECRET\n", both, "line 3 has the same id as line 2"},
		{"values named as ids", "id,v\na,SECRET\nb,SECRET\n", Columns{IDColumn: IDColumn{ID: "v"}}, "line 3 has the same id as line 2"},
		{"empty id", "id,v\n,SECRET\n", both, "line 2: the id is empty"},
		{"blank line for an id", "id\na\n\nb\n", Columns{IDColumn: IDColumn{ID: "id"}}, "line 3: the id is empty"},
		{"a tab in an id", "id,v\na,Y\n\"b\tSECRET\",Y\n", both, `f.csv: line 3, column "id": the id has U+0009, a control character (byte 1)`},
		{"values named as ids, with a line end", "id,v\na,\"SECRET\nSECRET\"\n", Columns{IDColumn: IDColumn{ID: "v"}}, `line 2, column "v": the id has U+000A, a control character (byte 6)`},
		{"id not UTF-8", "id,v\n\xff,SECRET\n", both, "line 2: the id is not UTF-8"},
		{"too few fields", "id,v\na,Y\nSECRET\n", both, "line 3 has 1 fields, and the header has 2"},
		{"too many fields", "id,v\na,SECRET,SECRET\n", both, "line 2 has 3 fields, and the header has 2"},
		{"stray quote", "id,v\na,SEC\"RET\n", both, "line 2: bare"},
		{"open quote", "id,v\na,\"SECRET\nb,SECRET\n", both, "line 2: extraneous or missing"},
		{"nothing to guess", "a,b\nSECRET,SECRET\n", Columns{guess: true}, "has 2 columns: --value-column"},
		{"too much to guess", "id,b,c\na,SECRET,SECRET\n", Columns{IDColumn: IDColumn{ID: "id"}, guess: true}, "has 3 columns: --value-column"},
		{"only the column of another question", "id,v\na,SECRET\n", Columns{IDColumn: IDColumn{ID: "id"}, guess: true, question: "q", strict: true}, `no column "q"`},
		{"column like the question twice", "id,q,q\na,SECRET,SECRET\n", Columns{IDColumn: IDColumn{ID: "id"}, guess: true, question: "q"}, `column "q" twice`},
		{"huge line", "id,v\na,Y\nb,SECRET" + strings.Repeat("x", 2*maxRecord) + "\n", both, "after line 2 is longer than"},
		{"huge header", strings.Repeat("SECRET,", maxRecord), both, "after line 0 is longer than"},
		{"open quote in a huge file", "id,v\na,\"SECRET\n" + strings.Repeat("b,SECRET\n", maxRecord/4), both, "after line 1 is longer than"},
	} {
		_, err := read(strings.NewReader(test.text), test.columns)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error %.200v, want %q", test.name, err, test.want)
			continue
		}
		f, code := output.Explain(err)
		if code != output.ExitMisuse || strings.Contains(fmt.Sprint(f), "SECRET") || len(err.Error()) > 300 {
			t.Errorf("%s: code %d, %.500v", test.name, code, f)
		}
	}
}

// Long lines within the limit, and any number of them, are read in bounded memory.
func TestReadCSV_LargeFile_IsRead(t *testing.T) {
	const lines = 200
	row := "Y," + strings.Repeat("x", maxRecord/2) + "\n"
	readers := []io.Reader{strings.NewReader("v,x\n")}
	for range lines {
		readers = append(readers, strings.NewReader(row))
	}
	n := 0
	for e, err := range readCSV("f.csv", io.MultiReader(readers...), Columns{Value: "v"}) {
		if err != nil || e.value != "Y" {
			t.Fatal(e.Object, err)
		}
		n++
	}
	check.That(t, n == lines, "%d rows, want %d", n, lines)
}

func TestReadCSV_FailingReader_FailsWithItsError(t *testing.T) {
	broken := errors.New("disk on fire")
	_, err := read(io.MultiReader(strings.NewReader("v\nY\n"), iotest.ErrReader(broken)), Columns{Value: "v"})
	if !errors.Is(err, broken) {
		t.Error(err)
	}
}

func TestReadCSV_LoopBreaks_IterationEnds(t *testing.T) {
	n := 0
	for range readCSV("f.csv", strings.NewReader("v\nY\n\nN\n"), Columns{Value: "v"}) {
		if n++; n == 2 {
			break
		}
	}
	check.That(t, n == 2, "%d rows", n)
}

// FuzzReadCSV compares readCSV, on what it accepts, with all records read at once.
func FuzzReadCSV(f *testing.F) {
	for _, seed := range []string{
		"", "v\n", "v\nY\n", "v\nY\n\nN\n", "id,v\na,Y\nb,N\n", "\ufeffid,v\r\na,Y\r\n", "id,v\na,Y\na,N\n", "id,v\n\"a\nb\",\"\"\n",
		"id,v\na\n", "\"", "v\n\"\n\n", "\n\nv\n\n", "id,v,v\n", "\r", "v\r\r\n\r\n\"\r\n\"\n", "id\n\n", "v\n\"\"\n", "\xff\xfe", "id,v\n\x00,\x1b\n",
	} {
		f.Add([]byte(seed), true, true)
		f.Add([]byte(seed), true, false)
		f.Add([]byte(seed), false, true)
		f.Add([]byte(seed), false, false)
	}
	f.Fuzz(func(t *testing.T, text []byte, byID, byValue bool) {
		c := Columns{}
		if byID {
			c.ID = "id"
		}
		if byValue {
			c.Value = "v"
		}
		c.Raw = true // matches does not remove apostrophes; FuzzGuarded tests that
		got, err := read(bytes.NewReader(text), c)
		if err != nil {
			if _, code := output.Explain(err); code != output.ExitMisuse {
				t.Fatalf("exit code %d: %v", code, err)
			}
			return
		}
		records, err := csv.NewReader(bytes.NewReader(text)).ReadAll()
		check.Need(t, err == nil, "accepted, but: %v", err)
		compare(t, got, records, c)
	})
}

// compare checks rows against records, of which the first is the header. ReadRows of blank lines,
// which have no record, are left out of the comparison.
func compare(t *testing.T, got []pair, records [][]string, c Columns) {
	header, records := records[0], records[1:]
	if len(header) > 1 && len(got) != len(records) || len(got) < len(records) {
		t.Fatalf("%d rows of %d records", len(got), len(records))
	}
	seen := map[string]bool{}
	i := 0
	for _, e := range got {
		check.Need(t, !(seen[e.object]) && e.object != "", "object %q twice or without a name", e.object)
		seen[e.object] = true
		if i < len(records) && matches(e, header, records[i], c) {
			i++
		} else if e.value != "" || len(header) > 1 {
			t.Fatalf("row %q is not record %d, %q", e, i, records[i:])
		}
	}
	if i != len(records) {
		t.Fatalf("only %d of %d records were found", i, len(records))
	}
}

func matches(e pair, header, record []string, c Columns) bool {
	if place := slices.Index(header, c.Value); c.Value != "" && e.value != record[place] {
		return false
	}
	place := slices.Index(header, c.ID)
	return c.ID == "" || e.object == record[place]
}

// The memory for reading a file is proportional to its size, also for an endless field or header.
func TestReadCSV_LargeInputs_MemoryIsProportional(t *testing.T) {
	const size, fixed, times = 4 << 20, 2 << 20, 60
	for name, text := range map[string]string{
		"a quote without end":  "id,v\n\"" + strings.Repeat("x", size),
		"a field without end":  "id,v\n" + strings.Repeat("x", size),
		"a row of many fields": "id,v\n" + strings.Repeat(",", size),
		"a header without end": strings.Repeat("id,", size/3),
		"many short rows":      "id,v\n" + strings.Repeat("x\n", size/2),
		"blank lines":          "v\n" + strings.Repeat("\n", size),
		"zeros":                strings.Repeat("\x00", size),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range readCSV("file", strings.NewReader(text), Columns{Value: "v"}) {
		}
		runtime.ReadMemStats(&after)
		if took := after.TotalAlloc - before.TotalAlloc; took > fixed+times*uint64(len(text)) {
			t.Errorf("%s: %d bytes take %d", name, len(text), took)
		}
	}
}
