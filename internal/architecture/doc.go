// Package architecture holds the test that keeps imports as docs/architecture.md says. It has no code of
// its own.
package architecture
