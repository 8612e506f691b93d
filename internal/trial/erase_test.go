package trial

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/pace"
)

// forgetting is the call by which the first guest is forgotten.
const forgetting = 39

// secretsIn returns what a call writes to a journal of the first guest, in pieces: salts, names and responses. What a group says of the
// log around it is not among them.
func secretsIn(c *Call) (secrets [][]byte) {
	const frameHead, groupHead, piece = 16, 88, 16
	if c.Kind != Write || !inJournal(c.Path) || !bytes.Contains(c.Data, []byte(guestOf(forgetting))) {
		return nil
	}
	secrets = append(secrets, []byte(guestOf(forgetting)))
	for one := range slices.Chunk(c.Data[frameHead+groupHead:], piece) {
		if bytes.Count(one, []byte{0}) < piece/2 && len(one) == piece {
			secrets = append(secrets, one)
		}
	}
	return secrets
}

// secretsBeside returns an error if something of somebody is in any file beside a ledger's, but for copies.
func secretsBeside(path string, secrets [][]byte) error {
	return filepath.WalkDir(filepath.Dir(path), func(at string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || at == path || !inJournal(at) {
			return err
		}
		text, err := os.ReadFile(at)
		if err == nil && containsAny(text, secrets) {
			err = fmt.Errorf("%s has something of who was forgotten", at)
		}
		return err
	})
}

// forgetAgain opens a shop after somebody was, or was not, forgotten, and has that done again.
func forgetAgain(ctx context.Context, path string, secrets [][]byte) error {
	s, err := openShop(path, truths, 0)
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	defer s.ledger.Close()
	if _, err := os.Stat(path + ".journal"); err == nil {
		return fmt.Errorf("the journal of a host that is gone is there")
	}
	for _, n := range []int{forgetting, forgetting + 2, forgetting} { // something else is written in between
		if _, err := s.tell(ctx, n); err != nil && !refused(err) {
			return fmt.Errorf("call %d: %w", n, err)
		}
		if err := secretsBeside(path, secrets); err != nil {
			return fmt.Errorf("after call %d: %w", n, err)
		}
	}
	return nil
}

// whileForgetting returns what tells of one call after the other whether it is made while somebody is forgotten: by Forget, or by a checkpoint that it waits for.
func whileForgetting() func(*Call) bool {
	begun := false
	return func(c *Call) bool {
		led := callers(c)
		begun = begun || led.has("ledger.(*Ledger).Forget")
		return begun && !led.has("ledger.(*Ledger).Close")
	}
}

// TestForgettingIsEndedAnywhere ends a host at each call within Forget, and makes each of these fail. When the ledger was opened again, and
// the request was repeated, nothing of the person is in any file of a journal.
func TestForgettingIsEndedAnywhere(t *testing.T) {
	Need(t)
	begin := pace.Scratch(t)
	create(t, filepath.Join(begin, "shop.db"))
	for _, memory := range []int64{0, scarce} {
		l, calls, while := life{0, forgetting, 1, memory}, 0, whileForgetting()
		live(t, begin, nil, l, func(c *Call) bool {
			if while(c) {
				calls++
			}
			return false
		}, Proceed)
		stride, struck := pace.Stride(16, 16), 0
		for _, verdict := range []Verdict{Kill, FailIO, FailFull} {
			for at := 1 + rand.IntN(stride); at <= calls; at += stride {
				var secrets [][]byte
				n, while := 0, whileForgetting()
				s := live(t, begin, nil, l, func(c *Call) bool {
					if secrets = append(secrets, secretsIn(c)...); while(c) {
						n++
					}
					return n == at
				}, verdict)
				if s.struck != nil {
					struck++
				}
				if err := forgetAgain(t.Context(), s.path, secrets); err != nil || len(secrets) < 10 {
					t.Fatalf("verdict %d at call %d of Forget, with %d secrets: %v", verdict, at, len(secrets), err)
				}
				forget(t, s.dir)
			}
		}
		if t.Logf("%d calls while somebody is forgotten; %d times one was struck", calls, struck); calls < 12 || struck < 4 {
			t.Error("these are too few")
		}
	}
}

// TestAPowerCutWhileForgetting cuts the power after each call within Forget. When the ledger was opened again, and the request was repeated, nothing of the
// person is in any file of a journal, nor in what was one.
func TestAPowerCutWhileForgetting(t *testing.T) {
	Need(t)
	for _, memory := range []int64{0, scarce} {
		r := recordLives(t, false, episode{calls: forgetting + 1, memory: memory})
		d := check.Value(r.before())(t)
		random, scratch, images := rand.New(rand.NewPCG(rand.Uint64(), 1)), pace.Scratch(t), 0
		var secrets [][]byte
		while := whileForgetting()
		for i, e := range r.events {
			if e.told != "" {
				continue
			}
			secrets = append(secrets, secretsIn(&e.Call)...)
			check.Must(t, d.play(i, e, false))
			if !while(&e.Call) {
				continue
			}
			for range tries(1, 5, 200) {
				images++
				dir := filepath.Join(scratch, fmt.Sprint(images))
				nameless, err := d.image(random, dir)
				if err == nil {
					err = traces(dir, nameless, &heard{})
				}
				if err == nil {
					err = forgetAgain(t.Context(), filepath.Join(dir, "shop.db"), secrets)
				}
				if forget(t, dir); err != nil || len(secrets) < 10 {
					t.Fatalf("after event %d, %s of %s, with %d secrets: %v", i, e.Kind, e.Path, len(secrets), err)
				}
			}
		}
		if t.Logf("%d images", images); images < 12 {
			t.Error("these are too few")
		}
	}
}
