package topology

import (
	"bytes"
	"fmt"
	"unicode/utf8"
)

// acceptable reports whether the bytes may go to the YAML parser, and reports why not.
func (d *decoder) acceptable(data []byte) bool {
	refuse := func(p Position, code, message, expected, hint string) bool {
		d.add(Diagnostic{Position: p, Code: code, Message: message, Expected: expected, Hint: hint})
		return false
	}
	if len(data) > MaxFileSize {
		return refuse(d.at(1, 1), codeTooLarge, fmt.Sprintf("the file has %d bytes", len(data)),
			fmt.Sprintf("at most %d", MaxFileSize), "split the topology into files of their own names")
	}
	for _, bom := range []string{"\ufeff", "\xff\xfe", "\xfe\xff"} {
		if bytes.HasPrefix(data, []byte(bom)) {
			return refuse(d.at(1, 1), codeEncoding, "the file begins with a byte order mark",
				"UTF-8 without one", "save it as UTF-8 without BOM")
		}
	}
	line, column := 1, 1
	for i := 0; i < len(data); {
		r, size := utf8.DecodeRune(data[i:])
		switch {
		case r == utf8.RuneError && size <= 1:
			return refuse(d.at(line, column), codeEncoding, fmt.Sprintf("byte 0x%02x is not UTF-8", data[i]),
				"UTF-8", "save the file as UTF-8")
		case !printable(r):
			return refuse(d.at(line, column), codeCharacter, fmt.Sprintf("character %U", r),
				"printable text", `leave it out; in a text that needs it, write "\u…" in double quotes`)
		}
		i += size
		column++
		if r == '\n' || r == '\r' && !bytes.HasPrefix(data[i:], []byte("\n")) {
			line, column = line+1, 1
		}
	}
	return true
}

// printable reports whether YAML allows the character and editors show it; the line breaks that only
// YAML knows are not among them, since they would make positions wrong.
func printable(r rune) bool {
	switch {
	case r == '\t', r == '\n', r == '\r':
		return true
	case r < ' ', 0x7f <= r && r <= 0x9f, r == 0x2028, r == 0x2029, r == 0xfeff, r == 0xfffe, r == 0xffff:
		return false
	}
	return true
}
