package hostile

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"
	"runtime"

	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/privacy"
)

// childEnv tells a process that it is to open files, and not to run the tests.
const childEnv = "SLUICE_HOSTILE_CHILD"

// task is what a child is asked to look at.
type task struct {
	Path       string
	Checkpoint []byte // to verify against; may be nil
	Use        bool   // go on to use the file, whatever is wrong with it
}

// finding is what a child says of it.
type finding struct {
	Refused  string // by Open
	Problems uint64 // that Verify reports
	Failed   string // what went wrong and should not
	Content  string // a hash of all that can be read, if nothing is wrong
	Used     int    // calls that were carried out all the same
	Memory   uint64 // bytes that the process has ever had from the system
}

// serve does what the lines say that come in, one by one.
func serve() error {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	out := json.NewEncoder(os.Stdout)
	for lines.Scan() {
		var one task
		if err := json.Unmarshal(lines.Bytes(), &one); err != nil {
			return err
		}
		found := look(context.Background(), one)
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		found.Memory = m.Sys
		if err := out.Encode(found); err != nil {
			return err
		}
	}
	return lines.Err()
}

// typed tells whether an error says what it should about a damaged file.
func typed(err error) bool {
	return errors.Is(err, api.ErrCorrupt) || errors.Is(err, api.ErrJournal) || errors.Is(err, api.ErrVersion)
}

// look opens a file for reading, verifies it, reads all of it if it is clean, and uses it.
func look(ctx context.Context, one task) (found finding) {
	fail := func(what string, err error) { found.Failed += fmt.Sprintf("%s: %v\n", what, err) }
	l, err := open(one.Path, true)
	switch {
	case typed(err):
		found.Refused = err.Error()
	case err != nil:
		fail("Open", err)
	default:
		found.Problems, err = verify(ctx, l, one.Checkpoint)
		if err != nil {
			fail("Verify", err)
		}
		content, err := readAll(ctx, l)
		found.Content = content
		if err != nil && found.Problems == 0 {
			fail("reading a file that is clean", err)
		}
		if err := l.Close(); err != nil && !typed(err) {
			fail("Close", err)
		}
	}
	if one.Use && found.Failed == "" {
		if found.Used, err = use(ctx, one.Path); err != nil {
			fail("using the file", err)
		} else if found.Content != "" && found.Problems == 0 && found.Used > 0 {
			if err := verifyFile(ctx, one.Path); err != nil {
				fail("a clean file that was used", err)
			}
		}
	}
	return found
}

func verify(ctx context.Context, l *ledger.Ledger, checkpoint []byte) (problems uint64, err error) {
	r := api.VerifyRequest{}
	if checkpoint != nil {
		r.Checkpoints = [][]byte{checkpoint}
		if _, r.Verifiers, _, err = keys(); err != nil {
			return 0, err
		}
	}
	done, err := l.Verify(ctx, r)
	return done.Problems, err
}

func verifyFile(ctx context.Context, path string) error {
	l, err := open(path, true)
	if err != nil {
		return err
	}
	defer l.Close()
	problems, err := verify(ctx, l, nil)
	if problems > 0 {
		err = errors.Join(err, fmt.Errorf("%d problems", problems))
	}
	return err
}

// reader writes down what calls return.
type reader struct {
	out   *json.Encoder
	fault error
}

func (r *reader) note(what any, err error) {
	if err == nil {
		err = r.out.Encode(what)
	}
	if errors.Is(err, api.ErrNoResponses) {
		err = r.out.Encode(err.Error())
	}
	r.fault = errors.Join(r.fault, err)
}

func noteAll[T any](r *reader, all iter.Seq2[T, error]) (items []T) {
	for item, err := range all {
		r.note(item, err)
		if err != nil {
			break
		}
		items = append(items, item)
	}
	return items
}

// readAll makes every call that reads, and returns a hash of what they return. It goes on when one fails.
func readAll(ctx context.Context, l *ledger.Ledger) (content string, err error) {
	sum := sha256.New()
	r := &reader{out: json.NewEncoder(sum)}
	r.note(l.About(), nil)
	stats, err := l.Stats(ctx)
	stats.Bytes = 0 // a file may be cut behind what it uses
	r.note(stats, err)
	r.note(l.Head(ctx, 0))
	r.note(l.Buyers(ctx))
	var defined []api.Question
	defined, err = l.Questions(ctx)
	r.note(defined, err)
	for _, q := range defined {
		levels, err := l.Levels(ctx, q.Name)
		r.note(levels, err)
		r.note(l.Estimate(ctx, api.EstimateRequest{Question: q.Name}))
		noteAll(r, l.Responses(ctx, q.Name, privacy.Epsilon{}))
		for _, level := range levels {
			r.note(l.Estimate(ctx, api.EstimateRequest{Question: q.Name, Epsilon: level.Epsilon}))
			noteAll(r, l.Responses(ctx, q.Name, level.Epsilon))
		}
	}
	for _, name := range people(0, members) {
		r.note(l.Object(ctx, name))
	}
	for _, sale := range noteAll(r, l.Sales(ctx, "")) {
		noteAll(r, l.Deliveries(ctx, sale.Number))
	}
	noteAll(r, l.Reservations(ctx, ""))
	for e, err := range l.Events(ctx, 1) {
		if err != nil {
			r.note(nil, err)
			break
		}
		r.note(e, nil)
	}
	return hex.EncodeToString(sum.Sum(nil)), r.fault
}

// use opens a file for writing and makes calls of several kinds. On a damaged file they may fail, for any reason that is
// said; what they must not do is end the process. It returns how many were carried out.
func use(ctx context.Context, path string) (done int, err error) {
	l, err := open(path, false)
	if err != nil {
		if typed(err) {
			err = nil
		}
		return 0, err
	}
	count := func(_ any, err error) {
		if err == nil {
			done++
		}
	}
	for i, name := range people(0, members) {
		if i%37 == 3 {
			count(l.Release(ctx, api.ReleaseRequest{Key: fmt.Sprint("use ", i), Question: vote, Object: name, Epsilon: tenths(15), Truth: truths}))
		}
	}
	all := api.Order{Buyer: "late", Question: home, Epsilon: tenths(12), All: true}
	count(l.Quote(ctx, all))
	count(l.Sell(ctx, api.SellRequest{Key: "use it all", Order: all, Partial: true, Truth: truths}))
	count(nil, l.Forget(ctx, "use and forget", people(81, 82)[0]))
	count(l.Enroll(ctx, api.EnrollRequest{Key: "use new", Question: vote, Objects: people(members, members+20), Cap: tenths(90)}))
	_ = l.Close() // says again what is wrong
	return done, nil
}
