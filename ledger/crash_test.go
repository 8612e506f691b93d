package ledger

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/sluicedp/sluice/privacy"
)

// Invariants 1, 2, 3, 5 and 9 under SIGKILL: a child process sells as fast as it can and prints each
// answer after it got it; the parent kills it at a random instant and looks for every printed answer.
// (The page cache survives a kill, so this cannot see a missing flush. It sees everything that is
// told too early, torn or done twice.)

const (
	crashPath = "SLUICE_TEST_CRASH_PATH" // tells a process that it is the child
	crashRun  = "SLUICE_TEST_CRASH_RUN"
	kills     = 12
	crashCap  = "2.5"
)

// seen is an answer that somebody got.
type seen struct {
	Key string
	Response
}

func TestEveryAnswerOutlivesSIGKILL(t *testing.T) {
	path := create(t)
	l := open(t, path, Options{})
	for _, question := range crashQuestions() {
		define(t, l, question)
		enroll(t, l, question.Name, crashCap, crowd(400)...)
	}
	closed(t, l)
	var all []seen
	for run := range kills {
		fresh := runAndKill(t, path, run)
		all = append(all, fresh...)
		l := open(t, path, Options{})
		wantSoldAgain(t, l, fresh)
		audit(t, l.store)
		closed(t, l)
	}
	wantRecorded(t, open(t, path, Options{}), all)
	t.Logf("%d answers in %d runs", len(all), kills)
}

func crashQuestions() []Question {
	return []Question{vote(), {Name: "smoker", Values: []string{"yes", "no"}}, home(30)}
}

// runAndKill starts a child, lets it sell for a moment, kills it and returns what it printed.
func runAndKill(t *testing.T, path string, run int) (printed []seen) {
	t.Helper()
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestCrashChild$")
	child.Env = append(os.Environ(), crashPath+"="+path, fmt.Sprintf("%s=%d", crashRun, run))
	child.Stderr = os.Stderr
	out, err := child.StdoutPipe()
	must(t, err)
	must(t, child.Start())
	lines := bufio.NewReader(out)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			break // the rest of a line that was cut off is no answer
		}
		var one seen
		if err := json.Unmarshal(line, &one); err != nil {
			t.Errorf("the child says %s", line)
			continue
		}
		if printed = append(printed, one); len(printed) == 1 {
			time.AfterFunc(time.Duration(rand.IntN(250_000))*time.Microsecond, func() { _ = child.Process.Kill() })
		}
	}
	if err := child.Wait(); err == nil || len(printed) == 0 {
		t.Errorf("the child ended by itself, after %d answers", len(printed))
	}
	return printed
}

// wantSoldAgain repeats each sale with its key. The truth is not at hand any more.
func wantSoldAgain(t *testing.T, l *Ledger, all []seen) {
	t.Helper()
	before := stats(t, l).Events
	for _, one := range all {
		again := release(t, l, ReleaseRequest{Key: one.Key, Question: one.Question, Object: one.Object, Epsilon: one.Epsilon, Truth: never(t)})
		if again != one.Response {
			t.Fatalf("a buyer got %v before the crash and %v after it", one.Response, again)
		}
	}
	if after := stats(t, l).Events; after != before {
		t.Errorf("repeating sales added %d events", after-before)
	}
}

// wantRecorded looks every answer of all runs up in what is recorded now.
func wantRecorded(t *testing.T, l *Ledger, all []seen) {
	t.Helper()
	type level struct {
		question string
		epsilon  privacy.Epsilon
	}
	recorded := map[level]map[string]Response{}
	for _, one := range all {
		at := level{one.Question, one.Epsilon}
		if recorded[at] == nil {
			recorded[at] = responses(t, l, at.question, at.epsilon)
		}
		if now := recorded[at][one.Object]; now != one.Response {
			t.Fatalf("a buyer got %v, now it is %v", one.Response, now)
		}
	}
}

// TestCrashChild is the process that gets killed. In any other it does nothing.
func TestCrashChild(t *testing.T) {
	path, run := os.Getenv(crashPath), os.Getenv(crashRun)
	if path == "" {
		return
	}
	l, err := Open(path, Options{})
	if err != nil {
		fmt.Println("open:", err)
		return
	}
	var wg sync.WaitGroup
	for seller := range 8 {
		wg.Go(func() {
			for i := range 50_000 {
				sellSomething(l, fmt.Sprintf("run %s seller %d sale %d", run, seller, i))
			}
		})
	}
	wg.Wait()
}

// sellSomething prints one answer, in one write, so that lines do not mix.
func sellSomething(l *Ledger, key string) {
	questions, names := crashQuestions(), crowd(400)
	question := questions[rand.IntN(len(questions))]
	name := names[rand.IntN(len(names))]
	epsilon, _ := privacy.EpsilonFromNano(int64(1+rand.IntN(40)) * 50_000_000)
	truth := TruthOf(question.Values[int(name[len(name)-1])%len(question.Values)])
	r, err := l.Release(context.Background(), ReleaseRequest{Key: key, Question: question.Name, Object: name, Epsilon: epsilon, Truth: truth})
	var refused *RefusedError
	if errors.As(err, &refused) {
		return // over the cap, as some must be
	}
	if err != nil {
		fmt.Printf("%s: %v\n", key, err)
		return
	}
	line, _ := json.Marshal(seen{key, r})
	_, _ = os.Stdout.Write(append(line, '\n'))
}
