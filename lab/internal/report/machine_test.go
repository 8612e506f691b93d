package report

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestMountOf_LongestPath_IsChosen(t *testing.T) {
	const mounts = "/dev/root / ext4 rw 0 0\ntmpfs /tmp tmpfs rw 0 0\n/dev/vdb /tmpest xfs rw 0 0\nbroken\n"
	for dir, want := range map[string]string{"/home": "ext4 root", "/tmp": "tmpfs tmpfs", "/tmp/x": "tmpfs tmpfs", "/tmpest/y": "xfs vdb"} {
		if kind, device := mountOf(dir, mounts); kind+" "+device != want {
			t.Errorf("%s is on %s %s, want %s", dir, kind, device, want)
		}
	}
}

func TestDescribe_ThisMachine_HasDiskAndVersion(t *testing.T) {
	text, err := Describe(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"- cores: ", "(fdatasync): ", "- Go: go"} {
		if !strings.Contains(text, want) {
			t.Errorf("there is no %q in\n%s", want, text)
		}
	}
	if _, err := Describe(filepath.Join(t.TempDir(), "nowhere")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got the error %v", err)
	}
}
