// Package view renders the results of commands. Every form renders the same value.
package view

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
)

// Format is a form in which a result can be written.
type Format string

// The formats.
const (
	Text    Format = "text"
	JSON    Format = "json"
	YAML    Format = "yaml"
	Mermaid Format = "mermaid"

	Markdown Format = "markdown"
	SARIF    Format = "sarif"
	GitHub   Format = "github"
)

// formatVersion is in every JSON document. It grows when a field is renamed, removed or changes its
// meaning; new fields do not change it.
const formatVersion = 1

// Write writes a result in one of the formats that it has. Nothing is written if it cannot be rendered.
func Write(w io.Writer, f Format, colour bool, v any) error {
	var (
		out bytes.Buffer
		err error
	)
	switch f {
	case JSON:
		err = writeJSON(&out, v)
	case YAML:
		err = writeYAML(&out, v)
	case Text:
		r, ok := v.(interface{ text(*printer) })
		if !ok {
			return fmt.Errorf("render %T as %s: it has no such form", v, f)
		}
		r.text(&printer{w: &out, colour: colour})
	case Mermaid:
		r, ok := v.(interface{ mermaid(*bytes.Buffer) })
		if !ok {
			return fmt.Errorf("render %T as %s: it has no such form", v, f)
		}
		r.mermaid(&out)
	case Markdown, SARIF, GitHub:
		r, ok := v.(interface {
			review(Format, *bytes.Buffer) error
		})
		if !ok {
			return fmt.Errorf("render %T as %s: it has no such form", v, f)
		}
		err = r.review(f, &out)
	default:
		return fmt.Errorf("render %T: unknown format %q", v, f)
	}
	if err != nil {
		return fmt.Errorf("render %T as %s: %w", v, f, err)
	}
	if _, err := w.Write(out.Bytes()); err != nil {
		return fmt.Errorf("write result: %w", err)
	}
	return nil
}

// versioned is what JSON and YAML hold: the version and the fields of the result.
func versioned(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	fields := bytes.TrimSpace(b.Bytes())
	if bytes.HasPrefix(fields, []byte(`{"format_version":`)) {
		return fields, nil
	}
	if bytes.Equal(fields, []byte("{}")) {
		return fmt.Appendf(nil, `{"format_version":%d}`, formatVersion), nil
	}
	return fmt.Appendf(nil, `{"format_version":%d,%s`, formatVersion, fields[1:]), nil
}

func writeJSON(w *bytes.Buffer, v any) error {
	data, err := versioned(v)
	if err != nil {
		return err
	}
	if err := json.Indent(w, data, "", "  "); err != nil {
		return err
	}
	return w.WriteByte('\n')
}

// printer writes text.
type printer struct {
	w      *bytes.Buffer
	colour bool
}

func (p *printer) printf(format string, args ...any) { fmt.Fprintf(p.w, format, args...) }

// The styles, as terminals take them.
const (
	bold  = "1"
	red   = "31"
	green = "32"
	dim   = "2"
)

// in returns text in a style, or as it is.
func (p *printer) in(style, text string) string {
	if !p.colour {
		return text
	}
	return "\x1b[" + style + "m" + text + "\x1b[0m"
}

// plural returns "1 queue" or "2 queues".
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
