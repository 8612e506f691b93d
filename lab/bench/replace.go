package main

import (
	"fmt"
	"strings"
)

// section is a part of the file with measured numbers.
type section struct{ name, text string }

// replace replaces the text of sections. In the file each is between two comments:
//
//	<!-- measured: table -->
//	...
//	<!-- end of table -->
func replace(text string, sections []section) (string, error) {
	for _, s := range sections {
		first, last := "<!-- measured: "+s.name+" -->\n", "<!-- end of "+s.name+" -->"
		before, rest, found := strings.Cut(text, first)
		if !found || strings.Contains(rest, first) {
			return "", fmt.Errorf("there must be one line %q", strings.TrimSpace(first))
		}
		_, after, found := strings.Cut(rest, last)
		if !found {
			return "", fmt.Errorf("there is no line %q", last)
		}
		text = before + first + "\n" + strings.TrimSpace(s.text) + "\n\n" + last + after
	}
	return text, nil
}
