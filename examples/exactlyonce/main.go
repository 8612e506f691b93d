package main

import (
	"context"
	"flag"
	"fmt"
	"os"

	"github.com/rs/zerolog"
)

func main() {
	dir := flag.String("dir", "", "be the backend, with its files in this directory; without it, demonstrate")
	kill := flag.String("kill", "", `kill the backend at this step, such as "after sell"`)
	flag.Parse()
	if err := run(*dir, *kill); err != nil {
		fmt.Fprintln(os.Stderr, "exactlyonce:", err)
		os.Exit(1)
	}
}

func run(dir, kill string) error {
	ctx := context.Background()
	if dir == "" {
		return demonstrate(ctx, os.Stdout)
	}
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
