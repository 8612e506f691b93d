// Package report has the common output of measurements: numbers, and a description of the machine.
package report

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// Describe returns a Markdown list that describes the machine, and the disk of a directory, with
// the measured time of a flush. Items that only Linux provides are left out on other systems.
func Describe(dir string) (string, error) {
	flush, err := flushTime(dir)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for _, fact := range [][2]string{
		{"CPU", lineOf("/proc/cpuinfo", "model name")},
		{"cores", fmt.Sprint(runtime.NumCPU())},
		{"memory", lineOf("/proc/meminfo", "MemTotal")},
		{"system", runtime.GOOS + "/" + runtime.GOARCH + ", kernel " + firstLine("/proc/sys/kernel/osrelease")},
		{"disk", diskOf(dir)},
		{"overwriting 4 KiB and syncing them (fdatasync)", flush.Round(time.Microsecond).String() + " (median)"},
		{"Go", runtime.Version()},
	} {
		if value := strings.TrimSpace(fact[1]); value != "" {
			b.WriteString("- " + fact[0] + ": " + value + "\n")
		}
	}
	return b.String(), nil
}

// LoadAverage returns the average number of runnable processes in the last minute.
func LoadAverage() string {
	load, _, found := strings.Cut(firstLine("/proc/loadavg"), " ")
	if !found {
		return "unknown"
	}
	return load
}

// lineOf returns the text after a name and a colon in a file of the kernel, or "".
func lineOf(path, name string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		if key, value, found := strings.Cut(line, ":"); found && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

func firstLine(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(string(text), "\n")
	return line
}

// diskOf returns the file system and the device of a directory, or "".
func diskOf(dir string) string {
	mounts, err := os.ReadFile("/proc/mounts")
	if err != nil {
		return ""
	}
	kind, device := mountOf(dir, string(mounts))
	switch firstLine(filepath.Join("/sys/block", device, "queue/rotational")) {
	case "0":
		device += ", solid state"
	case "1":
		device += ", rotating, or virtual and said to be"
	}
	return kind + " on " + device
}

// mountOf finds the file system and device of a directory in a list like /proc/mounts: the last of
// those that are mounted nearest above the directory.
func mountOf(dir, mounts string) (kind, device string) {
	at := ""
	for line := range strings.Lines(mounts) {
		part := strings.Fields(line)
		if len(part) >= 3 && len(part[1]) >= len(at) &&
			strings.HasPrefix(dir+"/", strings.TrimSuffix(part[1], "/")+"/") {
			device, at, kind = filepath.Base(part[0]), part[1], part[2]
		}
	}
	return kind, device
}

// flushTime returns the median time of overwriting a page and syncing it.
func flushTime(dir string) (median time.Duration, err error) {
	f, err := os.CreateTemp(dir, "flush-")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.Close(), os.Remove(f.Name())) }()
	const pages = 16
	page := make([]byte, 4096)
	for range pages {
		if _, err := f.Write(page); err != nil {
			return 0, err
		}
	}
	if err := f.Sync(); err != nil {
		return 0, err
	}
	times := make([]time.Duration, 200)
	for i := range times {
		began := time.Now()
		_, err := f.WriteAt(page, int64(i%pages*len(page)))
		if err := errors.Join(err, syncData(f)); err != nil {
			return 0, err
		}
		times[i] = time.Since(began)
	}
	slices.Sort(times)
	return times[len(times)/2], nil
}
