package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/output"
	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/ledger/event"
)

// Every kind of event, whole and erased, is printed as in the golden file, which was written from
// the ledger's golden file of events.
func TestWriteEvent_GoldenEvents_AreUnchanged(t *testing.T) {
	file, err := os.Open(filepath.Join("..", "..", "ledger", "testdata", "golden", "events.jsonl"))
	check.Must(t, err)
	defer file.Close()
	want, err := os.ReadFile(filepath.Join("testdata", "events.txt"))
	check.Must(t, err)
	lines, events := strings.SplitAfter(string(want), "\n"), bufio.NewScanner(file)
	events.Buffer(nil, 1<<20)
	for ; events.Scan(); lines = lines[1:] {
		var ev event.Event
		if err := json.Unmarshal(events.Bytes(), &ev); err != nil {
			t.Fatalf("%s: %v", events.Bytes(), err)
		}
		var got bytes.Buffer
		if output.WriteEvent(&got, ev, "EUR"); got.String() != lines[0] {
			t.Fatalf("%s\nis printed as\n%swant\n%s", events.Bytes(), &got, lines[0])
		}
	}
	if err := events.Err(); err != nil || len(lines) != 1 || lines[0] != "" {
		t.Errorf("%d lines are not printed, %v", len(lines)-1, err)
	}
}
