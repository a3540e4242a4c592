package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// link finds the targets of Markdown links.
var link = regexp.MustCompile(`\]\(([^)\s]+)\)`)

// checkLinks reports links of a Markdown file to files that do not exist. Links elsewhere are not followed.
func checkLinks(name string, text []byte) []string {
	if filepath.Ext(name) != ".md" {
		return nil
	}
	var found []string
	for i, line := range strings.Split(string(text), "\n") {
		for _, m := range link.FindAllStringSubmatch(line, -1) {
			target, _, _ := strings.Cut(m[1], "#")
			if target == "" || strings.Contains(target, ":") {
				continue
			}
			if _, err := os.Stat(filepath.Join(filepath.Dir(name), filepath.FromSlash(target))); err != nil {
				found = append(found, fmt.Sprintf("%s:%d: a link to %q, which does not exist", name, i+1, m[1]))
			}
		}
	}
	return found
}
