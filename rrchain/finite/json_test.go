package finite

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/privacy"
)

// jsonOf returns the JSON of a value.
func jsonOf(v any) string { return string(must(json.Marshal(v))) }

func TestMatrixJSON_IsInLowestTerms(t *testing.T) {
	m := matrixOf("6/8 2/8 0", "1/4 3/4 0.0")
	const want = `[["3/4","1/4","0"],["1/4","3/4","0"]]`
	got := jsonOf(m)
	check.That(t, got == want, "written as %s, want %s", got, want)
	for _, text := range []string{
		want, `[["6/8","0.25",0],[0.25,0.750,"0/7"]]`, ` [ [ "3/4" , 0.25 , 0.000 ] , [ "1/4" , 0.75 , 0 ] ] `,
		`[["\u0033/4","0.25","0"],["25/100","75/100","0."]]`,
	} {
		var got Matrix
		if err := json.Unmarshal([]byte(text), &got); err != nil || !got.equal(m) || jsonOf(&got) != want {
			t.Errorf("%s is read as %v, %v", text, jsonOf(&got), err)
		}
		check.That(t, got.At(0, 0).Cmp(rat("3/4")) == 0 && got.Inputs() == 2 && got.Outputs() == 3,
			"%s is read as another matrix", text)
	}
	for i := range 20 {
		random := rand.New(rand.NewPCG(uint64(i), 9))
		m := randomMatrix(random, 2+random.IntN(5), 2+random.IntN(5))
		var back Matrix
		err := json.Unmarshal([]byte(jsonOf(m)), &back)
		check.That(t, err == nil && back.equal(m), "%v came back as %v, %v", jsonOf(m), jsonOf(&back), err)
	}
}

// An invalid number or text is refused, and the matrix is unchanged.
func TestMatrixJSON_InvalidProbability_IsRefused(t *testing.T) {
	before := matrixOf("3/4 1/4", "1/4 3/4")
	for _, text := range []string{
		`""`, `".25"`, `"/"`, `"1/"`, `"/2"`, `"."`, `"0/0"`, `"1/0"`, `"1/00"`, `"010/3"`, `"00"`, `"01"`, `"1/02"`, `"0x1"`, `"0b1"`, `"0o1"`, `"1_0"`,
		`"1e0"`, `"1E0"`, `"1e-3"`, `"1p3"`, `"0.5e1"`, `"1/1e9"`, `1e0`, `1E-1`, `1e999999999`, `"1e999999999"`, `"1e-999999999"`, `"1p-999999999"`,
		`-1`, `"-1"`, `"+1"`, `"-0"`, `-0`, `"1/-2"`, `"1/+2"`, `" 1"`, `"1 "`, `"1 /2"`, `"1/ 2"`, `"1,0"`, `"1/2/3"`, `"1.0.0"`, `"0.5/2"`, `"1/2.0"`, `"1/2."`,
		`"Inf"`, `"NaN"`, `"½"`, `"１"`, `"1\u0000"`, `null`, `true`, `[]`, `["1"]`, `{}`, `"\ud800"`,
	} {
		m := *before
		err := json.Unmarshal(fmt.Appendf(nil, `[[%s,1],[1,0]]`, text), &m)
		check.That(t, errors.Is(err, privacy.ErrInvalid) && len(err.Error()) <= 500, "%s: %v", text, err)
		check.That(t, m.equal(before), "%s: the matrix has changed", text)
	}
	// The error does not repeat a long text.
	err := json.Unmarshal([]byte(`[["`+strings.Repeat("7", 100_000)+`x",1],[1,0]]`), new(Matrix))
	check.That(t, errors.Is(err, privacy.ErrInvalid) && len(err.Error()) <= 500,
		"the error has %d bytes: %.100v", len(err.Error()), err)
}

func TestMatrixJSON_InvalidMatrix_IsRefused(t *testing.T) {
	many := strings.Repeat(`"0",`, maxCells/2)
	for name, text := range map[string]string{
		"null":               `null`, // which a decoder passes to UnmarshalJSON
		"a number":           `1`,
		"a text":             `"[[1,0],[0,1]]"`,
		"an object":          `{"0":[1,0],"1":[0,1]}`,
		"nothing":            `[]`,
		"a row":              `[1,0]`,
		"a single row":       `[[1,0]]`,
		"no row":             `[null,null]`,
		"rows of nothing":    `[[],[]]`,
		"rows of one":        `[[1],[1]]`,
		"a row that differs": `[[1,0],[1]]`,
		"a missing row":      `[[1,0],null]`,
		"too little":         `[["1/2","1/3"],[1,0]]`,
		"too much":           `[["1/2","2/3"],[1,0]]`,
		"too many":           `[[` + many + `1,0],[` + many + `1,0]]`,
	} {
		m := *matrixOf("3/4 1/4", "1/4 3/4")
		if err := m.UnmarshalJSON([]byte(text)); !errors.Is(err, privacy.ErrInvalid) || len(err.Error()) > 500 {
			t.Errorf("%s: %v", name, err)
		} else if m.outputs != 2 {
			t.Errorf("%s: the matrix is another", name)
		}
	}
	for _, m := range []*Matrix{{}, nil} {
		check.Is(t, check.Err(m.MarshalJSON()), privacy.ErrInvalid, "a matrix without probabilities")
	}
}

// oneToTwo returns a family of two levels. The higher level has two equal columns.
func oneToTwo(t testing.TB) *Family {
	t.Helper()
	return family(t, matrixOf("2/3 1/3", "1/3 2/3"), matrixOf("3/8 3/8 1/4", "1/8 1/8 3/4"))
}

func TestFamilyJSON_IncludesTheChannels(t *testing.T) {
	for name, f := range map[string]*Family{
		"two levels":  oneToTwo(t),
		"one level":   family(t, matrixOf("2/3 1/3", "1/3 2/3")),
		"a design":    must(must(SubsetSelection(4, 2)).Family(eps("0.5"), eps("1"), eps("2"))),
		"two designs": family(t, subsets(4, 2, rat("3/2")), subsets(4, 1, rat("3"))),
	} {
		text := jsonOf(f)
		check.That(t, strings.HasPrefix(text, `{"levels":[[["`) && strings.Contains(text, `"channels":[`),
			"%s is written as %.100s", name, text)
		back := &Family{}
		err := json.Unmarshal([]byte(text), back)
		check.Need(t, err == nil && jsonOf(back) == text, "%s came back as %s, %v", name, jsonOf(back), err)
		for i, epsilon := range f.Epsilons() {
			level, found := back.Level(epsilon)
			check.That(t, found && level.equal(f.levels[i]) && len(back.Epsilons()) == len(f.levels),
				"%s: the level at ε=%s is another", name, epsilon)
		}
		for i, channel := range f.channels {
			check.That(t, back.channels[i].equal(channel), "%s: channel %d is another", name, i)
		}
		// Without channels the text is refused, because finding them may take long.
		levels, _, _ := strings.Cut(text, `,"channels"`)
		for _, short := range []string{levels + "}", levels + `,"channels":null}`} {
			err := json.Unmarshal([]byte(short), &Family{})
			check.That(t, errors.Is(err, privacy.ErrInvalid), "%s, without channels, is read: %v", name, err)
		}
	}
}

// Channels other than those of NewFamily are kept, because recorded responses were drawn by them.
func TestFamilyJSON_OtherChannels_AreKept(t *testing.T) {
	f := oneToTwo(t)
	text := jsonOf(f)
	a, b := jsonOf(f.channels[0]), `[["5/6","1/6"],["5/6","1/6"],["1/6","5/6"]]`
	if a == b {
		b = `[["1","0"],["2/3","1/3"],["1/6","5/6"]]`
	}
	other := &Family{}
	check.Must(t, json.Unmarshal([]byte(strings.Replace(text, a, b, 1)), other))
	got := jsonOf(other)
	check.That(t, got != text && strings.Contains(got, b), "the channels are %s", got)
	check.That(t, f.levels[1].then(other.channels[0]).equal(f.levels[0]), "the channel does not map to the lower level")
}

func TestFamilyJSON_InvalidFamily_IsRefused(t *testing.T) {
	low, high := `[["2/3","1/3"],["1/3","2/3"]]`, `[["3/4","1/4"],["1/4","3/4"]]`
	channel := jsonOf(family(t, matrixOf("2/3 1/3", "1/3 2/3"), matrixOf("3/4 1/4", "1/4 3/4")).channels[0])
	of := func(levels, channels string) string {
		return `{"levels":[` + levels + `],"channels":[` + channels + `]}`
	}
	check.Must(t, new(Family).UnmarshalJSON([]byte(of(low+","+high, channel))))
	for name, text := range map[string]string{
		"null":                           `null`,
		"a list":                         `[` + low + `]`,
		"nothing":                        `{}`,
		"no levels":                      `{"levels":[]}`,
		"no levels, no channels":         `{"levels":[],"channels":[]}`,
		"null levels":                    `{"levels":null,"channels":null}`,
		"a null level":                   `{"levels":[null]}`,
		"a null level, no channels":      `{"levels":[null],"channels":[]}`,
		"a null level above":             of(low+",null", channel),
		"a null channel":                 of(low+","+high, `null`),
		"an empty channel":               of(low+","+high, `[]`),
		"no channel":                     of(low+","+high, ``),
		"a channel too many":             of(low+","+high, channel+","+channel),
		"a channel of one level":         of(low, channel),
		"channels that are no list":      `{"levels":[` + low + `,` + high + `],"channels":{}}`,
		"another channel":                of(low+","+high, `[["1","0"],["0","1"]]`),
		"a channel upside down":          of(low+","+high, `[["1/6","5/6"],["5/6","1/6"]]`),
		"a wider channel":                of(low+","+high, `[["5/6","1/6","0"],["1/6","5/6","0"]]`),
		"a longer channel":               of(low+","+high, `[["5/6","1/6"],["1/6","5/6"],["1","0"]]`),
		"a channel that adds up to more": of(low+","+high, `[["5/6","1/3"],["1/6","5/6"]]`),
		"a falling ε":                    of(high+","+low, channel),
		"an ε twice":                     of(low+","+low, `[["1","0"],["0","1"]]`),
		"ε = 0":                          of(`[["1/2","1/2"],["1/2","1/2"]]`, ``),
		"no ε":                           of(`[["1","0"],["1/2","1/2"]]`, ``),
		"other inputs":                   of(low+`,[["3/4","1/4"],["1/4","3/4"],["1/2","1/2"]]`, channel),
		"no degradation":                 `{"levels":[[["6/10","4/10","0"],["4/10","6/10","0"]],[["2/3","1/3"],["2/3","1/3"]]]}`,
		"a level that is no matrix":      of(low+`,[["3/4"]]`, channel),
	} {
		f := &Family{}
		err := f.UnmarshalJSON([]byte(text))
		check.That(t, errors.Is(err, privacy.ErrInvalid) && len(err.Error()) <= 500, "%s: %v", name, err)
		check.That(t, f.levels == nil, "%s: something is left of it", name)
	}
	check.Is(t, check.Err((&Family{}).MarshalJSON()), privacy.ErrInvalid, "a family of no levels")
}

// primes returns the first n prime numbers above a number.
func primes(above int64, n int) (all []int64) {
	for p := above + 1; len(all) < n; p++ {
		if big.NewInt(p).ProbablyPrime(0) {
			all = append(all, p)
		}
	}
	return all
}

// bulky is a matrix in JSON whose probabilities have as many denominators as can be: each pair of
// cells of a row shares a prime of its own. That is what takes most memory for its length.
func bulky(inputs, outputs int, above int64) string {
	var text strings.Builder
	odd := primes(above, inputs*outputs/2)
	for x := range inputs {
		text.WriteString(map[bool]string{true: "[[", false: ",["}[x == 0])
		for pair := range outputs / 2 {
			p := odd[x*outputs/2+pair]
			if pair > 0 {
				text.WriteString(",")
			}
			fmt.Fprintf(&text, `"1/%d","%d/%d"`, p*int64(outputs/2), p-1, p*int64(outputs/2))
		}
		text.WriteString("]")
	}
	return text.String() + "]"
}

// Reading a family with channels allocates at most 1,000 times the memory of its text.
func TestFamilyJSON_MemoryIsBoundedByText(t *testing.T) {
	wide := strings.Repeat("0,", maxCells/2-1)
	texts := map[string]string{
		"cells of two bytes":       `[[` + wide + `1],[` + wide + `1]]`,
		"many cells of two bytes":  `[[` + strings.Repeat("0,", 400_000) + `1],[1]]`,
		"many rows":                `[` + strings.Repeat("[],", 300_000) + `[]]`,
		"rows that are null":       `[` + strings.Repeat("null,", 200_000) + `null]`,
		"many denominators":        bulky(64, 64, 2),
		"many in two rows":         bulky(2, 2048, 2),
		"some denominators":        bulky(16, 32, 2),
		"a long number":            `[["1/` + strings.Repeat("7", 200_000) + `",1],[1,0]]`,
		"a number of many places":  `[[0.` + strings.Repeat("3", 50_000) + `,0.` + strings.Repeat("6", 49_999) + `7],[1,0]]`,
		"many numbers of a length": `[["1/` + strings.Repeat("7", 300) + `"` + strings.Repeat(`,"1/`+strings.Repeat("3", 300)+`"`, 2000) + `],[1,0]]`,
	}
	for name, text := range texts {
		for way, whole := range map[string]string{"alone": text, "in a family": `{"levels":[` + text + `],"channels":[]}`} {
			var err error
			used := check.Allocated(func() {
				if way == "alone" {
					err = new(Matrix).UnmarshalJSON([]byte(whole))
				} else {
					err = new(Family).UnmarshalJSON([]byte(whole))
				}
			})
			check.That(t, err == nil || errors.Is(err, privacy.ErrInvalid), "%s, %s: %v", name, way, err)
			check.That(t, used <= 1000*uint64(len(whole)),
				"%s, %s: %d bytes are allocated for %d (%v)", name, way, used, len(whole), err)
			t.Logf("%s, %s: %d bytes, %d times as much (%.60v)", name, way, len(whole), used/uint64(len(whole)), err)
		}
	}
}

// A common denominator of too many bits is refused before the numbers are scaled to it.
func TestMatrixJSON_TooManyDenominators_IsRefused(t *testing.T) {
	text := bulky(64, 64, 1<<20)
	err := new(Matrix).UnmarshalJSON([]byte(text))
	check.That(t, errors.Is(err, privacy.ErrInvalid) && strings.Contains(err.Error(), fmt.Sprint(maxBits, " bits")),
		"got the error %.300v", err)
}

// fuzzTexts returns the JSON of families and matrices, some valid and some nearly valid.
func fuzzTexts(f *testing.F) (texts []string) {
	low, high := `[["2/3","1/3"],["1/3","2/3"]]`, `[["3/4","1/4"],["1/4","3/4"]]`
	return append(texts,
		jsonOf(oneToTwo(f)), jsonOf(family(f, matrixOf("2/3 1/3", "1/3 2/3"))), jsonOf(family(f, randomized(3, rat("2")), randomized(3, rat("3")))),
		low, high, `{"levels":[`+low+`,`+high+`]}`, `{"levels":[`+low+`],"channels":[]}`, `{"levels":[`+low+`,`+high+`],"channels":[[["5/6","1/6"],["1/6","5/6"]]]}`,
		`{"levels":[`+low+`,`+high+`],"channels":[[["1","0"],["0","1"]]]}`, `{"levels":[null],"channels":null}`, `{"levels":[`+low+`,`+high+`],"channels":[null]}`,
		`[[0.75,0.25],["25/100",".75"]]`, `[["010/3","1/0"],["1e9","-1"]]`, `[]`, `[[],[]]`, `null`, `{}`)
}

// longestFuzzed limits the length of the texts, because the work for longer ones may take too long.
const longestFuzzed = 400

// FuzzMatrixJSON checks that an accepted text is a matrix with one canonical form, and that a
// refused text changes nothing.
func FuzzMatrixJSON(f *testing.F) {
	for _, text := range fuzzTexts(f) {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if len(text) > longestFuzzed {
			return
		}
		m := &Matrix{}
		if err := m.UnmarshalJSON(text); err != nil {
			check.That(t, errors.Is(err, privacy.ErrInvalid) && m.inputs == 0, "%q: %v", text, err)
			return
		}
		for x := range m.inputs {
			sum := integer(0)
			for o := range m.outputs {
				check.That(t, m.At(x, o).Sign() >= 0, "%q has the probability %v", text, m.At(x, o))
				sum.Add(sum, m.At(x, o))
			}
			check.That(t, sum.Cmp(integer(1)) == 0, "%q: input %d adds up to %v", text, x, sum)
		}
		back, whole := &Matrix{}, jsonOf(m)
		if err := back.UnmarshalJSON([]byte(whole)); err != nil || !back.equal(m) || jsonOf(back) != whole {
			t.Errorf("%q is written as %s and read as %s, %v", text, whole, jsonOf(back), err)
		}
	})
}

// FuzzFamilyJSON checks that an accepted text is a family with one canonical form, whose channels
// map each level to the one below.
func FuzzFamilyJSON(f *testing.F) {
	for _, text := range fuzzTexts(f) {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if len(text) > longestFuzzed {
			return
		}
		read := &Family{}
		if err := read.UnmarshalJSON(text); err != nil {
			if !errors.Is(err, privacy.ErrInvalid) && !errors.Is(err, privacy.ErrNoCertificate) || read.levels != nil {
				t.Errorf("%q: %v", text, err)
			}
			return
		}
		for i, epsilon := range read.epsilons {
			if exact, err := read.levels[i].Epsilon(); err != nil || exact != epsilon || i > 0 && !read.epsilons[i-1].Less(epsilon) {
				t.Errorf("%q: level %d has ε=%s, %v", text, i, exact, err)
			}
			check.That(t, i <= 0 || read.levels[i].then(read.channels[i-1]).equal(read.levels[i-1]),
				"%q: the channel from level %d does not map to the level below", text, i)
		}
		back, whole := &Family{}, jsonOf(read)
		if err := back.UnmarshalJSON([]byte(whole)); err != nil || jsonOf(back) != whole {
			t.Errorf("%q is written as %s and read as %s, %v", text, whole, jsonOf(back), err)
		}
	})
}

// Unmarshaling into a family or matrix in use would change an immutable value.
func TestUnmarshalJSON_IntoUsedValue_IsRefused(t *testing.T) {
	f, other := oneToTwo(t), family(t, matrixOf("2/3 1/3", "1/3 2/3"))
	before := jsonOf(f)
	err := json.Unmarshal([]byte(jsonOf(other)), f)
	check.That(t, errors.Is(err, privacy.ErrInvalid) && jsonOf(f) == before, "a family became %s, %v", jsonOf(f), err)
	m := f.levels[0]
	before = jsonOf(m)
	err = json.Unmarshal([]byte(`[["4/5","1/5"],["1/5","4/5"]]`), m)
	check.That(t, errors.Is(err, privacy.ErrInvalid) && jsonOf(m) == before, "a matrix became %s, %v", jsonOf(m), err)
}

// The greatest common divisor of numbers of many digits would take long.
func TestMatrixJSON_LongNumber_IsRefused(t *testing.T) {
	long := strings.Repeat("7", maxDigits)
	err := json.Unmarshal([]byte(`[["1/`+long+`",1],[1,0]]`), &Matrix{})
	check.That(t, errors.Is(err, privacy.ErrInvalid) && len(err.Error()) <= 500, "got the error %.600v", err)
}
