package main

import (
	"bytes"
	"fmt"
	"regexp"
)

// machinePath finds folders that exist on one machine only.
var machinePath = regexp.MustCompile(`(^|[^\w./$-])/(work|root|home/[a-z]\w*|Users/\w+)/[\w.]`)

// checkPaths reports absolute paths of somebody's machine, in any kind of text file.
func checkPaths(name string, text []byte) []string {
	if bytes.IndexByte(text, 0) >= 0 {
		return nil
	}
	var found []string
	for i, line := range bytes.Split(text, []byte("\n")) {
		if m := machinePath.Find(line); m != nil && !bytes.Contains(line, []byte("shape:allow")) {
			found = append(found, fmt.Sprintf("%s:%d: a path of one machine: %q", name, i+1, m))
		}
	}
	return found
}
