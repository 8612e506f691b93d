package hostile

import (
	"fmt"
	"os"
	"testing"
)

// TestMain is also the child processes of the tests, which the environment asks for.
func TestMain(m *testing.M) {
	var err error
	if path := os.Getenv(hostPath); path != "" {
		err = serveHost(path, os.Getenv(hostMode), os.Stdin, os.Stdout)
	} else if path := os.Getenv(fillPath); path != "" {
		err = runFill(path)
	} else if os.Getenv(childEnv) != "" {
		err = serve()
	} else {
		os.Exit(m.Run())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(3)
	}
}
