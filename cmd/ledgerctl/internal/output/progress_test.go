package output

import (
	"bytes"
	"testing"
)

// In a pipe nothing is shown, and nobody needs to tell how far the work is.
func TestNothingIsShownInAPipe(t *testing.T) {
	var out bytes.Buffer
	bar, feed := NewBar(&out, false, "raising")
	if feed != nil {
		t.Error("progress is asked for")
	}
	bar.Clear()
	if out.Len() > 0 {
		t.Errorf("shown: %q", &out)
	}
}
