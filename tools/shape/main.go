// Command shape checks the rules of this project's style that no public linter checks: lengths, comments
// on exported names, package names, sleeping tests, dead links, paths of
// one machine.
//
// A rule that would make the code worse is broken by a comment on the line before: //shape:allow and why.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

func main() {
	files, err := tracked()
	if err != nil {
		fmt.Fprintln(os.Stderr, "shape:", err)
		os.Exit(2)
	}
	var found []string
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			fmt.Fprintln(os.Stderr, "shape:", err)
			os.Exit(2)
		}
		found = append(found, check(name, text)...)
	}
	for _, line := range found {
		fmt.Println(line)
	}
	if len(found) > 0 {
		os.Exit(1)
	}
}

// tracked returns the files that git knows or would add.
func tracked() ([]string, error) {
	out, err := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard").Output()
	if err != nil {
		return nil, fmt.Errorf("list files: %w", err)
	}
	var files []string
	for name := range strings.SplitSeq(string(out), "\x00") {
		if info, err := os.Lstat(name); err == nil && info.Mode().IsRegular() {
			files = append(files, name)
		}
	}
	return files, nil
}

// check returns what is wrong with one file, a line each.
func check(name string, text []byte) []string {
	found := append(checkPaths(name, text), checkLinks(name, text)...)
	if filepath.Ext(name) == ".go" {
		found = append(found, checkGo(name, text)...)
	}
	return found
}
