package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
)

// The released program is small enough to be copied to any host.
func TestBuild_Stripped_IsAtMost26Megabytes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledgerctl")
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-ldflags=-s -w", "-o", path, ".")
	if text, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	info, err := os.Stat(path)
	check.Must(t, err)
	if info.Size() > 26_000_000 {
		t.Errorf("it has %d bytes", info.Size())
	}
}
