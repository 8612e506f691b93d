package bolt

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// A file may have a fault for each element of its pages. The error names the first, and its size does not grow with the file.
func TestFaultList_ManyFaults_NamesTheFirst(t *testing.T) {
	var l faultList
	if l.err() != nil {
		t.Error("no fault is an error")
	}
	last := errors.New("fault 15")
	for n := range 1000 {
		if n == mostFaults-1 {
			l.add(last)
			continue
		}
		l.add(fmt.Errorf("fault %d", n))
	}
	err := l.err()
	if text := err.Error(); !errors.Is(err, last) || strings.Count(text, "\n") != mostFaults || !strings.HasSuffix(text, "and 984 faults more") {
		t.Errorf("got %s", text)
	}
}
