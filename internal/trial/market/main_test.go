package market

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/rs/zerolog"
)

// The tests kill the backend itself: TestMain makes this test binary be it, in the processes that the
// tests start. (The page cache survives a kill, so this cannot see a missing fsync. It sees everything
// that is forgotten, done twice or told too early.)

const childEnv = "SLUICE_SHOP_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) == "" {
		os.Setenv(childEnv, "1")
		os.Setenv("GORACE", os.Getenv("GORACE")+" atexit_sleep_ms=0") // else each child ends a second late
		os.Exit(m.Run())
	}
	if err := live(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "shop:", err)
		os.Exit(1)
	}
}

// live is one life of the backend, with its files in a directory. It is killed at a step such as "after sell", if it gets there.
func live(dir, kill string) error {
	ctx := context.Background()
	h, err := open(ctx, dir, func(step string) {
		if step == kill {
			die()
		}
	})
	if err != nil {
		return err
	}
	defer h.close()
	h.log = zerolog.New(os.Stderr)
	return h.serve(ctx, os.Stdin, os.Stdout)
}

// die ends the process as kill -9 does: nothing is flushed, closed or said.
func die() {
	self, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = self.Kill()
	}
	if err != nil {
		panic(err)
	}
	select {} // the signal may take a moment
}
