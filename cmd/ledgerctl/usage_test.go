package main

import (
	"strings"
	"testing"
)

func TestWantsJSON(t *testing.T) {
	for line, want := range map[string]bool{
		"--json bogus": true, "bogus --json": true, "--json=true x": true, "x": false, "show -- --json": false, "": false,
	} {
		if got := wantsJSON(strings.Fields(line)); got != want {
			t.Errorf("wantsJSON(%q) = %v", line, got)
		}
	}
}
