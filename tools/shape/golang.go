package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strings"
)

const (
	maxFileLines     = 400
	maxFunctionLines = 60
)

// vague are package names that say nothing about what is in the package.
var vague = []string{"util", "utils", "common", "types", "models", "helpers"}

// source is one parsed Go file.
type source struct {
	name  string
	fset  *token.FileSet
	file  *ast.File
	found []string
}

// checkGo reports what is wrong with one Go file.
func checkGo(name string, text []byte) []string {
	s := &source{name: name, fset: token.NewFileSet()}
	var err error
	if s.file, err = parser.ParseFile(s.fset, name, text, parser.ParseComments|parser.SkipObjectResolution); err != nil {
		return []string{err.Error()}
	}
	if ast.IsGenerated(s.file) {
		return nil
	}
	if n := bytes.Count(text, []byte("\n")); n > maxFileLines {
		s.report(s.file.Package, "the file has %d lines; at most %d", n, maxFileLines)
	}
	if slices.Contains(vague, s.file.Name.Name) {
		s.report(s.file.Package, "package name %q says nothing about what is in it", s.file.Name.Name)
	}
	test := strings.HasSuffix(name, "_test.go")
	for _, d := range s.file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			s.function(d, test)
		case *ast.GenDecl:
			if !test {
				s.declaration(d)
			}
		}
	}
	if test {
		s.sleeps()
	}
	return s.found
}

func (s *source) report(at token.Pos, format string, args ...any) {
	p := s.fset.Position(at)
	if !s.allowed(p.Line) {
		s.found = append(s.found, fmt.Sprintf("%s:%d: %s", s.name, p.Line, fmt.Sprintf(format, args...)))
	}
}

// allowed reports whether the line, or the comment right before it, says that a rule is broken here.
func (s *source) allowed(line int) bool {
	for _, g := range s.file.Comments {
		for _, c := range g.List {
			why, ok := strings.CutPrefix(c.Text, "//shape:allow ")
			at := s.fset.Position(c.Pos()).Line
			if ok && strings.TrimSpace(why) != "" && (at == line || s.fset.Position(g.End()).Line == line-1) {
				return true
			}
		}
	}
	return false
}

func (s *source) function(d *ast.FuncDecl, test bool) {
	from, to := s.fset.Position(d.Pos()).Line, s.fset.Position(d.End()).Line
	n := to - from + 1
	if test {
		n -= s.data(d)
	}
	if n > maxFunctionLines {
		s.report(d.Pos(), "function %s has %d lines; at most %d", d.Name.Name, n, maxFunctionLines)
	}
	if !test && d.Name.IsExported() && exportedReceiver(d) && !documents(d.Doc, d.Name.Name) {
		s.report(d.Pos(), "exported %s has no comment that starts with its name", d.Name.Name)
	}
}

// data returns how many lines of a test are the rows of its tables: data has no length that is too long.
func (s *source) data(d *ast.FuncDecl) int {
	lines := 0
	ast.Inspect(d, func(n ast.Node) bool {
		table, ok := n.(*ast.CompositeLit)
		if !ok {
			return true
		}
		lines += s.fset.Position(table.Rbrace).Line - s.fset.Position(table.Lbrace).Line
		return false
	})
	return lines
}

// exportedReceiver reports whether the function is no method, or one of an exported type.
func exportedReceiver(d *ast.FuncDecl) bool {
	if d.Recv == nil || len(d.Recv.List) == 0 {
		return true
	}
	t := d.Recv.List[0].Type
	for {
		switch x := t.(type) {
		case *ast.StarExpr:
			t = x.X
		case *ast.IndexExpr:
			t = x.X
		case *ast.IndexListExpr:
			t = x.X
		case *ast.Ident:
			return x.IsExported()
		default:
			return true
		}
	}
}

// declaration checks that exported types, constants and variables have a comment of their own or that of
// their group.
func (s *source) declaration(d *ast.GenDecl) {
	for _, spec := range d.Specs {
		switch spec := spec.(type) {
		case *ast.TypeSpec:
			doc := spec.Doc
			if doc == nil && !d.Lparen.IsValid() {
				doc = d.Doc
			}
			if spec.Name.IsExported() && !documents(doc, spec.Name.Name) {
				s.report(spec.Pos(), "exported %s has no comment that starts with its name", spec.Name.Name)
			}
		case *ast.ValueSpec:
			if spec.Doc == nil && spec.Comment == nil && d.Doc == nil && slices.ContainsFunc(spec.Names, (*ast.Ident).IsExported) {
				s.report(spec.Pos(), "exported %s has no comment", spec.Names[0].Name)
			}
		}
	}
}

func documents(doc *ast.CommentGroup, name string) bool {
	text := doc.Text()
	for _, article := range []string{"A ", "An ", "The "} {
		text = strings.TrimPrefix(text, article)
	}
	return strings.HasPrefix(text, name)
}

// sleeps reports tests that wait for time to pass instead of for what they wait for.
func (s *source) sleeps() {
	ast.Inspect(s.file, func(n ast.Node) bool {
		if e, ok := n.(*ast.SelectorExpr); ok && e.Sel.Name == "Sleep" {
			if x, ok := e.X.(*ast.Ident); ok && x.Name == "time" {
				s.report(e.Pos(), "time.Sleep in a test; wait on what happens, or use testing/synctest")
			}
		}
		return true
	})
}
